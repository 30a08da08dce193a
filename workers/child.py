"""The process that runs cases: one at a time, told by its parent, gone when its parent is gone."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NoReturn

import workers.backends
from kernels.errors import FarmError
from kernels.evidence import Evidence, Verdict
from workers import packs
from workers.backend import Backend, backend
from workers.benchmark import bench_case
from workers.clock import wall_clock
from workers.files import FileStore
from workers.image_cache import ImageCache
from workers.request import READY, Answer, Request
from workers.runner import ended, run_case
from workers.wire import Channel, Closed

PR_SET_PDEATHSIG = 1
MAX_FILE_BYTES = 4 << 30  # what a kernel gone wild may write to any one file, its own printing included


def main(argv: list[str] | None = None) -> NoReturn:
    """`python -m workers.child FD [options]`, FD being a connected socket."""
    parser = argparse.ArgumentParser()
    parser.add_argument("fd", type=int)
    parser.add_argument("--backends-from", type=Path, help="a folder with further backends")
    parser.add_argument(
        "--memory-bytes", type=int, default=0, help="what this process may allocate; 0: no limit"
    )
    given = parser.parse_args(argv)
    if given.backends_from:
        workers.backends.__path__.append(str(given.backends_from))
    die_with_parent()
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_FSIZE, MAX_FILE_BYTES)
    if given.memory_bytes:
        limit(resource.RLIMIT_DATA, given.memory_bytes)
    channel = Channel(socket.socket(fileno=given.fd), Request)
    requests = _listen(channel)
    cache = ImageCache(FileStore())
    channel.send(Answer("", READY))
    while True:
        request = requests.get()
        serve(channel, request, cache)
        if request.last:
            sys.exit()  # as any program ends: a checker writes its report then


def die_with_parent() -> None:
    """Asks the system to kill this process with its parent, and what it forks with it; Linux only."""
    if sys.platform == "linux":
        prctl: Any = ctypes.CDLL(None).prctl
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        os.register_at_fork(after_in_child=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))


def limit(what: int, most: int) -> None:
    """Lowers a resource limit, never above what the system allows."""
    _, hard = resource.getrlimit(what)
    resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _listen(channel: Channel[Request]) -> SimpleQueue[Request]:
    """Reads requests in a thread of its own, which ends this process, and what it forked, with the parent."""
    requests: SimpleQueue[Request] = SimpleQueue()

    def read() -> None:
        with contextlib.suppress(Closed):
            while request := channel.receive():
                requests.put(request)
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(1)

    threading.Thread(target=read, name="parent watcher", daemon=True).start()
    return requests


def serve(channel: Channel[Request], request: Request, cache: ImageCache) -> None:
    """Runs one case, telling the parent which phase it is in."""

    def announce(phase: str) -> None:
        channel.send(Answer(request.evidence_id, phase))

    try:
        chosen = backend(
            request.backend
        )  # a module that fails as it is imported ends this process, with its reason
    except FarmError as error:
        evidence = ended(request, Verdict.ERROR, str(error), wall_clock(), wall_clock())
    else:
        evidence = _run(request, chosen, cache, announce)
    channel.send(Answer(request.evidence_id, "", evidence))


def _run(request: Request, chosen: Backend, cache: ImageCache, announce: Callable[[str], None]) -> Evidence:
    """Evidence of one case; a catalog that can't be loaded is ERROR, since no kernel of it was seen."""
    try:
        with packs.searched(request):
            run = bench_case if request.bench else run_case
            return run(request, chosen, cache, announce=announce)
    except FarmError as error:
        return ended(request, Verdict.ERROR, str(error), wall_clock(), wall_clock())


if __name__ == "__main__":
    main()
