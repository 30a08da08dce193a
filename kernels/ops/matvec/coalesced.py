"""matvec/coalesced: one warp per row, a block's weights spread over lanes so that loads are neighbours."""

from __future__ import annotations

import numpy as np

from kernels import registry
from kernels.kind import WARP, Kind
from kernels.model import Case, Launch, Plan
from kernels.op import LaunchKernel, Step, ceil_div, flat
from kernels.ops._linear import Scale, by_rows, halved, in_order, refuses_lanes, scaled
from kernels.ops.matvec._launch import matvec_args, matvec_plan

ROWS = 8  # rows of a thread block, a warp each
SHUFFLES = WARP.bit_length() - 1  # additions of the shuffle-down 16, 8, 4, 2, 1


class Coalesced(LaunchKernel):
    op = "matvec"
    name = "coalesced"
    body = "coalesced.cu"

    def constants(self, kind: Kind | None) -> dict[str, int]:
        return {"WARP": WARP, "ROWS": ROWS}

    def refuses(self, case: Case) -> str:
        return refuses_lanes(registry.kind(case.kinds[0]), case.shape["cols"], case.layout)

    def launch(
        self, kind: str, rows: int, cols: int, row_bytes: int, names: dict[str, str], scale: Scale = ()
    ) -> Launch:
        """One launch over the buffers that `names` gives for weights, x and out."""
        grid, block = flat(ceil_div(rows, ROWS), ROWS * WARP)
        args = matvec_args(rows, cols, row_bytes, names, scale)
        return Launch(self.id, kind, self.entry(kind), args, grid, block)

    def plan(self, case: Case) -> Plan:
        return matvec_plan(case, self.launch)

    def chain(self, step: Step) -> int:
        assert step.kind is not None
        blocks: int = step.arrays["x"].shape[-1] // step.kind.elements
        return step.kind.lanes.weights * blocks + SHUFFLES

    def twin(self, step: Step) -> np.ndarray:
        """(rows,) float32: each lane over blocks and its weights there, then shuffle-down 16, 8, 4, 2, 1."""
        kind, x = step.kind, step.arrays["x"]
        assert kind is not None
        with np.errstate(all="ignore"):  # NaN and Inf are fed on purpose
            return scaled(step, by_rows(step.arrays["weights"], len(x), lambda rows: _sums(kind, rows, x)))


def _sums(kind: Kind, rows: np.ndarray, x: np.ndarray) -> np.ndarray:
    products = (kind.weights(rows) * x).reshape(len(rows), -1, kind.elements)
    by_lane = products.transpose(1, 2, 0)[:, kind.lanes.elements().T]  # (blocks, lane weights, 32, rows)
    terms = by_lane.reshape(-1, WARP, len(rows))
    sums = in_order(terms, np.zeros(terms.shape[1:], np.float32))
    return halved(sums.T)


KERNEL = Coalesced()
