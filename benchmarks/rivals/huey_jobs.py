"""Huey over SQLite, synced, two processes: prints seconds."""

from __future__ import annotations

import _done
from huey import SqliteHuey

huey = SqliteHuey(filename=f"{_done.FOLDER}/huey.db", fsync=True)


@huey.task()
def no_op(number: int) -> int:
    _done.note()
    return number


if __name__ == "__main__":
    from huey_jobs import no_op as named  # the consumer knows it by this module's name

    for number in range(_done.JOBS):
        named(number)
    with _done.running("huey.bin.huey_consumer", "huey_jobs.huey", "-w", "2", "-k", "process", "-d", "0.01"):
        print(_done.seconds())
