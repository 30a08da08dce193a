"""JSON for programs: every cell of every board, schema 1."""

from __future__ import annotations

import json

from db.benchmark import Timed
from farm.exports import Export, record, score_record
from farm.marks import timestamp
from farm.matrix import Matrix
from farm.times import record as times_record

SCHEMA = 1


def render(matrix: Matrix) -> str:
    cells = [record(cell) for cell in matrix.cells]
    head = {"schema": SCHEMA, "generated_at": timestamp(matrix.generated_us)}
    sabotage = [score_record(row.score) | {"stale": row.stale} for row in matrix.sabotage]
    left_out = [vars(one) for one in matrix.left_out]
    places = {(cell.device, cell.backend, *cell.row) for cell in matrix.cells}
    benchmarks = [times_record(one) for one in matrix.times if _place(one) in places]
    document = head | {"catalog_digest": matrix.catalog_digest, "cells": cells, "sabotage": sabotage}
    document |= {"min_trust": matrix.min_trust or None, "left_out": left_out, "benchmarks": benchmarks}
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _place(one: Timed) -> tuple[str, ...]:
    key = one.key
    return key.device, key.backend, key.op, key.kernel, key.kind, key.build


EXPORT = Export("json", render)
