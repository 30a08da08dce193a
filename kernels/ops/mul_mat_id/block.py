"""mul_mat_id/block: a thread block per output element, adding as matvec/block does."""

from __future__ import annotations

import numpy as np

from kernels.kind import Kind
from kernels.model import Arg, Case, Launch, Plan
from kernels.op import LaunchKernel, Step, flat
from kernels.ops._linear import Scale
from kernels.ops.matvec.block import KERNEL as MATVEC
from kernels.ops.matvec.block import THREADS
from kernels.ops.mul_mat_id._launch import by_expert, mul_mat_id_plan, outputs_of, refuses_grid, slots_by


class Block(LaunchKernel):
    op = "mul_mat_id"
    name = "block"
    body = "block.cu"

    def constants(self, kind: Kind | None) -> dict[str, int]:
        return {"THREADS": THREADS}

    def refuses(self, case: Case) -> str:
        return refuses_grid(outputs_of(case.shape), case.shape)

    def launch(self, kind: str, outputs: int, args: tuple[Arg, ...], scale: Scale) -> Launch:
        """One launch, its number of thread blocks being that of the output elements."""
        grid, block = flat(outputs, THREADS)
        whole = (*args, *scale)
        return Launch(self.id, kind, self.entry(kind), whole, grid, block, dynamic_shared_bytes=4 * THREADS)

    def plan(self, case: Case) -> Plan:
        return mul_mat_id_plan(case, self.launch)

    def chain(self, step: Step) -> int:
        return MATVEC.chain(step)

    def twin(self, step: Step) -> np.ndarray:
        """(tokens, top_k, rows) float32: every slot's expert as matvec/block adds."""
        return by_expert(step, step.arrays["x"], lambda rows, xs: slots_by(MATVEC, step, rows, xs))


KERNEL = Block()
