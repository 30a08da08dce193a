"""Celery over a broker in files and results in SQLite, two processes: prints seconds."""

from __future__ import annotations

import os

import _done
from celery import Celery

QUEUE = f"{_done.FOLDER}/queue"
PLACES = {"data_folder_in": QUEUE, "data_folder_out": QUEUE, "control_folder": f"{_done.FOLDER}/control"}

app = Celery("celery_jobs", broker="filesystem://", backend=f"db+sqlite:///{_done.FOLDER}/results.db")
app.conf.update(broker_transport_options=PLACES | {"polling_interval": 0.001})


@app.task
def no_op(number: int) -> int:
    _done.note()
    return number


if __name__ == "__main__":
    os.makedirs(QUEUE)
    for number in range(_done.JOBS):
        app.send_task("celery_jobs.no_op", (number,))
    with _done.running("celery", "-A", "celery_jobs", "worker", "-c", "2", "--without-gossip"):
        print(_done.seconds())
