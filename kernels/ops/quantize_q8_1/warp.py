"""quantize_q8_1/warp: one warp a block of 32, the largest and the sum by shuffles; halves away from zero.

That is the rule of ggml's portable C code and of its CUDA code (roundf). Its AVX2 code rounds halves to even.
"""

from __future__ import annotations

import numpy as np

from kernels.kind import WARP, Kind
from kernels.model import BufferArg, Case, Launch, Plan, Role, ScalarArg, packed
from kernels.op import LaunchKernel, Step, ceil_div, flat
from kernels.ops import _q8_1
from kernels.ops._linear import x_buffer

BLOCKS = 8  # of q8_1 in a thread block, a warp each


class Warp(LaunchKernel):
    op = "quantize_q8_1"
    name = "warp"
    body = "warp.cu"
    out_dtype = "q8_1"

    def constants(self, kind: Kind | None) -> dict[str, int]:
        fields = _q8_1.BLOCK.fields
        assert fields is not None  # a dtype with names has fields
        return {"WARP": WARP, "BLOCKS": BLOCKS, "BLOCK_BYTES": _q8_1.BLOCK.itemsize, "AT_QS": fields["qs"][1]}

    def launch(self, blocks: int, names: dict[str, str]) -> Launch:
        """One launch over the buffers that `names` gives for x and out, whose rows follow one another."""
        grid, block = flat(ceil_div(blocks, BLOCKS), BLOCKS * WARP)
        buffers = tuple(BufferArg(role, names[role]) for role in ("x", "out"))
        return Launch(self.id, "", self.entry(""), (*buffers, ScalarArg("blocks", "i4", blocks)), grid, block)

    def plan(self, case: Case) -> Plan:
        n, rows = case.shape["n"], case.shape["rows"]
        buffers = (
            x_buffer("x", (rows, n), case.layout),
            packed("out", (rows, _q8_1.row_bytes(n)), Role.OUT, "u1"),
        )
        launch = self.launch(rows * n // _q8_1.ELEMENTS, {"x": "x", "out": "out"})
        return Plan(buffers, (launch,), case.build)

    def chain(self, step: Step) -> int:
        return 0  # the only sums are of whole numbers

    def twin(self, step: Step) -> np.ndarray:
        """(rows, bytes) uint8."""
        return _q8_1.quantize(step.arrays["x"])


KERNEL = Warp()
