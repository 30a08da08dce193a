"""What a child process is asked to run and what it answers, as values that cross as JSON."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.evidence import Evidence, Rule
from kernels.model import Case, Device


@dataclass(frozen=True)
class Request:
    """One case to run on one device; its evidence will carry the same evidence id."""

    evidence_id: str  # a UUID made by the worker when it starts the case
    case: Case
    backend: str
    device: Device
    repeats: int = 1
    rule: Rule = Rule.BOUND
    attempt_id: str = ""  # empty for a case run alone
    source_digest: str = ""  # that the case must have here; empty accepts any
    inputs_digest: str = ""  # that the inputs must have here; empty accepts any
    output: str = ""  # where to write the last output buffer as .npy; empty writes none
    pack: str = ""  # address of the user's catalog that the case's kernel is in; empty for the farm's own
    bench: bool = False  # whether it is timed where it passes
    packs: str = ""  # the folder that packs lie in, each under its address
    last: bool = False  # whether the child ends by itself once it has answered


@dataclass(frozen=True)
class Answer:
    """A child's word on one request: the phase it enters, or the evidence that ends it."""

    evidence_id: str  # of the request; an answer to another one is dropped
    phase: str = ""
    evidence: Evidence | None = None


# The phases in which the kernel's own code runs or has run: what goes wrong elsewhere is not its fault.
KERNEL_PHASES = ("launch", "compare")
READY = "ready"  # a child's first word, to no request
SPOILED = "spoiled"  # guard bands were broken: this child's memory is no longer to be trusted
