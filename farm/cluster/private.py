"""A Ray of the farm's own on this machine: private token, no dashboard, and nothing left when it ends."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

from db.campaign import CampaignRow
from db.complaint import DatabaseTrouble
from db.session import Database, open_existing, passwords_in
from farm.cluster import ray_home
from farm.coordinator import Coordinator
from farm.exam import Examiner
from farm.progress import Bar
from farm.stored_metrics import Stored
from kernels import catalog
from kernels.errors import FarmError
from workers import json_calls
from workers.boards import Board, gpus, resources
from workers.files import FileStore
from workers.log import writing_to
from workers.protocol import Hello, Unreachable
from workers.state import state_folder

NAMESPACE = "farm"
COORDINATOR = "coordinator"
OBJECT_STORE_BYTES = 80 << 20  # Ray wants 75 MiB; messages are small and don't go through it
CALLS_AT_ONCE = 2048  # to the coordinator: they wait for the writer, not for each other, and hold no thread
GLANCE_S = 0.2
ANSWER_S = 5.0  # between looks at what is left of Ray, where the coordinator doesn't answer
STOP_S = 10.0  # for the running cases to end at Ctrl-C
TROUBLE_S = 1.0  # between looks at a database that doesn't answer
MAX_DEATHS = 5  # of one board's agents in a campaign; more is a machine that can't run the farm


class CoordinatorActor:
    """A coordinator in a process of its own, where it opens the database itself.

    Ray runs all methods of an actor on one event loop where one of them can be awaited. So none waits there:
    what does is done in threads, and calls that wait for the writer hold none.
    """

    def __init__(self, url: str, catalog_digest: str, examines: bool = False) -> None:
        self._logging = writing_to("coordinator", secrets=passwords_in(url))
        self._logging.__enter__()  # to the end of the process, which is the actor's
        database = when_there(url)
        examiner = Examiner() if examines else None
        self._coordinator = Coordinator(database, catalog_digest, examiner=examiner)
        self._coordinator.recorder.metrics.add(Stored(database))

    async def metrics(self) -> bytes:
        """What Prometheus scrapes."""
        return await asyncio.to_thread(self._coordinator.recorder.metrics.text)

    async def tick(self) -> int:
        return await asyncio.to_thread(self._coordinator.tick)

    async def progress(self, campaign_id: int) -> CampaignRow:
        return await asyncio.to_thread(self._coordinator.progress, campaign_id)

    async def note_boards(self) -> None:
        await asyncio.to_thread(self._coordinator.note_boards)

    async def call(self, name: str, text: str) -> str:
        """One of the calls, as JSON; Unreachable while the database is in trouble."""
        try:
            return await json_calls.answer_apart(self._coordinator.answer_apart, name, text)
        except DatabaseTrouble as error:
            raise Unreachable(str(error)) from None


def when_there(url: str) -> Database:
    """The database, once it answers: Ray gives an actor up that fails as it is made."""
    while True:
        try:
            return open_existing(url)
        except DatabaseTrouble:
            time.sleep(TROUBLE_S)


def start_coordinator(ray: Any, url: str, examines: bool = False) -> Any:
    """The coordinator's actor: detached, restarted by Ray; agents repeat what it may not have heard.

    It stays on the driver's node: another one may lack the database's file, and comes and goes.
    """
    from workers.ray_agent import on  # imported here: the module imports ray

    options = on(ray.get_runtime_context().get_node_id()) | {
        "name": COORDINATOR,
        "lifetime": "detached",
        "num_cpus": 0,
        "max_concurrency": CALLS_AT_ONCE,
        "max_restarts": -1,  # a new one raises the epoch; agents say hello again
        "max_task_retries": 0,  # evidence ids make a repeated line harmless, and agents repeat by themselves
    }
    return ray.remote(CoordinatorActor).options(**options).remote(url, catalog.digest(), examines)


def run(database: Database, campaign_id: int, boards: Sequence[Board], bar: Bar) -> CampaignRow:
    """Runs a campaign on a Ray that lives as long as this call; closed, or nothing here can go on with it."""
    home = state_folder()
    token = ray_home.token_file(home)
    with ray_home.ray_environment(token, home), started(home) as ray:
        ports = ", ".join(map(str, ray_home.listening_ports(os.getpid())))
        bar.note(
            f"farm: Ray listens on every interface, ports {ports} and others as it starts processes; "
            f"only with the token in {token}"
        )
        farm = Farm(ray, database, campaign_id, bar)
        try:
            return farm.watch(boards)
        except ray.exceptions.RayError as error:
            raise FarmError(f"{one_line(error)}; farm resume {campaign_id} continues") from None
        finally:
            farm.end()


def exposed() -> str:
    """Why a Ray of its own would be open to the internet; empty where it wouldn't."""
    if ray_home.is_firewalled():
        return ""
    address = ray_home.public_among((ray_home.own_address(), *ray_home.own_addresses()))
    return f"Ray listens on every interface and this machine's address {address} is public" if address else ""


@contextmanager
def started(home: Path) -> Iterator[Any]:
    """The module ray, with a cluster of ours running; what Ray prints goes to a log in the state folder."""
    with ExitStack() as stack:
        log = stack.enter_context((home / "ray.log").open("w", encoding="utf8"))
        stack.enter_context(redirect_stdout(log))
        stack.enter_context(redirect_stderr(log))
        stack.enter_context(descriptors_to(log.fileno()))
        folder = ray_home.make_folder()
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        # Imported here: it reads the environment, and the command line must not wait for it.
        import ray

        stack.callback(ray.shutdown)
        try:
            ray.init(
                address="local",
                num_cpus=0,  # no worker before an actor asks for one
                num_gpus=0,
                resources=resources(gpus()) or None,
                object_store_memory=OBJECT_STORE_BYTES,
                include_dashboard=False,
                namespace=NAMESPACE,
                log_to_driver=False,
                logging_level=logging.CRITICAL,
                _temp_dir=folder,
            )
        except Exception as error:  # noqa: BLE001 - Ray raises whatever went wrong in its processes
            raise FarmError(f"Ray did not start: {one_line(error)}; see {log.name}, or use --local") from None
        yield ray


@contextmanager
def descriptors_to(log: int) -> Iterator[None]:
    """Sends this process's standard output and error elsewhere: Ray's C++ parts know no other place."""
    copies = {number: os.dup(number) for number in (1, 2)}
    for number in copies:
        os.dup2(log, number)
    try:
        yield
    finally:
        for number, copy in copies.items():
            os.dup2(copy, number)
            os.close(copy)


def one_line(error: BaseException) -> str:
    """The last line of what Ray says, without the traceback of another process in front of it."""
    cause = getattr(error, "cause", None) or error
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    return f"{type(cause).__name__}: {lines[-1] if lines else 'no message'}"[:300]


def address_of(database: Database) -> str:
    """The database's URL as another process must write it."""
    url = database.engine.url
    if url.get_backend_name() == "sqlite":
        url = url.set(database=str(Path(str(url.database)).absolute()))
    return url.render_as_string(hide_password=False)


class Farm:
    """The actors of one campaign, and the watch over them."""

    def __init__(self, ray: Any, database: Database, campaign_id: int, bar: Bar) -> None:
        self._ray = ray
        self._campaign_id = campaign_id
        self._bar = bar
        self._agents: dict[Any, tuple[Board, Any]] = {}  # the ref of its run -> board and actor
        self._deaths: dict[str, int] = {}
        self._coordinator = start_coordinator(ray, address_of(database))

    def watch(self, boards: Sequence[Board]) -> CampaignRow:
        """Shows the progress and replaces agents that died, until the campaign is closed or none is left."""
        for board in boards:
            self._start_agent(board)
        while True:
            row: CampaignRow = self._call(lambda: self._coordinator.progress.remote(self._campaign_id))
            self._bar.show(row)
            if not row.is_open or not self._agents:
                return row
            ended, _ = self._ray.wait(list(self._agents), timeout=GLANCE_S)
            for ref in ended:
                self._agent_ended(ref)

    def end(self) -> None:
        """Lets the running cases end, then kills every actor."""
        actors = [actor for _, actor in self._agents.values()]
        with suppress(self._ray.exceptions.RayError):
            for actor in actors:
                actor.stop.remote()
            if self._agents:
                self._ray.wait(list(self._agents), num_returns=len(self._agents), timeout=STOP_S)
        for actor in (*actors, self._coordinator):
            with suppress(self._ray.exceptions.RayError, ValueError):
                self._ray.kill(actor)

    def _start_agent(self, board: Board) -> None:
        # Imported here: the module imports ray.
        from workers.ray_agent import start_agent

        files = FileStore().digests()
        hello = Hello(str(uuid.uuid4()), board.device, board.backends, catalog.digest(), files=files)
        actor = start_agent(self._coordinator, hello)
        self._agents[actor.run.remote()] = (board, actor)

    def _agent_ended(self, ref: Any) -> None:
        board, _ = self._agents.pop(ref)
        name = board.device.slug
        try:
            summary = self._ray.get(ref)
        except self._ray.exceptions.RayActorError:
            self._deaths[name] = self._deaths.get(name, 0) + 1
            if self._deaths[name] > MAX_DEATHS:
                raise FarmError(
                    f"the agent of {name} died {self._deaths[name]} times; see farm doctor"
                ) from None
            self._bar.note(f"farm: the agent of {name} died; another one takes its place")
            self._start_agent(board)
            return
        except self._ray.exceptions.RayTaskError as error:
            raise FarmError(f"{name}: {one_line(error)}") from None
        if summary.refused:
            raise FarmError(f"{name}: {summary.reason}")

    def _call(self, ask: Callable[[], Any]) -> Any:
        """What an actor answers; without a node no actor comes back, and Ray would wait for one for good."""
        ref = ask()
        while True:
            try:
                return self._ray.get(ref, timeout=ANSWER_S)
            except self._ray.exceptions.GetTimeoutError:
                if not any(node["Alive"] for node in self._ray.nodes()):
                    raise FarmError(f"Ray's node died; farm resume {self._campaign_id} continues") from None
            except self._ray.exceptions.RayTaskError as error:
                raise FarmError(one_line(error)) from None
            except (
                self._ray.exceptions.RayActorError
            ):  # Ray restarts it; what it didn't answer is asked again
                time.sleep(GLANCE_S)
                ref = ask()
