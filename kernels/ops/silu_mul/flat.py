"""silu_mul/flat: a thread per element."""

from __future__ import annotations

import numpy as np

from kernels.approximate import ULPS, moved, same_bits
from kernels.exp32 import exp32
from kernels.kind import Kind
from kernels.model import BufferArg, Case, Launch, Plan, Role, ScalarArg, packed
from kernels.op import LaunchKernel, Step, ceil_div, flat
from kernels.ops._linear import x_buffer

THREADS = 256


class Flat(LaunchKernel):
    op = "silu_mul"
    name = "flat"
    body = "flat.cu"
    approximates = ("expf",)

    def constants(self, kind: Kind | None) -> dict[str, int]:
        return {"THREADS": THREADS}

    def launch(self, n: int, names: dict[str, str]) -> Launch:
        """One launch over the buffers that `names` gives for gate, up and out."""
        grid, block = flat(max(1, ceil_div(n, THREADS)), THREADS)
        buffers = tuple(BufferArg(role, names[role]) for role in ("gate", "up", "out"))
        return Launch(self.id, "", self.entry(""), (*buffers, ScalarArg("n", "i4", n)), grid, block)

    def plan(self, case: Case) -> Plan:
        n = case.shape["n"]
        buffers = (
            x_buffer("gate", (n,), case.layout),
            x_buffer("up", (n,), case.layout),
            packed("out", (n,), Role.OUT),
        )
        return Plan(buffers, (self.launch(n, {"gate": "gate", "up": "up", "out": "out"}),), case.build)

    def chain(self, step: Step) -> int:
        return 1  # 1 + exp(-g)

    def twin(self, step: Step) -> np.ndarray:
        """(n,) float32."""
        return silu(step, 0)

    def explains(self, step: Step, got: np.ndarray) -> bool:
        """Each element by an expf of its own."""
        near = [same_bits(got, silu(step, ulps)) for ulps in range(-ULPS, ULPS + 1)]
        return bool(np.any(near, axis=0).all())


def silu(step: Step, ulps: int) -> np.ndarray:
    """(n,) float32, with an expf that many floats off."""
    gate, up = step.arrays["gate"], step.arrays["up"]
    with np.errstate(all="ignore"):  # exp(89) is Inf on purpose
        out: np.ndarray = gate / (np.float32(1) + moved(exp32(-gate), ulps)) * up
    return out


KERNEL = Flat()
