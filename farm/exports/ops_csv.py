"""The columns of llama.cpp's docs/ops/*.csv, a line per cell that ran.

`test-backend-ops support --output csv` writes them, and that project's scripts/create_ops_docs.py reads four:
`test_mode` (must be `support`), `op_name`, `error_message` (`yes` or `no`: it decides, `supported` says it
again as 1 or 0) and `backend_reg_name`, by which lines are grouped. A line says `yes` only where the cell is
PASS and not stale, suspect or flaky. A cell that nobody ran has no line: `no` would be a claim as well.
"""

from __future__ import annotations

import csv
import io

from farm.exports import Export
from farm.matrix import Cell, Matrix
from kernels.evidence import Verdict

HEADER = (
    "backend_name", "op_name", "op_params", "test_mode", "supported", "error_message", "backend_reg_name",
)  # fmt: skip
# Ops of the farm -> ops of ggml; what ggml has no op for goes under its own name.
OPS = {
    "matvec": "MUL_MAT", "mul_mm": "MUL_MAT", "gemm": "MUL_MAT", "multi_matvec": "MUL_MAT",
    "mul_mat_id": "MUL_MAT_ID", "rmsnorm": "RMS_NORM", "silu_mul": "SWIGLU",
}  # fmt: skip
DOUBTED = {"stale", "suspect", "flaky"}


def render(matrix: Matrix) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow(HEADER)
    writer.writerows(_line(cell) for cell in matrix.cells if cell.verdict is not None)
    return out.getvalue()


def _line(cell: Cell) -> tuple[str, ...]:
    holds = cell.verdict is Verdict.PASS and not DOUBTED & set(cell.flags)
    params = f"type_a={_kind(cell.kind)},kernel={cell.kernel},build={cell.build},cases={cell.cases}"
    values = (
        cell.device or cell.device_class, OPS.get(cell.op, cell.op.upper()), params, "support",
        str(int(holds)), "yes" if holds else "no", f"{cell.device_class}/{cell.backend}",
    )  # fmt: skip
    return tuple(_plain(value) for value in values)


def _kind(kind: str) -> str:
    """As ggml writes a type: q4_K, iq4_nl, f32."""
    return "+".join(part.lower().replace("_k", "_K") for part in kind.split("+"))


def _plain(text: str) -> str:
    """On one line, and no formula for a spreadsheet."""
    text = " ".join(text.split())
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


EXPORT = Export("ops-csv", render)
