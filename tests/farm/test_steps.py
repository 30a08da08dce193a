"""A change of level is a step; an odd day and noise are none, and one of the same compiled code is noise."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from db.benchmark import Timed
from db.cell import CellKey
from db.session import Database, open_database
from farm.steps import Step, find
from kernels.benchmark import spread
from tests.db.making import HOST, Farm, answer, case
from tests.db.test_benchmark import times

KEY = CellKey("rtx-3060-1", "cuda", "matvec", "coalesced", "Q4_K", "default", "5" * 64)


def series(*medians: float, mad: float = 0.0, digests: str = "") -> tuple[Timed, ...]:
    """One benchmark a median; `digests` has a letter for the compiled code of each, unknown if left out."""
    made = []
    for number, median in enumerate(medians):
        figures = replace(times(median), spread=spread([median - mad, median, median + mad]))
        digest = digests[number] * 64 if digests else ""
        made.append(Timed(KEY, "rtx-3060", "4096x4096", "c" * 64, f"e{number}", digest, number, figures))
    return tuple(made)


def places(found: tuple[Step, ...]) -> list[tuple[str, float]]:
    return [(step.after.evidence_id, round(step.ratio, 3)) for step in found]


@pytest.mark.parametrize(
    ("medians", "steps"),
    [
        ((10, 10, 10, 12, 12, 12), [("e3", 1.2)]),
        ((10, 12), [("e1", 1.2)]),
        ((12, 12, 12, 10, 10), [("e3", 0.833)]),
        ((10, 10, 10, 20, 10, 10, 10), []),  # an odd day
        ((10, 10.2, 9.9, 10.1, 10.3, 9.8), []),
        ((10, 10, 10, 10.4, 10.4, 10.4), []),  # less than a twentieth
        ((10, 10, 12, 12, 15, 15), [("e2", 1.2), ("e4", 1.25)]),
        ((10,), []),
        ((), []),
    ],
)
def test_steps_are_changes_of_level(medians: tuple[float, ...], steps: list[tuple[str, float]]) -> None:
    assert places(find(series(*medians))) == steps


def test_noise_hides_a_step_of_its_own_size() -> None:
    assert find(series(10, 10, 10, 12, 12, 12, mad=1.0)) == ()
    assert len(find(series(10, 10, 10, 12, 12, 12, mad=0.1))) == 1


@pytest.mark.parametrize(
    ("digests", "sorts"),
    [("aaabbb", ["slower"]), ("aaaaaa", ["same code"]), ("", ["slower"]), ("aaaabb", ["same code"])],
)
def test_a_step_of_the_same_compiled_code_is_noise(digests: str, sorts: list[str]) -> None:
    found = find(series(10, 10, 10, 12, 12, 12, digests=digests))
    assert (places(found), [step.sort for step in found]) == ([("e3", 1.2)], sorts)


def test_campaigns_are_told_apart_by_the_steps_between_them(farm) -> None:
    database = open_database("sqlite:///.farm/farm.db")
    medians = (10.0, 10.1, 12.0, 12.1)
    ends = [stored(database, median, when) for when, median in enumerate(medians, 1)]
    database.close()
    moved = farm("diff", str(ends[1]), str(ends[2]), "--fail-on", "regression")
    assert moved.exit_code == 3
    assert "slower    cpu-0/host/matvec/block/Q4_K/exact 3x256  10.1 -> 12.0 µs, 1.20 times" in moved.stdout
    same = farm("diff", str(ends[0]), str(ends[1]), "--fail-on", "regression")
    assert (same.exit_code, "slower" in same.stdout) == (0, False)
    (step,) = json.loads(farm("diff", str(ends[1]), str(ends[2]), "--json").stdout)["steps"]
    assert (step["shape"], step["regression"], round(step["ratio"], 2)) == ("3x256", True, 1.2)


def test_a_step_of_the_same_code_is_shown_and_is_no_regression(farm) -> None:
    database = open_database("sqlite:///.farm/farm.db")
    before, after = (stored(database, median, when) for when, median in ((1, 10.0), (2, 12.0)))
    with database.writing() as s:
        s.exec_driver_sql("UPDATE benchmark SET build_digest = ?", ("c" * 64,))
    database.close()
    for fail_on in ("regression", "change"):
        told = farm("diff", str(before), str(after), "--fail-on", fail_on)
        assert told.exit_code == 0, fail_on
        assert (
            "same code cpu-0/host/matvec/block/Q4_K/exact 3x256  10.0 -> 12.0 µs, 1.20 times" in told.stdout
        )
    (step,) = json.loads(farm("diff", str(before), str(after), "--json").stdout)["steps"]
    assert (step["same_code"], step["regression"]) == (True, False)


def stored(database: Database, median_us: float, when: int) -> int:
    """A campaign of one job that was timed at `when`; its id."""
    made = Farm(database)
    campaign_id = made.submit([case(3)], [HOST])
    (leased,) = made.lease(1)
    made.start([leased])
    calm = replace(times(median_us), spread=spread([median_us]))
    made.complete(answer(leased, benchmark=calm, finished_us=when))
    return campaign_id
