"""RQ over a Redis that appends every command to a synced file, two processes: prints seconds."""

from __future__ import annotations

import os
import subprocess
import time

import _done
from redis import Redis
from rq import Queue

SOCKET = f"{_done.FOLDER}/redis.sock"
KEPT = ("--dir", _done.FOLDER, "--appendonly", "yes", "--appendfsync", "always")


def no_op(number: int) -> int:
    _done.note()
    return number


if __name__ == "__main__":
    server = subprocess.Popen(
        ["redis-server", "--port", "0", "--unixsocket", SOCKET, *KEPT], stdout=subprocess.DEVNULL
    )
    while not os.path.exists(SOCKET):
        time.sleep(0.02)
    queue = Queue(connection=Redis(unix_socket_path=SOCKET))
    for number in range(_done.JOBS):
        queue.enqueue("rq_jobs.no_op", number)
    with _done.running("rq.cli", "worker", "-u", f"unix://{SOCKET}", count=2):
        print(_done.seconds())
    server.terminate()
    server.wait()
