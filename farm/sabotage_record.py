"""Scores in a file: a long run over many texts goes on where it stopped, and docs say what was judged."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from db.sabotage import Score
from kernels import catalog, codec, source
from kernels.equivalents import Equivalent
from kernels.errors import FarmError
from kernels.model import Build
from kernels.mutants import mutants
from workers.sabotage import Job

SHOWN = 12  # digits of a case's id


@dataclass(frozen=True)
class Open:
    """What no rule killed, by name, and what it was run on: whether arguments still hold is told from it."""

    cases: tuple[str, ...]  # the first SHOWN digits of their ids
    argued: tuple[str, ...]  # alive, with an argument then
    same: tuple[str, ...]  # of which the compiler makes the right kernel's very code


@dataclass(frozen=True)
class Recorded:
    """A line of the file."""

    score: Score
    open: Open | None = None  # None in lines from before it was kept


Records = Mapping[tuple[str, str], Recorded]  # by kernel and kind


def read(path: Path) -> dict[tuple[str, str], Recorded]:
    """The newest line of every text, by kernel and kind; empty where there is no file yet.

    FarmError names the line that is no score.
    """
    found: dict[tuple[str, str], Recorded] = {}
    try:
        lines = path.read_text("utf8").splitlines() if path.exists() else []
    except (OSError, UnicodeDecodeError) as error:
        raise FarmError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    for number, line in enumerate(lines, 1):
        try:
            one = _recorded(json.loads(line))
        except (ValueError, RecursionError, FarmError) as error:
            raise FarmError(
                f"{path}:{number} is no score of farm sabotage --record: {error}; delete that line"
            ) from None
        found[one.score.kernel, one.score.kind] = one
    return found


def _recorded(body: Any) -> Recorded:
    said = body.pop("open", None) if isinstance(body, dict) else None
    return Recorded(codec.decode(Score, body), None if said is None else codec.decode(Open, said))


def demand_writable(path: Path) -> None:
    """FarmError where no line could be added: a score takes minutes, and is said before."""
    _write(path, "")


def append(path: Path, one: Recorded) -> None:
    """Adds a line; FarmError where it can't be written."""
    _write(path, codec.canonical(codec.encode(one.score) | {"open": codec.encode(one.open)}) + "\n")


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf8") as file:
            file.write(text)
    except OSError as error:
        raise FarmError(f"can't write {path}: {error.strerror}; name another --record") from None


def left(jobs: Sequence[Job], recorded: Records, entries: Sequence[Equivalent]) -> list[Job]:
    """The texts that have no line of today's source and mutants, met no more cases, or have a survivor."""
    return [job for job in jobs if not settled(job, recorded, entries)]


def settled(job: Job, recorded: Records, entries: Sequence[Equivalent]) -> bool:
    """Whether a text was judged as it is today, and `entries` argue for all that was left alive.

    It may have more cases today: they kill no fewer.
    """
    one = of_job(job, recorded)
    if one is None or one.score.survivors or one.score.source_digest != digest_of(job):
        return False
    mine = {entry.mutant for entry in entries if entry.is_about(job.kernel, job.kind)}
    now = set(cases_of(job))
    if one.open is None:
        holds = len(now) >= one.score.cases and one.score.equivalents <= len(mine)
    else:
        holds = now.issuperset(one.open.cases) and mine.issuperset(one.open.argued)
    return holds and len(mutants(job.kernel, job.kind)) == one.score.mutants


def of_job(job: Job, recorded: Records) -> Recorded | None:
    return recorded.get((job.kernel, job.kind or catalog.NO_KIND))


def cases_of(job: Job) -> tuple[str, ...]:
    """The cases that a text's mutants meet."""
    return tuple(sorted(case.id[:SHOWN] for case in catalog.quick_cases(job.kernel, job.kind)))


def digest_of(job: Job) -> str:
    """Of the source that a score of this text stands for."""
    return source.digest(job.kernel, (job.kind,) if job.kind else (), Build.EXACT)
