"""JSON for programs: every cell of every board, schema 1."""

from __future__ import annotations

import json

from farm.exports import Export, record, score_record
from farm.marks import timestamp
from farm.matrix import Matrix

SCHEMA = 1


def render(matrix: Matrix) -> str:
    cells = [record(cell) for cell in matrix.cells]
    head = {"schema": SCHEMA, "generated_at": timestamp(matrix.generated_us)}
    sabotage = [score_record(row.score) | {"stale": row.stale} for row in matrix.sabotage]
    left_out = [vars(one) for one in matrix.left_out]
    document = head | {"catalog_digest": matrix.catalog_digest, "cells": cells, "sabotage": sabotage}
    document |= {"min_trust": matrix.min_trust or None, "left_out": left_out}
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


EXPORT = Export("json", render)
