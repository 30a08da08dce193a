"""Scores in a file: a long run over many texts goes on where it stopped, and docs say what was judged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from db.sabotage import Score
from kernels import catalog, codec, source
from kernels.errors import FarmError
from kernels.model import Build
from workers.sabotage import Job


def read(path: Path) -> dict[tuple[str, str], Score]:
    """The newest score of every text, (kernel, kind); empty where there is no file yet.

    FarmError names the line that is no score.
    """
    found: dict[tuple[str, str], Score] = {}
    try:
        lines = path.read_text("utf8").splitlines() if path.exists() else []
    except (OSError, UnicodeDecodeError) as error:
        raise FarmError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    for number, line in enumerate(lines, 1):
        try:
            score = codec.decode(Score, json.loads(line))
        except (ValueError, RecursionError, FarmError) as error:
            raise FarmError(
                f"{path}:{number} is no score of farm sabotage --record: {error}; delete that line"
            ) from None
        found[score.kernel, score.kind] = score
    return found


def demand_writable(path: Path) -> None:
    """FarmError where no line could be added: a score takes minutes, and is said before."""
    _write(path, "")


def append(path: Path, score: Score) -> None:
    """Adds a line; FarmError where it can't be written."""
    _write(path, codec.canonical(score) + "\n")


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf8") as file:
            file.write(text)
    except OSError as error:
        raise FarmError(f"can't write {path}: {error.strerror}; name another --record") from None


def left(jobs: Sequence[Job], recorded: dict[tuple[str, str], Score]) -> list[Job]:
    """The texts that have no score of today's source, or one with a survivor."""
    return [job for job in jobs if not settled(job, recorded)]


def settled(job: Job, recorded: dict[tuple[str, str], Score]) -> bool:
    """Whether a text was judged as it is today, and nothing was left alive without an argument."""
    score = recorded.get((job.kernel, job.kind or catalog.NO_KIND))
    return score is not None and score.source_digest == digest_of(job) and not score.survivors


def digest_of(job: Job) -> str:
    """Of the source that a score of this text stands for."""
    return source.digest(job.kernel, (job.kind,) if job.kind else (), Build.EXACT)
