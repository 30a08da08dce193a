"""rmsnorm/block: one thread block per row, a tree reduction in shared memory."""

from __future__ import annotations

import numpy as np

from kernels.kind import Kind
from kernels.model import Arg, BufferArg, Case, Launch, Plan, Role, ScalarArg, packed
from kernels.op import LaunchKernel, Step, flat
from kernels.ops._linear import x_buffer
from kernels.ops._norm import STATIC_SHARED_BYTES, THREADS, eps32, norm_chain, norm_explains, norm_twin


class Block(LaunchKernel):
    op = "rmsnorm"
    name = "block"
    body = "block.cu"
    approximates = ("rsqrtf",)

    def constants(self, kind: Kind | None) -> dict[str, int]:
        return {"THREADS": THREADS}

    def launch(self, n: int, rows: int, eps: float) -> Launch:
        grid, block = flat(rows, THREADS)
        buffers = tuple(BufferArg(name, name) for name in ("x", "weights", "out"))
        args: tuple[Arg, ...] = (*buffers, ScalarArg("n", "i4", n), ScalarArg("eps", "f4", eps32(eps)))
        return Launch(self.id, "", self.entry(""), args, grid, block, static_shared_bytes=STATIC_SHARED_BYTES)

    def plan(self, case: Case) -> Plan:
        n, rows = case.shape["n"], case.shape["rows"]
        x, weights = x_buffer("x", (rows, n), case.layout), packed("weights", (n,), Role.IN)
        launch = self.launch(n, rows, dict(case.scalars)["eps"])
        return Plan((x, weights, packed("out", (rows, n), Role.OUT)), (launch,), case.build)

    def chain(self, step: Step) -> int:
        return norm_chain(step.arrays["x"].shape[-1])

    def twin(self, step: Step) -> np.ndarray:
        """(rows, n) float32."""
        with np.errstate(all="ignore"):  # squares beyond float32 are fed on purpose
            return norm_twin(step.arrays["x"], step.arrays["weights"], step.scalars["eps"])

    def explains(self, step: Step, got: np.ndarray) -> bool:
        return norm_explains(got, step.arrays["x"], step.arrays["weights"], step.scalars["eps"])


KERNEL = Block()
