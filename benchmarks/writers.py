"""A hundred processes write to one SQLite file, 10,000 lines each: each there, none twice, none refused.

FARM_BENCH_WRITES scales the lines of each process down.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time

import sqlalchemy as sa

from db import tables
from db.session import open_database
from tests.db.making import write_lines

WRITERS = 100
WRITES = int(os.environ.get("FARM_BENCH_WRITES", "10000"))


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="farm-bench-") as folder:
        url = f"sqlite:///{folder}/farm.db"
        database = open_database(url)
        began = time.monotonic()
        with multiprocessing.get_context("spawn").Pool(WRITERS) as pool:
            told = sum(pool.starmap(write_lines, [(url, n, WRITES) for n in range(WRITERS)], chunksize=1))
        seconds = time.monotonic() - began
        with database.reading() as s:
            columns = (sa.func.count(), sa.func.sum(tables.evidence.c.copies))
            there, copies = s.execute(sa.select(*columns)).one()
        database.close()
    print(
        f"{WRITERS} processes, {told:,} writes told, {there:,} there, {copies - there:,} twice, none refused"
    )
    print(f"{told / seconds:,.0f} writes a second, each a transaction that was synced")
