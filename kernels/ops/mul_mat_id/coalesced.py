"""mul_mat_id/coalesced: a warp per output element, adding as matvec/coalesced does."""

from __future__ import annotations

import numpy as np

from kernels import registry
from kernels.kind import WARP, Kind
from kernels.model import Arg, Case, Launch, Plan, ScalarArg
from kernels.op import LaunchKernel, Step, ceil_div, flat
from kernels.ops._linear import Scale, refuses_lanes
from kernels.ops.matvec.coalesced import KERNEL as MATVEC
from kernels.ops.mul_mat_id._launch import by_expert, mul_mat_id_plan, outputs_of, refuses_grid, slots_by

OUTPUTS = 8  # of a thread block, a warp each


class Coalesced(LaunchKernel):
    op = "mul_mat_id"
    name = "coalesced"
    body = "coalesced.cu"

    def constants(self, kind: Kind | None) -> dict[str, int]:
        return {"WARP": WARP, "OUTPUTS": OUTPUTS}

    def refuses(self, case: Case) -> str:
        lanes = refuses_lanes(registry.kind(case.kinds[0]), case.shape["cols"], case.layout)
        return lanes or refuses_grid(ceil_div(outputs_of(case.shape), OUTPUTS), case.shape)

    def launch(self, kind: str, outputs: int, args: tuple[Arg, ...], scale: Scale) -> Launch:
        """One launch; the last thread block's warps past the end leave."""
        grid, block = flat(ceil_div(outputs, OUTPUTS), OUTPUTS * WARP)
        whole = (*args, ScalarArg("outputs", "i8", outputs), *scale)
        return Launch(self.id, kind, self.entry(kind), whole, grid, block)

    def plan(self, case: Case) -> Plan:
        return mul_mat_id_plan(case, self.launch)

    def chain(self, step: Step) -> int:
        return MATVEC.chain(step)

    def twin(self, step: Step) -> np.ndarray:
        """(tokens, top_k, rows) float32: every slot's expert as matvec/coalesced adds."""
        return by_expert(step, step.arrays["x"], lambda rows, xs: slots_by(MATVEC, step, rows, xs))


KERNEL = Coalesced()
