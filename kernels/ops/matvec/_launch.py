"""What the matvec kernels share: one signature, and a plan of one launch."""

from __future__ import annotations

from typing import Protocol

from kernels import registry
from kernels.model import Arg, BufferArg, Case, Launch, Plan, Role, ScalarArg, packed
from kernels.ops._linear import Scale, scale_arg, weights_buffer, x_buffer


class Launcher(Protocol):
    """A matvec kernel's pairing of text and geometry, over buffers named by role."""

    def __call__(
        self, kind: str, rows: int, cols: int, row_bytes: int, names: dict[str, str], scale: Scale = ()
    ) -> Launch: ...


def matvec_args(
    rows: int, cols: int, row_bytes: int, names: dict[str, str], scale: Scale = ()
) -> tuple[Arg, ...]:
    """The one signature of every matvec kernel: weights, x, out, rows, cols, row_bytes, scale."""
    return (
        BufferArg("weights", names["weights"]),
        BufferArg("x", names["x"]),
        BufferArg("out", names["out"]),
        ScalarArg("rows", "i4", rows),
        ScalarArg("cols", "i4", cols),
        ScalarArg("row_bytes", "i8", row_bytes),
        *scale,
    )


def matvec_plan(case: Case, launch: Launcher) -> Plan:
    """Weights, x and out with the case's layout, and one launch over them."""
    rows, cols = case.shape["rows"], case.shape["cols"]
    weights = weights_buffer("weights", registry.kind(case.kinds[0]), rows, cols, case.layout)
    names = {"weights": "weights", "x": "x", "out": "out"}
    step = launch(case.kinds[0], rows, cols, weights.strides[0], names, scale_arg(case, "weights"))
    buffers = (weights, x_buffer("x", (cols,), case.layout, case.x_dtype), packed("out", (rows,), Role.OUT))
    return Plan(buffers, (step,), case.build)
