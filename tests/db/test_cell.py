"""A cell: newest per case, worst over cases, and the same whatever order lines come in."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.cell import SEVERITY, Capability, CellKey, Finding, fold, stand_all
from kernels.evidence import Verdict

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
    return Finding(**(values | fields))


def folded(*findings: Finding) -> Capability:
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
    random.shuffle(shuffled)
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
        counts = [standing.counts.verdict for standing in stand_all(findings)]
        worst = next(verdict for verdict in Verdict if verdict in counts)
        assert folded(*findings).verdict is worst


def test_nothing_folds_to_nothing() -> None:
    assert fold([]) is None


@pytest.mark.parametrize("worst", list(Verdict))
def test_the_worst_case_makes_the_cell(worst: Verdict) -> None:
    milder = [verdict for verdict in Verdict if SEVERITY[verdict] >= SEVERITY[worst]]
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
    assert cell.last_run_us == 1


@pytest.mark.parametrize("silent", [Verdict.ERROR, Verdict.LOST, Verdict.SKIP])
@pytest.mark.parametrize("ran", [Verdict.PASS, Verdict.FAIL, Verdict.CRASH, Verdict.TIMEOUT, Verdict.REJECT])
def test_a_cell_is_dated_by_what_ran(ran: Verdict, silent: Verdict) -> None:
    cell = folded(finding(ran, "a", 2), finding(ran, "b", 3), finding(silent, "c", 9))
    assert (cell.last_run_us, cell.cases + cell.skipped) == (3, 3)


def test_a_cell_in_which_nothing_ran_is_dated_by_what_it_says() -> None:
    cell = folded(
        finding(Verdict.SKIP, "a", 4), finding(Verdict.LOST, "b", 2), finding(Verdict.ERROR, "b", 3)
    )
    assert (cell.verdict, cell.last_run_us) == (Verdict.ERROR, 4)


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
