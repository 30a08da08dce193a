"""A thousand asyncio clients of one coordinator, in the real protocol as JSON: who starves, what it costs.

FARM_BENCH_CLIENTS and FARM_BENCH_SECONDS scale it down. A client leases a few no-op cases, works on each for
a while, renews in between and completes them, as an agent does; they share a process of their own.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import random
import statistics
import tempfile
import time
import uuid
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.road import COMPARED, submit
from db.session import open_database
from farm.coordinator import Coordinator
from kernels import catalog, codec
from kernels.evidence import Verdict
from tests.db.making import BOARD
from workers import json_calls
from workers.protocol import Ask, Complete, Hello, Lease, Leases, Renew, Welcome
from workers.request import Request
from workers.runner import ended, new_id

CLIENTS = int(os.environ.get("FARM_BENCH_CLIENTS", "1000"))
SECONDS = float(os.environ.get("FARM_BENCH_SECONDS", "30"))
JOBS = 100 * CLIENTS
AT_ONCE = 4  # leases of a client
CASE_S = 1.0  # that a case is said to take


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="farm-bench-") as folder:
        url = f"sqlite:///{folder}/farm.db"
        database = open_database(url)
        submit(database, JOBS)
        database.close()
        sock = str(Path(folder) / "socket")
        ours, theirs = multiprocessing.get_context("spawn").Pipe()
        server = multiprocessing.get_context("spawn").Process(target=serve, args=(url, sock, theirs))
        server.start()
        ours.recv()
        done, waits = asyncio.run(clients(sock))
        ours.send("end")
        cpu_s, wall_s = ours.recv()
        server.join()
    idle = sum(count == 0 for count in done)
    print(f"{CLIENTS} clients, {sum(done):,} jobs in {wall_s:.0f} s: {sum(done) / wall_s:,.0f} a second")
    print(f"  jobs of a client: least {min(done)}, median {statistics.median(done):.0f}, most {max(done)};"
          f" {idle} got none (goal 0)")  # fmt: skip
    p99 = statistics.quantiles(waits, n=100)[98]
    print(f"  a call waits {statistics.median(waits) * 1e3:.0f} ms, p99 {p99 * 1e3:.0f} ms")
    print(f"  the coordinator used {cpu_s / wall_s:.2f} of a core (goal 1)")


def serve(url: str, sock: str, told: Connection) -> None:
    """The coordinator behind a socket: a line in, a line out."""
    asyncio.run(_serve(url, sock, told))


async def _serve(url: str, sock: str, told: Connection) -> None:
    coordinator = Coordinator(open_database(url), catalog.digest())

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            call, _, text = line.decode().partition(" ")
            answer = json_calls.text_of(await coordinator.answer(json_calls.message_of(call, text)))
            writer.write(answer.encode() + b"\n")
            await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(serve_one, sock, limit=1 << 24, backlog=2 * CLIENTS)
    told.send("ready")
    wall, cpu = time.monotonic(), time.process_time()
    await asyncio.to_thread(told.recv)
    told.send((time.process_time() - cpu, time.monotonic() - wall))
    server.close()
    coordinator.close()


async def clients(sock: str) -> tuple[list[int], list[float]]:
    """Jobs that each client did, and seconds that calls took."""
    waits: list[float] = []
    until = time.monotonic() + SECONDS
    done = await asyncio.gather(*(Client(sock, number, waits).run(until) for number in range(CLIENTS)))
    return list(done), waits


class Client:
    """One worker of the protocol."""

    def __init__(self, sock: str, number: int, waits: list[float]) -> None:
        self._sock, self._waits = sock, waits
        self._board = replace(BOARD, slug=f"cpu-{number}", uuid=f"uuid-{number}", slots=1)
        self._id = str(uuid.uuid4())
        self._random = random.Random(number)

    async def run(self, until: float) -> int:
        await asyncio.sleep(self._random.random())
        self._reader, self._writer = await asyncio.open_unix_connection(self._sock, limit=1 << 24)
        hello = Hello(self._id, self._board, ("host",), catalog.digest())
        self._epoch = (await self._call("hello", hello, Welcome)).epoch
        done = 0
        while time.monotonic() < until:
            found = await self._call("lease", Ask(self._id, self._epoch, AT_ONCE), Leases)
            if found.leases:
                done += await self._work(found.leases)
            else:
                await asyncio.sleep(found.retry_after_s)
        self._writer.close()
        return done

    async def _work(self, leases: tuple[Lease, ...]) -> int:
        names = tuple(lease.attempt_id for lease in leases)
        for place, name in enumerate(names):
            await asyncio.sleep(CASE_S * (0.5 + self._random.random()))
            await self._call("renew", Renew(self._id, self._epoch, names[place:], (name,)), None)
        lines = tuple(self._line(lease) for lease in leases)
        await self._call("complete", Complete(self._id, self._epoch, lines), None)
        return len(lines)

    def _line(self, lease: Lease) -> Any:
        request = Request(new_id(), lease.case, lease.backend, self._board, attempt_id=lease.attempt_id)
        now_us = time.time_ns() // 1000
        line = ended(request, Verdict.PASS, "", now_us - 1, now_us)
        return replace(line, source_digest=lease.source_digest, comparison=COMPARED)

    async def _call(self, call: str, message: Any, answers: Any) -> Any:
        began = time.perf_counter()
        self._writer.write(f"{call} {codec.canonical(message)}\n".encode())
        await self._writer.drain()
        said = json.loads(await self._reader.readline())
        self._waits.append(time.perf_counter() - began)
        return codec.decode(answers, said[answers.__name__]) if answers else said


if __name__ == "__main__":
    main()
