"""Which simulated board does what to which attempt: a pure function, so that an audit can say it again.

plan.fault(slug, case_id, attempt_id) -> Fault        # what happens
Fault.verdict -> Verdict                              # what the board must report of it

Nothing is simulated unless the environment names a plan's file, FARM_SIM, and the boards of this machine,
FARM_SIM_BOARDS: `sim-large-0,sim-small-1`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from kernels import codec
from kernels.errors import FarmError, UsageError
from kernels.evidence import Verdict

BACKEND = "sim"
PREFIX = "sim-"  # of every simulated class, and so of its boards' slugs
PLAN_FILE = "FARM_SIM"
BOARDS = "FARM_SIM_BOARDS"
EXAM = "exam-"  # of an attempt by which a coordinator examines a board: no job is behind it
SHARE_OF = 100_000  # shares are given in so many parts
LONGEST_S = 3600
SLUG = re.compile(r"[a-z0-9_.-]+")


class Fault(StrEnum):
    """What happens to an attempt."""

    NONE = "none"
    CRASH = "crash"  # the child's process ends by a signal
    HANG = "hang"  # the child never answers
    WRONG = "wrong"  # an element of the output isn't what it should be
    SLOW = "slow"  # right, but later than a lease holds unrenewed
    LIE = "lie"  # PASS, with an output digest that nobody else has
    FLAKY = "flaky"  # as wrong, in this attempt alone

    @property
    def verdict(self) -> Verdict:
        return VERDICTS.get(self, Verdict.PASS)


VERDICTS = {
    Fault.CRASH: Verdict.CRASH,
    Fault.HANG: Verdict.TIMEOUT,
    Fault.WRONG: Verdict.FAIL,
    Fault.FLAKY: Verdict.FAIL,
}
OF_JOBS = (Fault.CRASH, Fault.HANG, Fault.WRONG, Fault.SLOW)  # the same on every board of a class
DEFAULT_SHARES = {
    "crash": 150,
    "hang": 100,
    "wrong": 2_000,
    "slow": 300,
    "lie": 2_000,
    "flaky": 1_000,
}


@dataclass(frozen=True)
class Shares:
    """How much of everything, in parts of SHARE_OF."""

    crash: int = DEFAULT_SHARES["crash"]
    hang: int = DEFAULT_SHARES["hang"]
    wrong: int = DEFAULT_SHARES["wrong"]
    slow: int = DEFAULT_SHARES["slow"]
    lie: int = DEFAULT_SHARES["lie"]  # of a liar's cases
    flaky: int = DEFAULT_SHARES["flaky"]  # of attempts

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in DEFAULT_SHARES}
        if wrong := [f"{name} is {share}" for name, share in given.items() if not 0 <= share <= SHARE_OF]:
            raise ValueError(f"{wrong[0]}; a share is from 0 to {SHARE_OF}")
        if (whole := sum(given[fault.value] for fault in OF_JOBS)) > SHARE_OF:
            raise ValueError(f"{', '.join(OF_JOBS)} make {whole} together; {SHARE_OF} is all")


@dataclass(frozen=True)
class SimPlan:
    """Everything that will go wrong on simulated boards."""

    seed: int
    shares: Shares = Shares()
    liars: tuple[str, ...] = ()  # slugs of boards that put out foreign bits now and then, and say PASS
    cheats: tuple[str, ...] = ()  # slugs of boards that say PASS whatever came out, in exams too
    deadline_s: float = 3.0  # of a case that hangs, in place of the minutes of a real one
    slow_s: float = 7.0  # longer than a lease holds unrenewed

    def __post_init__(self) -> None:
        for name, seconds in (("deadline_s", self.deadline_s), ("slow_s", self.slow_s)):
            if not 0 < seconds < LONGEST_S:
                raise ValueError(f"{name} is {seconds}; seconds are wanted, over 0 and below {LONGEST_S}")

    def fault(self, slug: str, case_id: str, attempt_id: str) -> Fault:
        """What happens to an attempt: a job's own fault first, then the board's, then this attempt's.

        Nothing does in an exam, which is of the board and not of a kernel.
        """
        if attempt_id.startswith(EXAM):
            return Fault.NONE
        drawn = self._draw("job", class_of(slug), case_id)
        for fault in OF_JOBS:
            drawn -= getattr(self.shares, fault.value)
            if drawn < 0:
                return fault
        if slug in self.liars and self._draw("lie", slug, case_id) < self.shares.lie:
            return Fault.LIE
        if self._draw("attempt", slug, case_id, attempt_id) < self.shares.flaky:
            return Fault.FLAKY
        return Fault.NONE

    def _draw(self, *words: str) -> int:
        """An integer in [0, SHARE_OF), the same for the same words wherever it is asked for."""
        told = hashlib.sha256("/".join((str(self.seed), *words)).encode()).digest()
        return int.from_bytes(told[:8], "big") % SHARE_OF


def class_of(slug: str) -> str:
    """sim-large-0 is a board of the class sim-large."""
    return slug.rpartition("-")[0]


def is_simulated(backend: str, slug: str) -> bool:
    """Whether a line or a cell is of a simulation, whoever brought it."""
    return backend == BACKEND or slug.startswith(PREFIX)


def is_planned(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether anything is to be simulated here."""
    return bool(environ.get(PLAN_FILE))


def read(environ: Mapping[str, str] = os.environ) -> SimPlan:
    """The plan that the environment names; FarmError where it can't be read."""
    path = Path(environ.get(PLAN_FILE, ""))
    try:
        return codec.decode(SimPlan, json.loads(path.read_text(encoding="utf8")))
    except (OSError, ValueError, codec.CodecError) as error:
        raise FarmError(f"{PLAN_FILE}={path} is no plan of a simulation: {error}") from None


def boards(environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Slugs of the boards that this machine plays; UsageError for one that could be taken for a real one."""
    slugs = tuple(slug for word in environ.get(BOARDS, "").split(",") if (slug := word.strip()))
    for slug in slugs:
        if not (SLUG.fullmatch(slug) and class_of(slug).startswith(PREFIX)):
            raise UsageError(f"{BOARDS}: {slug!r} isn't named as a simulated board is: {PREFIX}CLASS-NUMBER")
    return slugs
