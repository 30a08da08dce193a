"""One cell as a value: what its lines amount to, whatever their order and however often each of them comes.

fold(findings) -> Capability | None
stand_all(findings) -> list[Standing]                  # the verdict that counts, case by case
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from typing import NamedTuple

from kernels.evidence import Verdict
from kernels.model import Build

SEVERITY = {verdict: place for place, verdict in enumerate(Verdict)}
RUNG_OF_PASS = {"host": "host", "cuda": "device"}  # the backends that execute the CUDA text
TROUBLE = "last tried"  # in a reason, before an ERROR or LOST that changed no verdict
BUILDS_CUBIN = ("cuda", "nvrtc")
# Of a line, least first: a bundle's, a stranger's machine, one of yours.
TRUST = ("imported", "rented", "own")
RUNGS = ("twin", "host", "builds", "device", "exact", "timed")


class CellKey(NamedTuple):
    """What a capability is about; this and what a fold handles are tuples, since every line makes some."""

    device: str
    backend: str
    op: str
    kernel: str
    kind: str
    build: str
    source_digest: str


class Finding(NamedTuple):
    """What a fold needs of one evidence line."""

    key: CellKey
    device_class: str
    case_id: str
    evidence_id: str
    fingerprint_digest: str  # of the board with its driver and compiler
    verdict: Verdict
    reason: str
    positions: int
    bound_ratio: float | None  # None, as the other figures, where nothing was compared
    relative_ratio: float | None
    nmse: float | None
    bit_exact: bool | None
    twin_agrees: bool | None
    finished_us: int
    build_digest: str = ""  # of the code that was compiled; empty where not known
    notes: str = ""  # what its author should know of the build, joined by commas
    suspect: bool = False  # its board was set aside since
    trust: str = "own"  # of TRUST

    @property
    def age(self) -> tuple[int, str]:
        """Orders lines by when they finished, never by when they arrived."""
        return self.finished_us, self.evidence_id


class Standing(NamedTuple):
    """Where one case of a cell stands."""

    counts: Finding  # the newest about the kernel, or the newest of all where none is
    trouble: Finding | None  # a newer ERROR or LOST, which changes no verdict
    flaky: bool  # on one unchanged board this source passed this case and was bad at it, too


class Capability(NamedTuple):
    """One cell: verdict, what it rests on and when it last ran."""

    key: CellKey
    device_class: str
    verdict: Verdict
    reason: str
    rungs: tuple[str, ...]  # in the order of RUNGS; what this cell's own evidence shows
    flags: tuple[str, ...]  # flaky, suspect, spills, one-block; a reader adds stale
    cases: int  # with another verdict than SKIP
    skipped: int
    positions: int
    bound_ratio: float | None  # largest over the cases
    relative_ratio: float | None
    nmse: float | None
    bit_exact: bool | None
    last_run_us: int  # of the lines that count, ERROR, LOST and SKIP only where nothing else was said
    build_digest: str = ""  # that all its cases share; empty where they don't, or where it isn't known
    trust: str = "own"  # least over the lines that count


def holds_for(ran: Capability, built: Capability | None) -> bool:
    """Whether a verdict about an older source is true of the one that `built` compiled for the same sm.

    It is where the code came out the same, under equal flags, geometry, arguments and twin: nothing that runs
    or judges has changed.
    """
    return (
        built is not None
        and built.verdict is Verdict.PASS
        and ran.verdict.about_kernel
        and ran.build_digest == built.build_digest != ""
        and row_of(ran) == row_of(built)
    )


def row_of(found: Capability) -> tuple[str, str, str, str]:
    """What a cell is about, apart from where it ran and with which source."""
    key = found.key
    return key.op, key.kernel, key.kind, key.build


def fold(findings: Iterable[Finding]) -> Capability | None:
    """What one cell's lines amount to; None for none. Order and repeats of lines don't matter."""
    stand = stand_all(findings)
    if not stand:
        return None
    counted = [standing.counts for standing in stand]
    verdict = min((finding.verdict for finding in counted), key=SEVERITY.__getitem__)
    ran = [finding for finding in counted if finding.verdict is not Verdict.SKIP]
    exact = [finding.bit_exact for finding in ran if finding.bit_exact is not None]
    key = counted[0].key
    about_kernel = [finding for finding in ran if finding.verdict.about_kernel]
    newest = max(about_kernel or counted, key=lambda finding: finding.age)
    return Capability(
        key=key,
        device_class=newest.device_class,
        verdict=verdict,
        reason=_reason(verdict, stand),
        rungs=_rungs(key, verdict, ran),
        flags=("flaky",) * any(standing.flaky for standing in stand)
        + ("suspect",) * any(finding.suspect for finding in counted)
        + _notes(ran),
        cases=len(ran),
        skipped=len(counted) - len(ran),
        positions=sum(finding.positions for finding in ran),
        bound_ratio=largest(finding.bound_ratio for finding in ran),
        relative_ratio=largest(finding.relative_ratio for finding in ran),
        nmse=largest(finding.nmse for finding in ran),
        bit_exact=all(exact) if exact else None,
        last_run_us=newest.finished_us,
        build_digest=_shared({finding.build_digest for finding in ran}),
        trust=least_trusted(finding.trust for finding in counted),
    )


def least_trusted(words: Iterable[str]) -> str:
    """The least of TRUST; a word that nobody knows is worth no more than that."""
    return TRUST[min(TRUST.index(word) if word in TRUST else 0 for word in words)]


def _notes(ran: Sequence[Finding]) -> tuple[str, ...]:
    return tuple(sorted({note for finding in ran for note in finding.notes.split(",") if note}))


def _shared(values: Set[str]) -> str:
    """The one value; empty where there are several."""
    return next(iter(values)) if len(values) == 1 else ""


def stand_all(findings: Iterable[Finding]) -> list[Standing]:
    """Where each case of one cell stands, by case id."""
    by_case: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        by_case[finding.case_id].append(finding)
    return [standing(by_case[case_id]) for case_id in sorted(by_case)]


def standing(findings: Sequence[Finding]) -> Standing:
    """Where one case stands, given lines about it and no other."""
    newest = max(findings, key=lambda finding: finding.age)
    about_kernel = [finding for finding in findings if finding.verdict.about_kernel]
    counts = max(about_kernel, key=lambda finding: finding.age, default=newest)
    passed = {finding.fingerprint_digest for finding in about_kernel if finding.verdict is Verdict.PASS}
    flaky = any(finding.verdict.bad and finding.fingerprint_digest in passed for finding in about_kernel)
    return Standing(
        counts, newest if newest is not counts and not newest.verdict.about_kernel else None, flaky
    )


def _reason(verdict: Verdict, stand: Sequence[Standing]) -> str:
    """The newest reason for the cell's verdict, then the newest trouble that changed nothing."""
    of_verdict = [standing.counts for standing in stand if standing.counts.verdict is verdict]
    parts = [max(of_verdict, key=lambda finding: finding.age).reason]
    trouble = [standing.trouble for standing in stand if standing.trouble]
    if trouble:
        last = max(trouble, key=lambda finding: finding.age)
        parts.append(f"{TROUBLE}: {last.verdict}, {last.reason}")
    return "; ".join(part for part in parts if part)


def _rungs(key: CellKey, verdict: Verdict, ran: Sequence[Finding]) -> tuple[str, ...]:
    agrees = [finding.twin_agrees for finding in ran if finding.twin_agrees is not None]
    passed = verdict is Verdict.PASS and key.backend in RUNG_OF_PASS
    reached = {
        "twin": bool(agrees) and all(agrees),
        RUNG_OF_PASS.get(key.backend, ""): passed,
        "builds": key.backend in BUILDS_CUBIN and any(_was_built(f) for f in ran) and not _rejected(ran),
        "exact": passed and key.build == Build.EXACT and all(finding.bit_exact for finding in ran),
    }
    return tuple(rung for rung in RUNGS if reached.get(rung))


def _was_built(finding: Finding) -> bool:
    return finding.verdict.about_kernel and finding.verdict is not Verdict.REJECT


def _rejected(ran: Sequence[Finding]) -> bool:
    return any(finding.verdict is Verdict.REJECT for finding in ran)


def largest(figures: Iterable[float | None]) -> float | None:
    """The largest of the figures that there are; a NaN is larger than any."""
    there = [math.inf if math.isnan(figure) else figure for figure in figures if figure is not None]
    return max(there, default=None)
