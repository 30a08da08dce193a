"""The long version: python -m tests.chaos --hours 1 --jobs 100000, on every farm there is."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.chaos.arms import ARMS
from tests.chaos.runs import Report, Run, play
from tests.chaos.story import Pace, Stuck
from workers.interrupt import sigterm_interrupts


def main(words: Sequence[str] | None = None) -> int:
    """0 where every rule held, 3 where one was broken or a campaign didn't end."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0, help="of trouble, all farms together")
    parser.add_argument("--jobs", type=int, default=100_000, help="all farms together")
    parser.add_argument("--every", type=float, default=12.0, metavar="SECONDS", help="between two troubles")
    parser.add_argument("--writers", type=int, default=100, help="processes that write beside the farm")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--arm", action="append", choices=list(ARMS), default=[])
    parser.add_argument("--database", action="append", choices=("sqlite", "postgresql"), default=[])
    parser.add_argument("--only", action="append", default=[], metavar="TROUBLE", help="may be repeated")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where all is left to be looked at")
    given = parser.parse_args(words)
    try:
        with sigterm_interrupts():  # what was started is ended on the way out
            return farms(given)
    except KeyboardInterrupt:
        print("ended early; what was printed above holds", flush=True)
        return 130


def farms(given: argparse.Namespace) -> int:
    chosen = [
        (arm, database)
        for arm in given.arm or ARMS
        for database in given.database or ("postgresql", "sqlite")
    ]
    seconds, jobs = 3600 * given.hours / len(chosen), -(-given.jobs // len(chosen))
    bad = False
    with tempfile.TemporaryDirectory(prefix="farm-chaos-") as made:
        for arm, database in chosen:
            pace = Pace(seconds, jobs, given.every, patience_s=900.0)
            run = Run(arm, database, pace, given.seed, given.writers, tuple(given.only))
            print(f"\n== {arm} on {database}, {seconds:.0f} s of trouble, {jobs:,} jobs", flush=True)
            try:
                report = play(run, (given.keep or Path(made)) / f"{arm}-{database}")
            except Stuck as error:
                print(f"STUCK: {error}", flush=True)
                bad = True
                continue
            show(report)
            bad |= bool(report.broken)
    return 3 if bad else 0


def show(report: Report) -> None:
    """Prints what was done and what came of it."""
    print(f"{report.seconds:.0f} s; {report.restarts} programs were started again")
    print("done: " + ", ".join(f"{name} {count}" for name, count in report.done.items()))
    print("found: " + ", ".join(f"{name} {count:,}" for name, count in report.figures.items()))
    for line in report.refused:
        print(f"NOT DONE: {line}")
    for line in report.broken:
        print(f"BROKEN: {line}")
    print("every rule held" if not report.broken else f"{len(report.broken)} rules are broken", flush=True)


if __name__ == "__main__":
    sys.exit(main())
