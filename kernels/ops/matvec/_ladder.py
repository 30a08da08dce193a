"""What the rungs of the Q4 ladder share: weights in a layout of Q4_0, geometry, refusals, nibble order."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from kernels import packing, registry
from kernels.kind import WARP, Kind
from kernels.layouts.q4_interleaved_f32 import ORDER
from kernels.model import Arg, Buffer, BufferArg, Case, Launch, Plan, Role, ScalarArg, Shape, packed
from kernels.op import LaunchKernel, Step, Workload, ceil_div, flat
from kernels.ops._linear import by_rows, in_order, x_buffer

THREADS = 256
ROWS = THREADS // WARP  # rows of a thread block from the second rung on, a warp each
TREE = THREADS.bit_length() - 1  # additions on the way up the tree of a thread block
SHUFFLES = WARP.bit_length() - 1  # additions of the shuffle-down 16, 8, 4, 2, 1
TILE = 64  # blocks whose activations are staged in shared memory at a time
ELEMENTS = 32  # of a block
QUANT_BYTES = ELEMENTS // 2  # of a block, loaded at once
EDGES = (31, 32, 33, 63, 64, 65, 127, 128)  # blocks per row around a warp's lanes and a tile


class Rung(LaunchKernel):
    """Q4_0 in a layout with quants and scales apart: a 16-byte load a block, and its scale."""

    op = "matvec"
    before: tuple[str, ...] = ("ladder.cuh",)
    static_shared_bytes = 0

    def serves(self, kinds: tuple[str, ...]) -> bool:
        return all(kind in registry.layout(self.packing).kinds for kind in kinds)

    def quick(self, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
        shapes = (Shape.of(rows=3, cols=blocks * ELEMENTS) for blocks in EDGES)
        return tuple(Workload(shape, ("ordinary", "sparse")) for shape in shapes)

    def families(self, workload: Workload, kinds: tuple[str, ...]) -> tuple[str, ...]:
        """None where the layout is one that loads of 16 bytes refuse."""
        at = workload.layout
        aligned = not (at.weights_offset % QUANT_BYTES or at.row_padding % QUANT_BYTES)
        return workload.families if aligned else ()

    def refuses(self, case: Case) -> str:
        rows, cols = case.shape["rows"], case.shape["cols"]
        layout = registry.layout(self.packing)
        return packing.refuses(layout, registry.kind(case.kinds[0]), (rows, cols), case.layout)

    def constants(self, kind: Kind | None) -> dict[str, int]:
        return {"THREADS": THREADS, "WARP": WARP, "ROWS": ROWS, "TILE": TILE, "QUANT_BYTES": QUANT_BYTES}

    def plan(self, case: Case) -> Plan:
        rows, cols = case.shape["rows"], case.shape["cols"]
        layout = registry.layout(self.packing)
        weights = packing.buffers(layout, "weights", registry.kind(case.kinds[0]), (rows, cols), case.layout)
        grid, block = flat(self.blocks_for(rows), THREADS)
        args = _args(packing.arguments(layout, "weights", "weights"), weights, rows, cols)
        launch = Launch(
            self.id,
            case.kinds[0],
            self.entry(case.kinds[0]),
            args,
            grid,
            block,
            static_shared_bytes=self.static_shared_bytes,
        )
        buffers = (*weights, x_buffer("x", (cols,), case.layout), packed("out", (rows,), Role.OUT))
        return Plan(buffers, (launch,), case.build)

    def blocks_for(self, rows: int) -> int:
        """Thread blocks of a launch: no more than the tail needs."""
        return ceil_div(rows, ROWS)

    def twin(self, step: Step) -> np.ndarray:
        """(rows,) float32."""
        kind, x = step.kind, step.arrays["x"]
        assert kind is not None
        with np.errstate(all="ignore"):  # NaN and Inf are fed on purpose
            return by_rows(step.arrays["weights"], len(x), lambda rows: self.sums(kind, rows, x))

    @abstractmethod
    def sums(self, kind: Kind, rows: np.ndarray, x: np.ndarray) -> np.ndarray:
        """(rows,) float32 of some rows of GGML blocks, every operation in the kernel's order."""


def _args(
    weights: tuple[BufferArg, ...], buffers: tuple[Buffer, ...], rows: int, cols: int
) -> tuple[Arg, ...]:
    """quants, scales, x, out, rows, cols, and the bytes from row to row of quants and scales."""
    return (
        *weights,
        BufferArg("x", "x"),
        BufferArg("out", "out"),
        ScalarArg("rows", "i4", rows),
        ScalarArg("cols", "i4", cols),
        *(ScalarArg(f"{buffer.name}_pitch", "i8", buffer.strides[0]) for buffer in buffers),
    )


def terms(kind: Kind, rows: np.ndarray, x: np.ndarray) -> np.ndarray:
    """(32, rows, blocks) float32: a block's products in the order in which its nibbles lie."""
    products = (kind.weights(rows) * x).reshape(len(rows), -1, ELEMENTS // len(ORDER), len(ORDER))
    in_words: np.ndarray = products[..., ORDER]
    return in_words.reshape(len(rows), -1, ELEMENTS).transpose(2, 0, 1)


def dealt(blocks: np.ndarray, threads: int, turns: int = 1, turn: int = 0) -> np.ndarray:
    """(rows, threads) float32: thread t adds the terms of blocks t, t + threads, …, in this order.

    Of `turns` accumulators that take blocks in turn, the sums of number `turn`.
    """
    sums = np.zeros((blocks.shape[1], threads), np.float32)
    for first in range(turn * threads, blocks.shape[2], turns * threads):
        mine = blocks[:, :, first : first + threads]
        sums[:, : mine.shape[2]] = in_order(mine, sums[:, : mine.shape[2]])
    return sums
