"""mul_mm/reference: BM x BN tiles of the output, BK columns at a time in shared memory, TM x TN a thread.

The geometry is kept as it is in the engine that this kernel stands for, its bank conflicts included.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernels.kind import Kind
from kernels.model import Arg, BufferArg, Case, Launch, Plan, Role, ScalarArg, packed
from kernels.op import LaunchKernel, Step, ceil_div
from kernels.ops._linear import K_TILE, by_rows, in_order, scale_arg, scaled, weights_buffer, x_buffer
from kernels.registry import kind as kind_named

BM, BN, BK = 64, 128, K_TILE  # rows, tokens and columns of a tile
TM, TN = 4, 8  # rows and tokens of a thread
SUB = 16  # weights that decode16 gives at a time
THREADS = (BM // TM) * (BN // TN)
STATIC_SHARED_BYTES = 4 * BK * (BM + BN)
GRID_Y_MOST = 65535  # CUDA's limit
TERMS_AT_ONCE = 2**18  # products that the twin holds: 1 MiB of float32


@dataclass(frozen=True)
class Tile:
    """What a thread block computes at a time."""

    rows: int
    tokens: int
    columns: int
    threads: int


def worth_a_gemm() -> int:
    """Tokens from which a batch fills enough of a tile to beat one matvec per token."""
    return max(BN // 4, 2)


class Reference(LaunchKernel):
    op = "mul_mm"
    name = "reference"
    body = "reference.cu"
    tile = Tile(BM, BN, BK, THREADS)
    static_shared_bytes = STATIC_SHARED_BYTES

    def constants(self, kind: Kind | None) -> dict[str, int]:
        return {"BM": BM, "BN": BN, "BK": BK, "TM": TM, "TN": TN, "SUB": SUB, "THREADS": THREADS}

    def refuses(self, case: Case) -> str:
        rows = case.shape["rows"]
        if (tiles := ceil_div(rows, self.tile.rows)) > GRID_Y_MOST:
            most = GRID_Y_MOST * self.tile.rows
            return f"grid.y {tiles} for {rows} rows is past CUDA's {GRID_Y_MOST}; at most {most} rows"
        return ""

    def plan(self, case: Case) -> Plan:
        rows, cols, batch = (case.shape[name] for name in ("rows", "cols", "batch"))
        weights = weights_buffer("weights", kind_named(case.kinds[0]), rows, cols, case.layout)
        x, out = (
            x_buffer("x", (batch, cols), case.layout, case.x_dtype),
            packed("out", (batch, rows), Role.OUT),
        )
        args: tuple[Arg, ...] = (
            *(BufferArg(buffer.name, buffer.name) for buffer in (weights, x, out)),
            *(ScalarArg(name, "i4", case.shape[name]) for name in ("rows", "cols", "batch")),
            ScalarArg("row_bytes", "i8", weights.strides[0]),
            *scale_arg(case, "weights"),
        )
        launch = Launch(
            kernel=self.id,
            kind=case.kinds[0],
            entry=self.entry(case.kinds[0]),
            args=args,
            grid=(ceil_div(batch, self.tile.tokens), ceil_div(rows, self.tile.rows), 1),
            block=(self.tile.threads, 1, 1),
            static_shared_bytes=self.static_shared_bytes,
        )
        return Plan((weights, x, out), (launch,), case.build)

    def chain(self, step: Step) -> int:
        cols: int = step.arrays["x"].shape[-1]
        return cols

    def twin(self, step: Step) -> np.ndarray | None:
        """(batch, rows) float32: column after column."""
        kind, x = step.kind, step.arrays["x"]
        assert kind is not None
        with np.errstate(all="ignore"):  # NaN and Inf are fed on purpose
            sums = by_rows(step.arrays["weights"], x.shape[1], lambda rows: _sums(kind, rows, x))
            return scaled(step, sums)


def _sums(kind: Kind, rows: np.ndarray, x: np.ndarray) -> np.ndarray:
    w = np.ascontiguousarray(kind.weights(rows).T)  # (cols, rows)
    xs = np.ascontiguousarray(x.T)  # (cols, batch)
    sums = np.zeros((xs.shape[1], w.shape[1]), np.float32)
    columns = max(1, TERMS_AT_ONCE // sums.size)
    for first in range(0, len(xs), columns):
        turn = slice(first, first + columns)
        sums = in_order(w[turn, None, :] * xs[turn, :, None], sums)
    return sums


KERNEL = Reference()
