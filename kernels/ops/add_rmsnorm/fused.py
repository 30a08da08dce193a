"""add_rmsnorm/fused: one thread block adds, sums the squares up a tree and scales."""

from __future__ import annotations

import numpy as np

from kernels.kind import Kind
from kernels.model import Arg, BufferArg, Case, Launch, Plan, Role, ScalarArg, packed
from kernels.op import LaunchKernel, Step, flat
from kernels.ops._linear import x_buffer
from kernels.ops._norm import STATIC_SHARED_BYTES, THREADS, eps32, norm_chain, norm_explains, norm_twin


class Fused(LaunchKernel):
    op = "add_rmsnorm"
    name = "fused"
    body = "fused.cu"
    approximates = ("rsqrtf",)

    def constants(self, kind: Kind | None) -> dict[str, int]:
        return {"THREADS": THREADS}

    def launch(self, n: int, eps: float) -> Launch:
        grid, block = flat(1, THREADS)
        buffers = tuple(BufferArg(name, name) for name in ("x", "residual", "weights", "out"))
        args: tuple[Arg, ...] = (*buffers, ScalarArg("n", "i4", n), ScalarArg("eps", "f4", eps32(eps)))
        return Launch(self.id, "", self.entry(""), args, grid, block, static_shared_bytes=STATIC_SHARED_BYTES)

    def plan(self, case: Case) -> Plan:
        n = case.shape["n"]
        buffers = (
            x_buffer("x", (n,), case.layout),
            x_buffer("residual", (n,), case.layout),
            packed("weights", (n,), Role.IN),
            packed("out", (n,), Role.OUT),
        )
        return Plan(buffers, (self.launch(n, dict(case.scalars)["eps"]),), case.build)

    def chain(self, step: Step) -> int:
        return norm_chain(step.arrays["x"].shape[-1])

    def twin(self, step: Step) -> np.ndarray:
        """(n,) float32."""
        with np.errstate(all="ignore"):  # squares beyond float32 are fed on purpose
            v = step.arrays["x"] + step.arrays["residual"]
            return norm_twin(v, step.arrays["weights"], step.scalars["eps"])

    def explains(self, step: Step, got: np.ndarray) -> bool:
        v = step.arrays["x"] + step.arrays["residual"]
        return norm_explains(got, v, step.arrays["weights"], step.scalars["eps"])


KERNEL = Fused()
