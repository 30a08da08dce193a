"""The two farms that are hurt: a Ray head with nodes that join it, and a gateway with workers that pull."""

from __future__ import annotations

import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import trustme

from db import token
from db.session import open_database
from farm.cluster import ray_home
from tests.chaos.places import Disk, Network, Server
from tests.chaos.story import Action, Undo
from tests.chaos.world import Program, World

DAY_US = 86_400_000_000
AWAY_S = 9.0  # longer than a lease holds unrenewed
FULL_S = 4.0

# Machines that aren't alike: classes of one board and of two, machines with one board and with two.
MACHINES = {
    "one": "sim-large-0",
    "two": "sim-large-1,sim-small-0",
    "three": "sim-small-1",
    "four": "sim-old-0,sim-odd-0",
    "five": "sim-wide-0,sim-wide-1",
}
LIARS = ("sim-small-1",)
CHEATS = ("sim-wide-1",)


@dataclass
class Arm:
    """A farm of one kind over one database."""

    world: World
    rng: random.Random
    server: Server | None = None
    disk: Disk | None = None
    writers: int = 0  # processes that write beside the farm, each time
    wrote: int = 0  # writers so far
    writing: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def a_kill(self, name: str, programs: list[str], word: str, most: int = 10**9) -> Action:
        """Kills one process of one of the programs."""

        def do() -> tuple[str, None]:
            found = [pid for program in programs for pid in self.world.pids(program, word)]
            if not found:
                return "", None
            pid = self.rng.choice(found)
            self.world.kill([pid])
            return f"process {pid}", None

        return Action(name, do, most)

    def a_dead_machine(self, name: str, programs: list[str]) -> Action:
        """Kills everything of one machine at once; its supervisor comes back by itself."""

        def do() -> tuple[str, None]:
            program = self.rng.choice(programs)
            count = self.world.kill(self.world.pids(program))
            return f"{program}, {count} processes", None

        return Action(name, do)

    def a_freeze(self, programs: list[str]) -> Action:
        """Stops a machine for longer than its leases hold, and lets it go on as if nothing had been."""

        def do() -> tuple[str, Undo]:
            program = self.rng.choice(programs)
            pids = self.world.pids(program)
            self.world.kill(pids, signal.SIGSTOP)
            return f"{program} for {AWAY_S:g} s", Undo(
                AWAY_S, lambda: self.world.kill(pids, signal.SIGCONT) and None
            )

        return Action("freeze a machine", do)

    def of_places(self) -> list[Action]:
        """What can happen to the database, whoever writes to it."""
        actions = [Action("many writers", self._write, most=3)] if self.writers else []
        if (server := self.server) is not None:
            actions.append(Action("kill PostgreSQL", lambda: self._kill_server(server)))
        if (disk := self.disk) is not None:
            actions.append(Action("fill the disk", lambda: self._fill(disk)))
        return actions

    def _kill_server(self, server: Server) -> tuple[str, Undo]:
        return f"process {server.kill()}", Undo(2.0, server.start)

    def _fill(self, disk: Disk) -> tuple[str, Undo]:
        return f"{disk.fill() >> 20} MiB for {FULL_S:g} s", Undo(FULL_S, disk.free)

    def _write(self) -> tuple[str, None]:
        name = f"writers-{self.wrote}"
        words = ["tests.chaos.writers", self.world.url, str(self.wrote), str(self.writers)]
        self.wrote += self.writers
        program = Program(name, tuple(words), self.world.folder / name, self.world.environ(name))
        program.start()  # not the world's: it isn't started again when it has ended
        assert program.process is not None
        self.writing.append(program.process)
        return f"{self.writers} processes", None

    def await_writers(self) -> None:
        for process in self.writing:
            process.wait()


def ray_arm(arm: Arm, stack: ExitStack) -> list[Action]:
    """`farm up` on the first machine; the others join it, the last one when it is time."""
    world, port = arm.world, free_port()
    head = world.folder / "one" / ".farm"
    token_file = ray_home.token_file(head)
    up = ("farm", "up", "--foreground", f"--port={port}", "--backend=sim")
    world.add("one", *up, boards=MACHINES["one"])
    wait_for(lambda: (head / "head.json").exists(), world.programs["one"])
    host = ray_home.own_address()

    def join(name: str) -> Program:
        words = ("farm", "join", f"{host}:{port}", "--token-file", str(token_file))
        return world.add(name, *words, boards=MACHINES[name])

    nodes = list(MACHINES)[1:]
    *first, last = nodes
    for name in first:
        join(name)

    def join_last() -> tuple[str, None]:
        join(last)
        return f"{last} with {MACHINES[last]}", None

    return [
        Action("join a machine", join_last, most=1),
        arm.a_kill("kill an agent", list(MACHINES), "ray::RayAgent"),
        arm.a_kill("kill the coordinator", list(MACHINES), "ray::CoordinatorActor"),
        arm.a_kill("kill a raylet", nodes, "raylet/raylet"),
        arm.a_dead_machine("kill a machine", nodes),
        arm.a_freeze(nodes),
        arm.a_kill("kill Ray's driver", ["one"], "farm.cluster.driver"),
        arm.a_kill("kill the head", ["one"], "farm up --foreground"),
        *arm.of_places(),
    ]


def gateway_arm(arm: Arm, stack: ExitStack) -> list[Action]:
    """`farm gateway`, and a worker on each machine, one of them behind a cable."""
    world, port, actions = arm.world, free_port(), list[Action]()
    network = Network(1)
    stack.callback(network.close)
    certificates = certificates_in(world.folder / "tls", network.here)
    secret = world.folder / "bench.token"
    with open_database(world.url).writing() as s:
        now_us = time.time_ns() // 1000
        secret.write_text(
            token.create(s, "bench", devices="sim-*", now_us=now_us, expires_us=now_us + DAY_US)
        )
    secret.chmod(0o600)
    words = (
        "--host",
        "0.0.0.0",
        f"--port={port}",
        "--cert",
        certificates["cert"],
        "--key",
        certificates["key"],
    )
    world.add("gateway", "farm", "gateway", *words)
    for name, boards in MACHINES.items():
        behind = name == "four" and not network.refused
        host, prefix = (network.here, network.prefix) if behind else ("127.0.0.1", ())
        pull = ("workers", "pull", f"https://{host}:{port}", "--token-file", str(secret), "--backend", "sim")
        world.add(name, *pull, "--ca", certificates["ca"], boards=boards, prefix=prefix)

    def cut() -> tuple[str, Undo]:
        network.cut()
        return f"four for {AWAY_S:g} s", Undo(AWAY_S, network.heal)

    if network.refused:
        world.refused.append(network.refused)
    else:
        actions.append(Action("cut a network", cut))
    return [
        *actions,
        arm.a_dead_machine("kill a worker", list(MACHINES)),
        arm.a_dead_machine("kill the gateway", ["gateway"]),
        arm.a_freeze(list(MACHINES)),
        *arm.of_places(),
    ]


ARMS: dict[str, Callable[[Arm, ExitStack], list[Action]]] = {"ray": ray_arm, "gateway": gateway_arm}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("0.0.0.0", 0))
        return int(probe.getsockname()[1])


def wait_for(true: Callable[[], object], program: Program, seconds: float = 180.0) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert program.is_up, f"{program.name} has ended, saying: {program.last_line()}"
        assert time.monotonic() < until, f"{program.name} isn't up after {seconds:g} s"
        time.sleep(0.3)


def certificates_in(folder: Path, *addresses: str) -> dict[str, str]:
    folder.mkdir()
    names = {name: str(folder / f"{name}.pem") for name in ("ca", "cert", "key")}
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1", *addresses)
    authority.cert_pem.write_to_path(names["ca"])
    issued.private_key_pem.write_to_path(names["key"])
    for number, blob in enumerate(issued.cert_chain_pems):
        blob.write_to_path(names["cert"], append=number > 0)
    return names
