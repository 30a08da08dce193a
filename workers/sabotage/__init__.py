"""Mutation testing on the host: compiles wrong kernels in batches and says which rule kills each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Fate(StrEnum):
    """What became of a mutant: the first rule that kills it, in the order in which the runner looks."""

    COMPILE = "compile"  # refused by the compiler: not counted
    SAME = "same"  # the check build makes of it the right kernel's very code: nothing can kill it
    CRASH = "crash"  # a wild access, a divergent barrier, a write to an input, the end of its process
    TIMEOUT = "timeout"
    GUARDS = "guards"  # bytes written around a buffer
    UNWRITTEN = "unwritten"
    BOUND = "bound"
    BITS = "bits"  # within the bound, but not the twin's bits, which the right kernel gives
    ORDERS = "orders"  # another result when lanes, warps and blocks run in the other order
    CHECK = "check"  # only the check build sees it: a race, an index past its array
    SURVIVED = "survived"

    @property
    def killed(self) -> bool:
        return self not in (Fate.COMPILE, Fate.SAME, Fate.SURVIVED)


@dataclass(frozen=True)
class Job:
    """The mutants of one kernel's texts for a kind."""

    kernel: str  # op/name
    kind: str  # empty for none
    only: tuple[str, ...] = ()  # names of mutants; empty takes all
    pack: str = ""  # address of the user's catalog that the kernel is in; empty for the farm's own
    packs: str = ""  # the folder that packs lie in, each under its address


@dataclass(frozen=True)
class Judgement:
    """One mutant judged; `relative` and `nmse` say whether those rules alone would have seen it."""

    mutant: str
    fate: Fate
    case: str  # the case that killed it; empty for none
    reason: str
    relative: bool
    nmse: bool


@dataclass(frozen=True)
class Report:
    """What one job's process says at its end."""

    cases: int
    seconds: float
    failure: str = ""  # why nothing can be said, for example that the right kernel itself fails
