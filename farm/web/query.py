"""The filter line of the matrix: `verdict:fail kind:Q4_K sm:>=86 since:30d flag:stale coalesced`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from db.agreement import LEVELS
from db.cell import RUNGS
from farm.marks import FLAGS
from farm.matrix import Cell, Column
from kernels.errors import UnknownName, UsageError
from kernels.evidence import Verdict

NEVER, BAD = "never", "bad"
DAYS = re.compile(r"(\d{1,4})d")
NUMBER = re.compile(r"(>=|<=|>|<|=)?(\d{1,9}(?:\.\d{1,9})?)")
LEVEL = re.compile(r"(>=|<=|>|<|=)?(\w+)")
COMPARE: dict[str, Callable[[float, float], bool]] = {
    "": operator.eq, "=": operator.eq, ">=": operator.ge, "<=": operator.le,
    ">": operator.gt, "<": operator.lt,
}  # fmt: skip
DAY_US = 86_400_000_000
MOST_LENGTH = 500
DATED = {"since", "before"}  # keys that count from now

Test = Callable[[Cell, Column, int], bool]  # cell, its column, now in microseconds


@dataclass(frozen=True)
class Query:
    """What all of a line's words ask for together; words of one key are alternatives."""

    text: str
    tests: tuple[tuple[Test, ...], ...]

    @property
    def first(self) -> dict[str, str]:
        """The first value of every key."""
        words = (word.partition(":") for word in reversed(self.text.split()))
        return {key.lower(): value for key, colon, value in words if colon}

    @property
    def is_dated(self) -> bool:
        """Whether what fits is another tomorrow."""
        return not DATED.isdisjoint(self.first)

    def fits(self, cell: Cell, column: Column, now_us: int) -> bool:
        return all(any(test(cell, column, now_us) for test in either) for either in self.tests)


def parse(text: str) -> Query:
    """The query of a line; UsageError names the keys, or the values of a key, that there are."""
    if len(text) > MOST_LENGTH:
        raise UsageError(f"a filter of {len(text)} characters; {MOST_LENGTH} are the most")
    by_key: dict[str, list[Test]] = {}
    for number, word in enumerate(text.split()):
        key, colon, value = word.partition(":")
        if not colon:
            by_key[f"word {number}"] = [_anywhere(word)]  # every free word counts
        elif key.lower() not in KEYS:
            raise UnknownName("filter", key, list(KEYS))
        elif not value:
            raise UsageError(f"filter {key}: without a value; write {KEYS[key.lower()][1]}")
        else:
            by_key.setdefault(key.lower(), []).append(KEYS[key.lower()][0](value))
    return Query(" ".join(text.split()), tuple(map(tuple, by_key.values())))


def with_words(text: str, chosen: Mapping[str, str]) -> str:
    """A line in which each key has the value chosen and no other; an empty one takes the key out."""
    kept = [word for word in text.split() if word.partition(":")[0].lower() not in chosen]
    return " ".join([*kept, *(f"{key}:{value}" for key, value in chosen.items() if value)])


def _anywhere(word: str) -> Test:
    wanted = word.lower()
    return lambda cell, column, now_us: wanted in f"{cell.name} {column.name}".lower()


def _glob(part: Callable[[Cell, Column], str]) -> Callable[[str], Test]:
    def make(value: str) -> Test:
        wanted = value.lower()
        return lambda cell, column, now_us: fnmatchcase(part(cell, column).lower(), wanted)

    return make


def _kind(value: str) -> Test:
    wanted = value.upper()
    return lambda cell, column, now_us: wanted in (cell.kind.upper(), *cell.kind.upper().split("+"))


def _device(value: str) -> Test:
    wanted = value.lower()
    return lambda cell, column, now_us: any(
        fnmatchcase(word.lower(), wanted)
        for word in (cell.device_class, cell.device or "", column.name, column.uuid)
    )


def _verdict(value: str) -> Test:
    wanted = value.lower()
    known = [NEVER, BAD, *(verdict.lower() for verdict in Verdict)]
    if wanted not in known:
        raise UnknownName("verdict", value, known)
    if wanted == NEVER:
        return lambda cell, column, now_us: cell.verdict is None
    if wanted == BAD:
        return lambda cell, column, now_us: cell.verdict is not None and cell.verdict.bad
    return lambda cell, column, now_us: cell.verdict == wanted.upper()


def _flag(value: str) -> Test:
    if value.lower() not in FLAGS:
        raise UnknownName("flag", value, list(FLAGS))
    return lambda cell, column, now_us: value.lower() in cell.flags


def _rung(value: str) -> Test:
    if value.lower() not in RUNGS:
        raise UnknownName("rung", value, list(RUNGS))
    return lambda cell, column, now_us: value.lower() in cell.rungs


def _trust(value: str) -> Test:
    found = LEVEL.fullmatch(value.lower())
    level = found[2] if found else value
    if level not in LEVELS:
        raise UnknownName("level of trust", level, list(LEVELS))
    compare, wanted = COMPARE[(found and found[1]) or ""], LEVELS.index(level)
    return lambda cell, column, now_us: bool(cell.trust) and compare(LEVELS.index(cell.trust), wanted)


def _sm(value: str) -> Test:
    compare, wanted = _number("sm", value)

    def test(cell: Cell, column: Column, now_us: int) -> bool:
        digits = column.sm.removeprefix("sm_")
        return digits.isdigit() and compare(float(digits), wanted)

    return test


def _margin(value: str) -> Test:
    compare, wanted = _number("margin", value)
    return lambda cell, column, now_us: cell.bound_ratio is not None and compare(cell.bound_ratio, wanted)


def _since(value: str) -> Test:
    days = _days("since", value)
    return lambda cell, column, now_us: (cell.last_run_us or 0) >= now_us - days * DAY_US


def _before(value: str) -> Test:
    days = _days("before", value)
    return lambda cell, column, now_us: 0 < (cell.last_run_us or 0) < now_us - days * DAY_US


def _number(key: str, value: str) -> tuple[Callable[[float, float], bool], float]:
    found = NUMBER.fullmatch(value.replace("sm_", "", 1))
    if not found:
        raise UsageError(f"filter {key}:{value} is no number; write {KEYS[key][1]}")
    return COMPARE[found[1] or ""], float(found[2])


def _days(key: str, value: str) -> int:
    found = DAYS.fullmatch(value.lower())
    if not found:
        raise UsageError(f"filter {key}:{value} is no number of days; write {KEYS[key][1]}")
    return int(found[1])


# Key -> what makes its test of a value, and an example.
KEYS: dict[str, tuple[Callable[[str], Test], str]] = {
    "verdict": (_verdict, "verdict:fail, verdict:bad or verdict:never"),
    "op": (_glob(lambda cell, column: cell.op), "op:matvec"),
    "kernel": (_glob(lambda cell, column: cell.kernel), "kernel:coalesced or kernel:ladder*"),
    "kind": (_kind, "kind:Q4_K, mixes with it included"),
    "build": (_glob(lambda cell, column: cell.build), "build:exact"),
    "backend": (_glob(lambda cell, column: cell.backend), "backend:cuda"),
    "device": (_device, "device:rtx-30*"),
    "sm": (_sm, "sm:86 or sm:>=86"),
    "since": (_since, "since:30d, run within 30 days"),
    "before": (_before, "before:90d, run, but not within 90 days"),
    "flag": (_flag, "flag:stale"),
    "rung": (_rung, "rung:exact"),
    "trust": (_trust, "trust:suspect or trust:>=own"),
    "margin": (_margin, "margin:>0.5, of the limit"),
}
