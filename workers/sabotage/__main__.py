"""`python -m workers.sabotage`: reads jobs as lines, judges their mutants, writes a line for each."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Iterator

from kernels import codec, source
from kernels.errors import FarmError
from kernels.mutants import mutants
from workers.child import die_with_parent, limit
from workers.sabotage import Job, Judgement, Report
from workers.sabotage.bench import judge_mutants
from workers.sabotage.fixture import fixtures

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
        ready = fixtures(job.kernel, job.kind)
        cases = len(ready)
        chosen = [m for m in mutants(job.kernel, job.kind) if not job.only or m.name in job.only]
        yield from judge_mutants(source.text(job.kernel, job.kind), chosen, ready)
    except FarmError as error:
        failure = str(error)
    yield Report(cases, time.monotonic() - began, failure)


if __name__ == "__main__":
    main()
