"""Folding: newest per case, worst over cases, and the same whatever order lines come in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from db import capability, evidence
from db.capability import CellKey, Finding, fold
from db.session import open_database
from kernels.errors import UsageError
from kernels.evidence import Evidence, Verdict
from kernels.model import Build
from tests.db.making import BOARD, Farm, case, comparison, line

UPDATED = replace(BOARD, fingerprint=(("compiler", "g++ 14"),))
KEY = CellKey("cpu-0", "host", "matvec", "block", "Q4_K", "exact", "5" * 64)


def finding(verdict: Verdict, case_id: str = "a", finished_us: int = 1, **fields: object) -> Finding:
    compared = verdict in (Verdict.PASS, Verdict.FAIL)
    values: dict[str, object] = {
        "key": KEY,
        "device_class": "cpu-x86_64",
        "case_id": case_id,
        "evidence_id": f"{case_id}-{finished_us}-{verdict}",
        "fingerprint_digest": "f",
        "verdict": verdict,
        "reason": f"because {verdict}",
        "positions": 10 if compared else 0,
        "bound_ratio": 0.5 if compared else None,
        "relative_ratio": 0.25 if compared else None,
        "nmse": 1e-9 if compared else None,
        "bit_exact": True if compared else None,
        "twin_agrees": True if compared else None,
        "finished_us": finished_us,
    }
    return Finding(**(values | fields))  # type: ignore[arg-type]


def folded(*findings: Finding) -> capability.Capability:
    found = fold(findings)
    assert found is not None
    return found


lines = st.lists(
    st.builds(
        finding,
        verdict=st.sampled_from(list(Verdict)),
        case_id=st.sampled_from("abc"),
        finished_us=st.integers(1, 4),
        fingerprint_digest=st.sampled_from("fg"),
        bound_ratio=st.sampled_from([None, 0.25, 1.5, math.inf]),
        bit_exact=st.sampled_from([None, True, False]),
    ),
    max_size=12,
    unique_by=lambda made: made.evidence_id,
)


@given(lines, st.randoms(use_true_random=False))
def test_fold_is_the_same_in_any_order(findings: list[Finding], random: object) -> None:
    shuffled = list(findings)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert fold(shuffled) == fold(findings)


@given(lines)
def test_fold_is_the_same_when_lines_repeat(findings: list[Finding]) -> None:
    assert fold(findings * 2) == fold(findings)


@given(lines)
def test_fold_needs_the_newest_of_each_verdict_only(findings: list[Finding]) -> None:
    newest: dict[tuple[str, Verdict, str], Finding] = {}
    for made in sorted(findings, key=lambda found: found.age):
        newest[made.case_id, made.verdict, made.fingerprint_digest] = made
    assert fold(newest.values()) == fold(findings)


@given(lines)
def test_fold_is_the_worst_over_what_counts_for_each_case(findings: list[Finding]) -> None:
    if findings:
        counts = [standing.counts.verdict for standing in capability.stand_all(findings)]
        worst = next(verdict for verdict in Verdict if verdict in counts)
        assert folded(*findings).verdict is worst


def test_nothing_folds_to_nothing() -> None:
    assert fold([]) is None


@pytest.mark.parametrize("worst", list(Verdict))
def test_the_worst_case_makes_the_cell(worst: Verdict) -> None:
    milder = [verdict for verdict in Verdict if capability.SEVERITY[verdict] >= capability.SEVERITY[worst]]
    cell = folded(*(finding(verdict, case_id=verdict) for verdict in milder))
    assert (cell.verdict, cell.reason) == (worst, f"because {worst}")


def test_the_newest_counts_and_not_the_last_to_arrive() -> None:
    cell = folded(finding(Verdict.PASS, finished_us=9), finding(Verdict.FAIL, finished_us=3))
    assert (cell.verdict, cell.last_run_us) == (Verdict.PASS, 9)


def test_equally_new_lines_are_told_apart_by_their_id() -> None:
    one = finding(Verdict.PASS, evidence_id="1")
    two = finding(Verdict.FAIL, evidence_id="2")
    assert folded(one, two).verdict is folded(two, one).verdict is Verdict.FAIL


@pytest.mark.parametrize("trouble", [Verdict.ERROR, Verdict.LOST])
@pytest.mark.parametrize("known", [Verdict.PASS, Verdict.FAIL, Verdict.CRASH, Verdict.SKIP])
def test_trouble_never_replaces_a_verdict_about_the_kernel(known: Verdict, trouble: Verdict) -> None:
    cell = folded(finding(known), finding(trouble, finished_us=5))
    assert cell.verdict is known
    assert cell.reason == f"because {known}; last tried: {trouble}, because {trouble}"
    assert cell.last_run_us == 5


def test_old_trouble_is_forgotten() -> None:
    cell = folded(finding(Verdict.ERROR, finished_us=1), finding(Verdict.PASS, finished_us=2))
    assert (cell.verdict, cell.reason) == (Verdict.PASS, "because PASS")


def test_trouble_with_a_case_never_seen_shows() -> None:
    assert folded(finding(Verdict.PASS, "a"), finding(Verdict.ERROR, "b")).verdict is Verdict.ERROR


def test_skips_are_counted_apart() -> None:
    cell = folded(finding(Verdict.PASS, "a"), finding(Verdict.SKIP, "b"), finding(Verdict.SKIP, "c"))
    assert (cell.verdict, cell.cases, cell.skipped, cell.positions) == (Verdict.PASS, 1, 2, 10)


def test_figures_are_the_worst_of_the_cases() -> None:
    cell = folded(
        finding(Verdict.PASS, "a", bound_ratio=0.2, nmse=1e-7),
        finding(Verdict.PASS, "b", bound_ratio=0.9, relative_ratio=math.nan, bit_exact=False),
    )
    assert (cell.bound_ratio, cell.relative_ratio, cell.nmse) == (0.9, math.inf, 1e-7)
    assert cell.bit_exact is False


def test_no_figures_where_nothing_was_compared() -> None:
    cell = folded(finding(Verdict.CRASH))
    assert (cell.bound_ratio, cell.nmse, cell.bit_exact, cell.positions) == (None, None, None, 0)


@pytest.mark.parametrize(
    ("backend", "build", "findings", "rungs"),
    [
        ("host", "exact", [finding(Verdict.PASS)], ("twin", "host", "exact")),
        ("host", "default", [finding(Verdict.PASS)], ("twin", "host")),
        ("host", "exact", [finding(Verdict.PASS, bit_exact=False)], ("twin", "host")),
        ("host", "exact", [finding(Verdict.PASS, twin_agrees=False)], ("host", "exact")),
        ("host", "exact", [finding(Verdict.FAIL)], ("twin",)),
        ("host", "exact", [finding(Verdict.CRASH)], ()),
        ("host", "exact", [finding(Verdict.SKIP)], ()),
        ("twin", "exact", [finding(Verdict.PASS)], ("twin",)),
        ("cuda", "exact", [finding(Verdict.PASS)], ("twin", "builds", "device", "exact")),
        ("cuda", "exact", [finding(Verdict.CRASH)], ("builds",)),
        ("cuda", "exact", [finding(Verdict.PASS), finding(Verdict.REJECT, "b")], ("twin",)),
        ("cuda", "exact", [finding(Verdict.LOST)], ()),
        ("nvrtc", "exact", [finding(Verdict.PASS, bit_exact=None, twin_agrees=None)], ("builds",)),
    ],
)
def test_rungs_are_what_this_cells_lines_show(
    backend: str, build: str, findings: Sequence[Finding], rungs: tuple[str, ...]
) -> None:
    key = CellKey("cpu-0", backend, "matvec", "block", "Q4_K", build, "5" * 64)
    moved = [made._replace(key=key) for made in findings]
    assert folded(*moved).rungs == rungs


def test_flaky_is_a_pass_and_a_fail_on_one_unchanged_board() -> None:
    passed, failed = finding(Verdict.PASS), finding(Verdict.FAIL, finished_us=2)
    assert folded(passed, failed).flags == ("flaky",)
    updated = finding(Verdict.FAIL, finished_us=2, fingerprint_digest="another driver")
    assert folded(passed, updated).flags == ()
    assert folded(passed, finding(Verdict.FAIL, "b")).flags == ()
    assert folded(passed, finding(Verdict.ERROR, finished_us=2)).flags == ()


made_lines = st.lists(
    st.builds(
        line,
        of=st.sampled_from([case(1), case(2), case(1, build=Build.DEFAULT)]),
        verdict=st.sampled_from(list(Verdict)),
        finished_us=st.integers(2, 6),
        device=st.sampled_from([BOARD, UPDATED]),
    ),
    min_size=1,
    max_size=8,
)


def finding_of(made: Evidence) -> Finding:
    """A finding straight from a line, past the database."""
    figures = vars(made.comparison) if made.comparison else {}
    names = ("bound_ratio", "relative_ratio", "nmse", "bit_exact", "twin_agrees")
    return finding(
        made.verdict,
        made.case_id,
        made.finished_us,
        key=evidence.key_of(made),
        evidence_id=made.evidence_id,
        fingerprint_digest=made.device.fingerprint_digest,
        reason=made.reason,
        positions=figures.get("positions", 0),
        trust="imported",  # as a bundle's
        **{name: figures.get(name) for name in names},
    )


def expected(made: Sequence[Evidence]) -> list[capability.Capability]:
    """The pure fold over everything, cell by cell."""
    keys = sorted({evidence.key_of(sent) for sent in made})
    return [folded(*(finding_of(sent) for sent in made if evidence.key_of(sent) == key)) for key in keys]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made_lines, st.integers(1, 8))
def test_folding_as_lines_come_equals_rebuilding(tmp_path: Path, made: list[Evidence], batch: int) -> None:
    path = tmp_path / "farm.db"
    path.unlink(missing_ok=True)
    database = open_database(f"sqlite:///{path}")
    for start in range(0, len(made), batch):
        with database.writing() as s:
            # The later batches claim to be stored earlier: the time of arrival must not matter.
            evidence.import_lines(s, made[start : start + batch], 100 - start)
    with database.writing() as s:
        grown = capability.cells(s)
        assert capability.rebuild(s) == len(grown)
        assert list(capability.cells(s)) == list(grown) == sorted(expected(made), key=lambda cell: cell.key)
    database.close()


def test_folding_one_cell_leaves_its_neighbours_alone(farm: Farm) -> None:
    farm.complete(line(case(1)), line(case(1, kernel="coalesced"), Verdict.FAIL))
    farm.complete(line(case(1), finished_us=30))
    with farm.database.reading() as s:
        found = {cell.key.kernel: (cell.verdict, cell.last_run_us) for cell in capability.cells(s)}
    assert found == {"block": (Verdict.PASS, 30), "coalesced": (Verdict.FAIL, 10)}


def test_one_row_a_cell(farm: Farm) -> None:
    farm.complete(
        *(line(case(rows, build=build)) for rows in (1, 2, 3) for build in (Build.EXACT, Build.DEFAULT))
    )
    with farm.database.reading() as s:
        assert s.exec_driver_sql("SELECT count(*) FROM capability").scalar_one() == 2


def test_cells_are_found_by_their_columns(farm: Farm) -> None:
    farm.complete(line(case(1)), line(case(1, kernel="coalesced")))
    with farm.database.reading() as s:
        (found,) = capability.cells(s, kernel="coalesced", device_class=BOARD.device_class)
        assert (found.key.kernel, found.device_class) == ("coalesced", "cpu-x86_64")
        assert capability.cell(s, found.key) == found
        assert capability.cells(s, op="mul_mm") == ()
        with pytest.raises(UsageError, match="no column 'colour'"):
            capability.cells(s, colour="red")


def test_standings_tell_case_by_case(farm: Farm) -> None:
    farm.complete(line(case(1)), line(case(2), Verdict.FAIL))
    with farm.database.reading() as s:
        (cell,) = capability.cells(s)
        stands = {found.counts.case_id: found.counts.verdict for found in capability.standings(s, cell.key)}
    assert stands == {case(1).id: Verdict.PASS, case(2).id: Verdict.FAIL}


def test_a_nan_ratio_is_kept_as_infinite(farm: Farm) -> None:
    farm.complete(line(case(1), Verdict.FAIL, comparison=comparison(Verdict.FAIL, bound_ratio=math.nan)))
    with farm.database.reading() as s:
        assert capability.cells(s)[0].bound_ratio == math.inf
