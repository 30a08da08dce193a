"""What is pruned: nothing that a cell or a kept job rests on."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
import sqlalchemy as sa

from db import blob, campaign, capability, check, evidence, pack, prune, tables
from db.session import Database
from kernels.errors import FarmError
from kernels.evidence import Rule, Verdict
from tests.db.making import BOARD, HOST, Farm, answer, case, line, planned


def pruned(farm: Farm, before_us: int = 1000) -> dict[str, int]:
    """What went, by noun; the database is whole before and after, and its cells are the same."""
    with farm.database.writing() as s:
        cells = capability.cells(s)
        removed = prune.prune(s, before_us)
        assert capability.cells(s) == cells
    with farm.database.reading() as s:
        assert check.check(s).complaints == ()
    return {item.noun: item.rows for item in removed if item.rows}


def ran(farm: Farm, *verdicts: Verdict, closed_us: int | None = 30, finished_us: int = 10) -> int:
    """A campaign whose first jobs ended so."""
    campaign_id = farm.submit([case(rows) for rows in range(1, len(verdicts) + 1)])
    for leased, verdict in zip(farm.lease(), verdicts, strict=True):
        farm.complete(answer(leased, verdict, finished_us=finished_us))
    if closed_us is not None:
        with farm.database.writing() as s:
            campaign.close_finished(s, closed_us)
    return campaign_id


def lines(farm: Farm) -> int:
    with farm.database.reading() as s:
        return s.execute(sa.select(sa.func.count()).select_from(tables.evidence)).scalar_one()


def test_the_newest_line_of_every_case_stays(farm: Farm) -> None:
    for turn in range(3):
        ran(farm, Verdict.PASS, Verdict.PASS, finished_us=10 + turn)
    assert pruned(farm) == {"attempts": 6, "jobs": 6, "campaigns": 3, "lines of evidence": 4}
    assert lines(farm) == 2
    assert pruned(farm) == {}


def test_what_a_verdict_its_trouble_and_its_flags_are_made_of_stays(farm: Farm) -> None:
    """A pass, a newer fail that makes the cell flaky, an error after it: three lines of one case."""
    verdicts = (Verdict.PASS, Verdict.FAIL, Verdict.ERROR)
    for turn, verdict in enumerate((*verdicts, *verdicts)):
        ran(farm, verdict, finished_us=10 + turn)
    assert pruned(farm)["lines of evidence"] == 3
    with farm.database.reading() as s:
        (cell,) = capability.cells(s)
        assert (cell.verdict, cell.flags) == (Verdict.FAIL, ("flaky",))
        assert "last tried: ERROR" in cell.reason


def test_every_state_of_a_board_and_every_source_has_its_own_newest_line(farm: Farm) -> None:
    newer = replace(BOARD, fingerprint=(("compiler", "g++ 13"),))
    made = [
        line(case(1), finished_us=1),
        line(case(1), finished_us=2),
        line(case(1), device=newer),
        line(case(1), source_digest="6" * 64),
        line(case(1), backend="twin"),
    ]
    with farm.database.writing() as s:
        evidence.import_lines(s, made, 30)
    assert pruned(farm) == {"lines of evidence": 1}


def test_what_is_young_or_open_stays(farm: Farm) -> None:
    ran(farm, Verdict.PASS, closed_us=None)
    ran(farm, Verdict.PASS, closed_us=2000, finished_us=11)
    with farm.database.writing() as s:
        evidence.import_lines(s, [line(case(1), finished_us=1)], 2000)
    assert pruned(farm, before_us=1000) == {}
    assert lines(farm) == 3


def test_the_campaign_of_a_retry_that_is_kept_stays(farm: Farm) -> None:
    first = ran(farm, Verdict.FAIL)
    with farm.database.writing() as s:
        campaign.create(
            s, selection="{}", rule=Rule.BOUND, planned=planned([case(1)]), targets=[HOST], now_us=40,
            retry_of=first,
        )  # fmt: skip
    assert pruned(farm) == {}


def test_cases_and_texts_that_nothing_is_about_go_with_their_lines(farm: Farm) -> None:
    ran(farm, Verdict.PASS)
    catalog = pack.StoredPack(hashlib.sha256(b"catalog").hexdigest(), "d", (), b"catalog")
    with farm.database.writing() as s:
        pack.put(s, catalog, 1)
        blob.put_source(s, "5" * 64, (blob.SourceText("matvec/block", "Q4_K", "kept"),))
        blob.put_source(s, "7" * 64, (blob.SourceText("matvec/block", "Q4_K", "gone"),))
        s.execute(sa.insert(tables.cases).values(case_id="a" * 64, inputs_key="k", case_json="{}"))
    assert pruned(farm) == {"attempts": 1, "jobs": 1, "campaigns": 1, "cases": 1, "source texts": 1}
    with farm.database.reading() as s:
        assert [text.text for text in blob.source_texts(s, "5" * 64)] == ["kept"]
        assert pack.get(s, catalog.address) == b"catalog"


def test_nothing_goes_where_a_cell_would_change(farm: Farm) -> None:
    ran(farm, Verdict.PASS)
    with farm.database.writing() as s:
        s.execute(sa.update(tables.capability).values(positions=7))
    with (
        pytest.raises(FarmError, match="a cell would change; nothing is removed"),
        farm.database.writing() as s,
    ):
        prune.prune(s, 1000)
    with farm.database.reading() as s:
        assert len(campaign.campaigns(s)) == 1


def test_an_empty_database_has_nothing_to_prune(database: Database) -> None:
    with database.writing() as s:
        assert {item.rows for item in prune.prune(s, 1)} == {0}
