"""What changed: sorts of change, what counts as a regression, and farm diff."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from db.session import open_database
from farm.cli import main
from farm.difference import State, compare
from kernels.evidence import Verdict
from tests.db.making import Farm, answer, case, comparison

PLACE = ("cpu", "host", "matvec", "block", "Q4_0", "exact")
FAIL, PASS, SKIP, CRASH = Verdict.FAIL, Verdict.PASS, Verdict.SKIP, Verdict.CRASH


def state(verdict: Verdict, ratio: float | None = 0.1, source: str = "a", **more: object) -> State:
    return State(verdict, ratio, source, **more)


@pytest.mark.parametrize(
    ("was", "now", "sort", "regression"),
    [
        (state(PASS), state(FAIL), "broken", True),
        (state(SKIP), state(CRASH), "broken", True),
        (state(FAIL), state(PASS), "fixed", False),
        (state(FAIL), state(CRASH), "changed", False),
        (state(PASS), state(SKIP), "changed", False),
        (None, state(PASS), "added", False),
        (None, state(FAIL), "added", True),
        (state(PASS), None, "lost", False),
        (state(PASS, 0.1), state(PASS, 0.2), "grown", True),
        (state(PASS, 0.0), state(PASS, 0.02), "grown", True),
        (state(PASS), state(FAIL, flaky=True), "flaky", False),
        (state(PASS, build_digest="c"), state(FAIL, build_digest="c"), "same code", False),
    ],
)
def test_sorts_of_change(was: State | None, now: State | None, sort: str, regression: bool) -> None:
    before = {PLACE: was} if was else {}
    after = {PLACE: now} if now else {}
    (one,) = compare(before, after)
    assert (one.sort, one.is_regression, one.place) == (sort, regression, PLACE)


@pytest.mark.parametrize(("was", "now"), [(0.1, 0.19), (0.0, 0.019), (0.4, 0.1), (None, 0.5), (0.1, 0.1)])
def test_a_margin_that_hardly_grew_is_no_change(was: float | None, now: float) -> None:
    assert compare({PLACE: state(PASS, was)}, {PLACE: state(PASS, now)}) == ()


def test_the_factor_decides_and_equal_sources_are_told() -> None:
    sides = {PLACE: state(PASS, 0.1)}, {PLACE: state(PASS, 0.3)}
    assert [one.same_source for one in compare(*sides, factor=2.5)] == [True]
    assert compare(*sides, factor=3.5) == ()
    (one,) = compare(sides[0], {PLACE: state(PASS, 0.3, source="b")})
    assert not one.same_source


@pytest.fixture
def diff(tmp_path: Path) -> Callable[..., Result]:
    """farm diff over a database with two campaigns: three PASS; then one FAIL, and one nearer its limit.

    The FAIL is of the same board and source as the PASS before, and so flaky.
    """
    url = f"sqlite:///{tmp_path / 'farm.db'}"
    database = open_database(url)
    farm = Farm(database)
    for turn in range(2):
        farm.submit([case(rows=1), case(rows=2, kernel="coalesced"), case(rows=3, kernel="ladder_v1")])
        leases = farm.lease()
        farm.start(leases)
        for lease in leases:
            bad = turn == 1 and lease.case.kernel == "block"
            ratio = 0.9 if turn == 1 and lease.case.kernel == "coalesced" else 0.1
            made = comparison(FAIL if bad else PASS, bound_ratio=ratio)
            verdict = FAIL if bad else PASS
            farm.complete(answer(lease, verdict, comparison=made, finished_us=10 + turn))
    database.close()
    return lambda *words: CliRunner().invoke(main, ["diff", "--db", url, *words])


def test_campaigns_are_compared_by_number(diff: Callable[..., Result]) -> None:
    result = diff("1", "2", "--json")
    changes = json.loads(result.stdout)["changes"]
    assert [(one["sort"], one["cell"].split("/")[3], one["regression"]) for one in changes] == [
        ("grown", "coalesced", True),
        ("flaky", "block", False),
    ]
    assert (changes[0]["before"]["bound_ratio"], changes[0]["after"]["bound_ratio"]) == (0.1, 0.9)
    assert changes[0]["same_source"]
    assert result.exit_code == 0


def test_a_regression_is_exit_code_3_when_asked_for(diff: Callable[..., Result]) -> None:
    assert diff("1", "2", "--fail-on", "regression").exit_code == 3
    assert diff("2", "1", "--fail-on", "regression").exit_code == 0
    assert diff("2", "1", "--fail-on", "change").exit_code == 3
    assert diff("1", "1", "--fail-on", "change").exit_code == 0
    assert "3 and 3 cells, 3 on both sides: no change" in diff("1", "1").stdout


def test_exports_are_compared(diff: Callable[..., Result], tmp_path: Path) -> None:
    cell = {
        "device_class": "cpu", "backend": "host", "op": "matvec", "kernel": "block", "kind": "Q4_0",
        "build": "exact", "verdict": "PASS", "flags": [], "bound_ratio": 0.1, "source_digest": "s",
    }  # fmt: skip
    for name, verdict in (("a", "PASS"), ("b", "FAIL")):
        document = {
            "schema": 1,
            "cells": [cell | {"verdict": verdict}, cell | {"kind": "Q4_K", "verdict": None}],
        }
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    result = diff(str(tmp_path / "a.json"), str(tmp_path / "b.json"), "--fail-on", "regression")
    assert result.exit_code == 3
    assert (
        "broken    cpu/host/matvec/block/Q4_0/exact  PASS at 0.1 -> FAIL at 0.1, same source" in result.stdout
    )


def test_devices_are_compared_without_their_class(diff: Callable[..., Result]) -> None:
    assert "no change" in diff("cpu-x86_64", "cpu-0").stdout
    assert diff("cpu-x86_64", "2").exit_code == 0


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("1", "9"), 2, "no campaign 9; there are 1 to 2"),
        (("1", "h900"), 2, "no device matches 'h900'; there are a10, "),
        (("1", "none.json"), 1, "none.json: No such file"),
        (("1", "bad.json"), 1, "bad.json is no JSON export: "),
        (("1", "2", "--factor", "1"), 2, "1.0 is not in the range 1.0<x<=1000000.0"),
        (("1", "2", "--fail-on", "rain"), 2, "'rain' is not one of 'regression', 'change'"),
        (("1",), 2, "Missing argument 'B'"),
    ],
)
def test_bad_words_are_one_line(
    words: tuple[str, ...], code: int, says: str, diff: Callable[..., Result], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.json").write_text('{"schema": 1, "cells": [{}]}')
    result = diff(*words)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (code, "", 1)
    assert says in result.stderr
