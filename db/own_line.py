"""The lines that the coordinator itself writes: for what no worker can tell any more, or need not try."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.evidence import Evidence, Verdict
from kernels.model import Case, Device


@dataclass(frozen=True)
class About:
    """What a line is about."""

    case: Case
    case_id: str
    source_digest: str
    inputs_digest: str
    board: Device
    backend: str
    repeats: int
    attempt_id: str = ""


def own_line(
    evidence_id: str, about: About, verdict: Verdict, reason: str, during: tuple[int, int]
) -> Evidence:
    """Evidence without outputs; `during` is when it started and finished, in microseconds since 1970."""
    return Evidence(
        evidence_id=evidence_id,
        case=about.case,
        case_id=about.case_id,
        source_digest=about.source_digest,
        inputs_digest=about.inputs_digest,
        output_digest="",
        device=about.board,
        backend=about.backend,
        verdict=verdict,
        reason=reason,
        comparison=None,
        repeats=about.repeats,
        launches=(),
        compiler="",
        flags="",
        started_us=during[0],
        finished_us=during[1],
        versions=(),
        attempt_id=about.attempt_id,
        origin="coordinator",
    )
