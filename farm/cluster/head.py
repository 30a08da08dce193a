"""A head: Ray's and the farm's, supervised; what is lost is made again from the database."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from db.session import Database, open_database, passwords_in
from farm.cluster import driver, head_file, probe, ray_home
from farm.cluster.head_file import HeadFile, label_of
from farm.cluster.private import address_of
from farm.cluster.ray_process import RayProcess, die_with_parent
from farm.cluster.signals import stopped_by_signals
from farm.drive import only_farm_on
from farm.log import logger
from kernels.errors import FarmError
from workers.boards import gpus, resources
from workers.log import writing_to
from workers.state import state_folder

GLANCE_S = 0.2
STOP_S = 30.0  # for a driver to end its agents
LIVES = 5  # of Ray, one after another, none of which lasted
LASTED_S = 60.0
LOG = logger("head")


@dataclass(frozen=True)
class Words:
    """What `farm up` was told."""

    url: str
    host: str = ""  # the address that others reach this machine by; empty: looked up
    port: int = 0  # 0: any
    firewalled: bool = False
    backends: tuple[str, ...] = ()
    gateway: str = ""  # farm.gateway.place.Place as JSON; empty for none
    no_worker: bool = False  # this machine works on no case


class Head:
    """Runs until stopped; `ready` is called whenever Ray and coordinator are up."""

    def __init__(self, words: Words, ready: Callable[[HeadFile], None], say: Callable[[str], None]) -> None:
        self._words = words
        self._ready = ready
        self._say = say
        self._stopping = threading.Event()
        self._port = words.port

    def stop(self, *_: object) -> None:
        self._stopping.set()

    def run(self) -> None:
        """FarmError where it can't start, or where another head takes the database."""
        host = own_host(self._words.host, self._words.firewalled)
        if running := head_file.running():
            raise FarmError(f"a head runs here already (process {running.pid}); farm down ends it")
        database = open_database(self._words.url)
        secrets = passwords_in(database.engine.url)
        with only_farm_on(database), stopped_by_signals(self.stop), writing_to("head", secrets=secrets):
            try:
                self._live(database, host)
            finally:
                head_file.remove()

    def _live(self, database: Database, host: str) -> None:
        """One Ray after another, until stopped or until none lasts."""
        short = 0
        while not self._stopping.is_set():
            began = time.monotonic()
            lost = self._one_life(database, host)
            if self._stopping.is_set():
                return
            short = 0 if time.monotonic() - began > LASTED_S else short + 1
            if short >= LIVES:
                raise FarmError(f"Ray ended {LIVES} times within {LASTED_S:g} s of its start: {lost}")
            self._say(f"{lost}; another Ray takes its place")
            LOG.warning("another Ray takes its place", reason=lost)

    def _one_life(self, database: Database, host: str) -> str:
        """Runs a Ray and its driver; how it was lost, or nothing where it was stopped."""
        home = state_folder()
        token = ray_home.token_file(home)
        with ray_home.ray_environment(token, home), node(head_words(host, self._port), home) as process:
            address = process.address()
            self._port = probe.split(address)[1]
            with driver_of(address, database, self._words) as (child, said):
                while child.poll() is None and process.alive() and not self._stopping.wait(GLANCE_S):
                    if said.ready():
                        self._publish(database, address, process.ports(), said.gateway)
                if child.poll() == driver.FINAL:
                    raise FarmError(said.last())
            return f"Ray's head ended: {process.last_line()}" if not process.alive() else "Ray's driver ended"

    def _publish(self, database: Database, address: str, open_: tuple[int, ...], gateway: str) -> None:
        pid, ports = os.getpid(), rays_own(open_, gateway)
        head = HeadFile(pid, head_file.born(pid), address, ports, label_of(database), gateway)
        head_file.write(head)
        LOG.info("ready", address=address, ports=list(ports), database=head.database)
        self._ready(head)


def rays_own(ports: Iterable[int], gateway: str) -> tuple[int, ...]:
    """Without the gateway's, which its driver listens on."""
    return tuple(port for port in ports if not gateway or port != urlsplit(gateway).port)


class Said:
    """What a driver printed, read by a thread so that it never waits for us."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self._lines: list[str] = []
        self.gateway = ""  # its address, once there is one
        self._told = False
        self._thread = threading.Thread(target=self._read, args=(child,), daemon=True)
        self._thread.start()

    def ready(self) -> bool:
        """True once, when it is."""
        if self._told or "ready" not in self._lines:
            return False
        self._told = True
        return True

    def last(self) -> str:
        self._thread.join(1.0)
        return self._lines[-1] if self._lines else "the head ended without a word"

    def _read(self, child: subprocess.Popen[str]) -> None:
        assert child.stdout is not None  # it was asked for
        for line in map(str.strip, child.stdout):
            word, _, rest = line.partition(" ")
            if word == "gateway":
                self.gateway = rest
            self._lines.append(line)


@contextmanager
def driver_of(address: str, database: Database, words: Words) -> Iterator[tuple[subprocess.Popen[str], Said]]:
    """A driver that ends with the block; the database's address goes by its environment, unseen by others."""
    spared = "spared" if words.no_worker else ""
    command = [sys.executable, "-m", "farm.cluster.driver", address, words.gateway, spared, *words.backends]
    environ = os.environ | {"FARM_DB": address_of(database)}
    # A head that is killed takes its Ray along: a driver would go on asking it for minutes.
    dies = partial(die_with_parent, signal.SIGKILL)
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True, preexec_fn=dies) as child:
        try:
            yield child, Said(child)
        finally:
            child.terminate()
            try:
                child.wait(STOP_S)
            except subprocess.TimeoutExpired:
                child.kill()


def head_words(host: str, port: int) -> tuple[str, ...]:
    return "--head", f"--port={port}", f"--node-ip-address={host}", "--include-dashboard=false"


@contextmanager
def node(words: tuple[str, ...], home: Path) -> Iterator[RayProcess]:
    """A Ray node that ends with the block; it declares this machine's boards."""
    declared = resources(gpus())
    told = (f"--resources={json.dumps(declared)}",) if declared else ()
    process = RayProcess((*words, *told), home / "ray.log", dict(os.environ))
    try:
        yield process
    finally:
        process.stop()


def own_host(told: str, firewalled: bool) -> str:
    """The address that others reach this machine by, looked up unless told.

    FarmError where it, or that of any other interface, is public and nobody declared a firewall.
    """
    if told:
        ray_home.demand_address(told)
    host = told or ray_home.own_address()
    firewalled = firewalled or ray_home.is_firewalled()
    ray_home.refuse_public((host, *ray_home.own_addresses()), firewalled, "--firewalled")
    return host
