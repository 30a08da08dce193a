"""Procrastinate over PostgreSQL, two processes: prints seconds."""

from __future__ import annotations

import os

import _done
from procrastinate import App, PsycopgConnector, SyncPsycopgConnector

URL = os.environ["RIVAL_POSTGRES"]
app = App(connector=PsycopgConnector(conninfo=URL), import_paths=["procrastinate_jobs"])


@app.task(name="no_op")
def no_op(number: int) -> None:
    _done.note()


if __name__ == "__main__":
    with app.replace_connector(SyncPsycopgConnector(conninfo=URL)) as giving, giving.open():
        giving.schema_manager.apply_schema()
        for number in range(_done.JOBS):
            giving.configure_task("no_op").defer(number=number)
    with _done.running("procrastinate", "-a", "procrastinate_jobs.app", "worker", count=2):
        print(_done.seconds())
