"""Cells over time: every source's lines, a board's states, ends of campaigns, verdicts of days gone by."""

from __future__ import annotations

from dataclasses import replace

from db import evidence, history
from db.history import Place
from kernels.evidence import Verdict
from tests.db.making import BOARD, Farm, answer, case, line

OLD = "9" * 64


def place_of(device: str) -> Place:
    made = case(1)
    return Place(device, "host", made.op, made.kernel, made.kind, made.build.value)


def test_lines_of_a_cell_are_those_of_all_its_sources_newest_first(farm: Farm) -> None:
    farm.submit([case(1)])
    (leased,) = farm.lease()
    farm.complete(answer(leased, Verdict.FAIL, finished_us=30))
    with farm.database.writing() as s:
        evidence.import_lines(s, [line(case(1), source_digest=OLD, finished_us=20)], 40)
        evidence.import_lines(s, [line(case(2), source_digest=OLD, finished_us=10)], 40)
        found = history.lines(s, [place_of(BOARD.slug)], 9)
        assert history.lines(s, [place_of(BOARD.slug)], 2) == found[:2]
        assert history.lines(s, [place_of("another")], 9) == ()
    assert [(one.verdict, one.finished_us, one.campaign_id) for one in found] == [
        (Verdict.FAIL, 30, 1), (Verdict.PASS, 20, None), (Verdict.PASS, 10, None),
    ]  # fmt: skip
    assert {one.source_digest for one in found[1:]} == {OLD}


def test_a_board_has_a_state_for_every_driver_and_the_first_good_one_shows(farm: Farm) -> None:
    first, then = (replace(BOARD, fingerprint=(("driver", word),)) for word in ("525.1", "550.2"))
    with farm.database.writing() as s:
        evidence.import_lines(s, [line(case(1), Verdict.FAIL, device=first, finished_us=10)], 40)
        evidence.import_lines(s, [line(case(1), device=then, finished_us=20)], 40)
        found = [state for state in history.states(s, BOARD.slug) if state.verdicts]
    assert [(dict(state.device.fingerprint)["driver"], state.is_good) for state in found] == [
        ("525.1", False), ("550.2", True),
    ]  # fmt: skip
    assert found[0].verdicts == ((Verdict.FAIL, 1),)


def test_a_campaigns_cell_is_the_worst_of_its_jobs(farm: Farm) -> None:
    farm.submit([case(1), case(2)])
    first, second = farm.lease()
    farm.complete(answer(first), answer(second, Verdict.FAIL))
    with farm.database.reading() as s:
        assert history.ends(s, 1) == {place_of(BOARD.device_class): Verdict.FAIL}
        assert history.ends(s, 2) == {}


def test_verdicts_of_a_day_gone_by_are_those_of_the_newest_lines_until_then(farm: Farm) -> None:
    with farm.database.writing() as s:
        lines = [line(case(1), verdict, finished_us=us)
                 for verdict, us in ((Verdict.FAIL, 10), (Verdict.PASS, 20), (Verdict.LOST, 30))]  # fmt: skip
        evidence.import_lines(s, lines, 40)
        here = place_of(BOARD.device_class)
        assert history.as_of(s, 9) == {}
        assert history.as_of(s, 15) == {here: Verdict.FAIL}
        assert history.as_of(s, 99) == {here: Verdict.PASS}  # LOST says nothing about the kernel
