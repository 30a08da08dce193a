"""`python -m workers.sabotage`: reads jobs as lines, judges their mutants, writes a line for each."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Iterator

from kernels import codec
from kernels.errors import FarmError
from kernels.mutants import mutants
from workers import packs
from workers.child import die_with_parent, limit
from workers.sabotage import Job, Judgement, Report
from workers.sabotage.bench import judge_mutants
from workers.sabotage.fixture import fixtures
from workers.sabotage.text import texts

MAX_FILE_BYTES = 64 << 20  # what a mutant may write to any one file


def main() -> None:
    die_with_parent()
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_FSIZE, MAX_FILE_BYTES)
    for line in sys.stdin:
        for value in serve(codec.decode(Job, json.loads(line))):
            print(json.dumps(codec.tagged(value)), flush=True)


def serve(job: Job) -> Iterator[Judgement | Report]:
    """A judgement a mutant, and a report at the end, whatever happens."""
    began, cases, failure = time.monotonic(), 0, ""
    try:
        with packs.searched(job):
            ready = fixtures(job.kernel, job.kind)
            if not (cases := len(ready)):
                raise FarmError("op or kernel refuse every one of its quick cases")
            chosen = [m for m in mutants(job.kernel, job.kind) if not job.only or m.name in job.only]
            yield from judge_mutants(texts(job.kernel, job.kind, ready[0].options), chosen, ready)
    except FarmError as error:
        failure = str(error)
    yield Report(cases, time.monotonic() - began, failure)


if __name__ == "__main__":
    main()
