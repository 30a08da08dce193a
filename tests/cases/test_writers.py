"""Case 16: many writers at one database file; the full size is `./run bench writers`."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import sqlalchemy as sa

from db import capability, check, tables
from db.session import open_database
from tests.db.making import write_lines

WRITERS, WRITES = 8, 40


def test_case_16_every_write_of_many_processes_is_there_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/farm.db"
    database = open_database(url)
    with multiprocessing.get_context("spawn").Pool(WRITERS) as pool:
        done = pool.starmap(write_lines, [(url, n, WRITES) for n in range(WRITERS)], chunksize=1)
    assert done == [WRITES] * WRITERS
    with database.reading() as s:
        ids = s.execute(sa.select(tables.evidence.c.evidence_id, tables.evidence.c.copies)).all()
        assert sorted(ids) == sorted((f"{n}-{turn}", 1) for n in range(WRITERS) for turn in range(WRITES))
        (cell,) = capability.cells(s)
        assert (cell.cases, cell.positions) == (WRITERS, 10 * WRITERS)
        assert check.check(s).complaints == ()
    database.close()
