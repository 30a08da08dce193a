"""How much memory a case takes, worked out before any of it is allocated."""

from __future__ import annotations

from kernels import oracle, projection, registry
from kernels.compare import MAY_BE_NON_FINITE
from kernels.model import Case, Plan, Role
from kernels.op import JudgedOp, Matrix

# What was measured. A weight is decoded to float32 and float64 and its magnitude taken for the oracle, and to
# float32 for the twin, as many at a time as the oracle takes.
BYTES_PER_WEIGHT = 32
IN_COPIES = 2  # of an input: as made, and as it is read
# Of an output: as run in two orders, and the float64 arrays of a comparison; where rows are judged by sums,
# hardly any of these.
OUT_COPIES = 32
PROJECTED_COPIES = 6
SMALL_BYTES = 64 << 20  # is taken for free: to ask the system takes longer than many a small case


def bytes_needed(case: Case, plan: Plan) -> int:
    """Memory that a case takes on the machine that runs and judges it."""
    matrices = [part for part in registry.op(case.op).operands(case) if isinstance(part, Matrix)]
    weights = max((part.rows // part.experts * part.cols for part in matrices), default=0)
    inputs = sum(buffer.nbytes for buffer in plan.buffers if buffer.role is Role.IN)
    outputs = sum(buffer.nbytes for buffer in plan.buffers if buffer.role is not Role.IN)
    in_parts = _in_parts(plan)
    large = weights * dict(case.shape.axes).get("batch", 1) > projection.FROM_MACS
    projected = in_parts and large and case.family not in MAY_BE_NON_FINITE
    copies = PROJECTED_COPIES if projected else OUT_COPIES
    at_once = min(weights, oracle.WEIGHTS_AT_ONCE) if in_parts else weights
    unpacked = sum(part.rows * part.kind.row_bytes(part.cols) for part in matrices) if case.packing else 0
    return IN_COPIES * inputs + copies * outputs + unpacked + BYTES_PER_WEIGHT * at_once


def _in_parts(plan: Plan) -> bool:
    """Whether every launch over a matrix is judged some rows at a time."""
    ops = (registry.op(launch.kernel.split("/")[0]) for launch in plan.launches if launch.kind)
    return all(isinstance(op, JudgedOp) and op.row_wise for op in ops)


def too_large(case: Case, plan: Plan, free: int) -> str:
    """Why this machine's memory can't hold a case and its judge; empty if it can."""
    need = bytes_needed(case, plan)
    if need <= free:
        return ""
    return (
        f"needs about {need / 2**30:.1f} GiB of memory, {free / 2**30:.1f} GiB are free; take a smaller shape"
    )
