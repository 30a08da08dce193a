"""Cases, boards, lines and a small farm for the tests of this room."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from db import campaign, device, loss, outcome, queue
from db.epoch import raise_epoch
from db.evidence import Entry, append
from db.job import JobRow, PlannedCase, Target, job_row
from db.loss import Losses, reclaim_all
from db.outcome import Outcome
from db.queue import Leased, Worker
from db.session import Database, open_database, open_existing
from kernels.benchmark import Benchmark, Limit, Mark, Spread
from kernels.built import BuildRecord
from kernels.errors import FarmError
from kernels.evidence import Comparison, Evidence, LaunchRecord, Rule, Verdict, Worst
from kernels.model import Build, Case, Device, Seeded, Shape

BOARD = Device("cpu-0", "cpu-x86_64", "Some CPU", "uuid-0", 2, (("compiler", "g++ 12"),))
WORKER = Worker("worker-0", BOARD.slug, BOARD.device_class, ("host",))
HOST = Target("host", BOARD.device_class)
SOURCE = "5" * 64
SPREAD = Spread(3, 2.0, 1.0, 3.0, 0.5)
PAUSE_S = 0.005  # between jobs of a head: SQLite has no queue of writers, and a newcomer must find a gap


def case(rows: int = 1, kernel: str = "block", build: Build = Build.EXACT, seed: int = 0) -> Case:
    inputs = Seeded("ordinary", seed, 1)
    return Case("matvec", kernel, ("Q4_K",), Shape.of(rows=rows, cols=256), inputs, inputs, build)


def planned(cases: Sequence[Case]) -> list[PlannedCase]:
    return [PlannedCase(case, 1, SOURCE, "") for case in cases]


def comparison(verdict: Verdict = Verdict.PASS, **figures: object) -> Comparison:
    made = Comparison(verdict, "", "oracle", 10, 0, 0.5, 0.25, True, 1e-9, True, True, None)
    return replace(made, **figures)


def line(
    of: Case, verdict: Verdict = Verdict.PASS, attempt_id: str = "", finished_us: int = 10, **fields: object
) -> Evidence:
    made = Evidence(
        evidence_id=str(uuid.uuid4()),
        case=of,
        case_id=of.id,
        source_digest=SOURCE,
        inputs_digest="",
        output_digest="",
        device=BOARD,
        backend="host",
        verdict=verdict,
        reason="" if verdict is Verdict.PASS else f"because {verdict}",
        comparison=comparison(verdict) if verdict in (Verdict.PASS, Verdict.FAIL) else None,
        repeats=1,
        launches=(),
        compiler="g++ 12",
        flags="",
        started_us=finished_us - 1,
        finished_us=finished_us,
        versions=(("numpy", "2.4"),),
        attempt_id=attempt_id,
    )
    return replace(made, **fields)


def rich() -> Evidence:
    """A line with something in every field."""
    build = BuildRecord(
        "matvec/block", "Q4_K", "entry", "sm_86", 256, 40, 8, 8, 0, 0, 0, 1, 0.5, "blocks", "c" * 64, 9, ""
    )
    return line(
        case(1),
        Verdict.FAIL,
        comparison=comparison(
            Verdict.FAIL, worst=Worst(0, "matvec/block", "out", (3,), 2.0, 1.0, 1.0, 0.1, "00ff")
        ),
        launches=(LaunchRecord("matvec/block", "entry", (1, 1, 1), (256, 1, 1), 0, 1024, "d", 1.5),),
        builds=(build,),
        frame_digest="f" * 64,
        rule_verdict=Verdict.FAIL,
        substitutes=("__dp4a",),
        timings_us=(("launch", 1.0),),
        benchmark=Benchmark(
            SPREAD, 100, 1, 1, 1, 100, 0, 0, 0, "d", (Mark("copy", 9, SPREAD),), (Limit("copy", 1.0, "b"),)
        ),
    )


def answer(leased: Leased, verdict: Verdict = Verdict.PASS, **fields: object) -> Evidence:
    """The line that a worker would send for a lease."""
    return line(leased.case, verdict, leased.attempt_id, source_digest=leased.source_digest, **fields)


@dataclass
class Farm:
    """A database with one board, under an epoch; every call is a transaction of its own."""

    database: Database
    epoch: int = 0

    def __post_init__(self) -> None:
        with self.database.writing() as s:
            device.see(s, BOARD, 1)
            self.epoch = raise_epoch(s, 1)

    def submit(self, cases: Sequence[Case], targets: Sequence[Target] = (HOST,), priority: int = 0) -> int:
        with self.database.writing() as s:
            return campaign.create(
                s,
                selection="{}",
                rule=Rule.BOUND,
                planned=planned(cases),
                targets=targets,
                now_us=1,
                priority=priority,
            )

    def lease(
        self, limit: int = 100, worker: Worker = WORKER, peers: Sequence[Worker] = ()
    ) -> tuple[Leased, ...]:
        with self.database.writing() as s:
            return queue.lease(s, self.epoch, worker, limit, 2, peers)

    def owes(self, worker: Worker = WORKER) -> bool:
        with self.database.reading() as s:
            return queue.owes(s, worker)

    def start(self, leases: Sequence[Leased]) -> None:
        with self.database.writing() as s:
            queue.start(s, self.epoch, [leased.attempt_id for leased in leases], 3)

    def lose(self, leases: Sequence[Leased], now_us: int = 4) -> Losses:
        with self.database.writing() as s:
            return loss.lose(s, self.epoch, [lease.attempt_id for lease in leases], now_us, "worker gone")

    def complete(self, *lines: Evidence) -> tuple[Outcome, ...]:
        with self.database.writing() as s:
            return outcome.complete_many(s, self.epoch, lines, 20)

    def job(self, job_id: int) -> JobRow:
        with self.database.reading() as s:
            return job_row(s, job_id)


def claim(url: str, epoch: int, worker_id: str) -> list[int]:
    """Leases two by two until nothing is left: the body of a process of its own."""
    database = open_existing(url)
    claimed: list[int] = []
    while True:
        with database.writing() as s:
            leases = queue.lease(s, epoch, replace(WORKER, worker_id=worker_id), 2, 2)
        if not leases:
            database.close()
            return claimed
        claimed += [leased.job_id for leased in leases]


def open_and_count(url: str) -> int:
    """Opens a database that may not be there yet; for processes that start at the same time."""
    database = open_database(url)
    with database.writing() as s:
        campaign.create(s, selection="{}", rule=Rule.BOUND, planned=[], targets=[], now_us=1)
        count = len(campaign.campaigns(s))
    database.close()
    return count


def work_until_refused(url: str, most: int, begin: Any, told: Any) -> None:
    """A head of its own: at `begin` it takes over, then does job after job until it must stop or did `most`.

    Tells "ready", then "began" after its first job, then (jobs done, complaint).
    """
    database, done, complaint = open_existing(url), 0, ""
    told.put("ready")
    begin.wait()
    try:
        farm = Farm(database)
        with database.writing() as s:
            reclaim_all(s, farm.epoch, 2)
        while done < most and (leases := farm.lease(1)):
            farm.complete(*(answer(leased) for leased in leases))
            done += 1
            if done == 1:
                told.put("began")
            time.sleep(PAUSE_S)
    except FarmError as error:
        complaint = str(error)
    database.close()
    told.put((done, complaint))


def write_lines(url: str, writer: int, writes: int) -> int:
    """Stores lines one by one, each in a transaction of its own; how many there were."""
    database = open_existing(url)
    of = case(1 + writer)
    for turn in range(writes):
        made = replace(line(of, finished_us=10 + turn), evidence_id=f"{writer}-{turn}")
        with database.writing() as s:
            append(s, [Entry(made, None, folded=True)], 20)
    database.close()
    return writes
