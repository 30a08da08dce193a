"""gemm/library: one call of a BLAS; on a CPU the one that numpy has, over float16 made float32."""

from __future__ import annotations

import numpy as np

from kernels import registry
from kernels.model import Arg, BufferArg, Case, Launch, Plan, Role, ScalarArg, packed
from kernels.op import LibraryKernel, Step
from kernels.ops._linear import weights_buffer, x_buffer
from kernels.ops.mul_mm.reference import KERNEL as IN_ORDER

NO_GRID = (0, 0, 0)


class Library(LibraryKernel):
    op = "gemm"
    name = "library"
    x_dtype = "f16"

    def serves(self, kinds: tuple[str, ...]) -> bool:
        return kinds == ("F16",)

    def plan(self, case: Case) -> Plan:
        rows, cols, batch = (case.shape[name] for name in ("rows", "cols", "batch"))
        weights = weights_buffer("weights", registry.kind(case.kinds[0]), rows, cols, case.layout)
        x = x_buffer("x", (batch, cols), case.layout, case.x_dtype)
        out = packed("out", (batch, rows), Role.OUT)
        args: tuple[Arg, ...] = (
            *(BufferArg(buffer.name, buffer.name) for buffer in (weights, x, out)),
            *(ScalarArg(name, "i4", case.shape[name]) for name in ("rows", "cols", "batch")),
            ScalarArg("row_bytes", "i8", weights.strides[0]),
        )
        call = Launch(self.id, case.kinds[0], "gemm", args, NO_GRID, NO_GRID, library=True)
        return Plan((weights, x, out), (call,), case.build)

    def chain(self, step: Step) -> int:
        cols: int = step.arrays["x"].shape[-1]
        return cols

    def twin(self, step: Step) -> np.ndarray | None:
        """(batch, rows) float32, column after column: one order among those that a library may take."""
        return IN_ORDER.twin(step)


KERNEL = Library()
