"""CSV for spreadsheets: a line per cell, the JSON export's names as header."""

from __future__ import annotations

import csv
import io
from typing import Any

from farm.exports import Export, record
from farm.matrix import Matrix

HEADER = (
    "device_class", "device", "backend", "op", "kernel", "kind", "build", "verdict", "flags", "rungs",
    "cases", "positions", "bound_ratio", "relative_ratio", "nmse", "bit_exact",
    "source_digest", "last_run", "reason", "packing", "trust",
)  # fmt: skip
# A spreadsheet takes a text that begins like this for a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def render(matrix: Matrix) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)
    for cell in matrix.cells:
        values = record(cell)
        writer.writerow([_field(values[name]) for name in HEADER])
    return out.getvalue()


def _field(value: Any) -> Any:
    """Lists joined by blanks, truth as true and false, nothing as nothing; an apostrophe disarms formulas."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        value = " ".join(value)
    if isinstance(value, str):
        # csv leaves a lone carriage return unquoted, and readers take it for the end of a line.
        return ("'" if value.startswith(FORMULA) else "") + value.replace("\r", " ")
    return value


EXPORT = Export("csv", render)
