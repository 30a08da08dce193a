"""What the mul_mat_id kernels share: one signature, a plan of one launch, a matvec's sum for every slot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import numpy as np

from kernels import registry
from kernels.model import Arg, BufferArg, Case, Launch, Plan, Role, ScalarArg, Shape, packed
from kernels.op import Step
from kernels.ops._linear import Scale, scale_arg, weights_buffer, x_buffer
from kernels.ops.matvec.block import Block
from kernels.ops.matvec.coalesced import Coalesced

GRID_X_MOST = 2**31 - 1  # CUDA's limit
ROLES = ("weights", "x", "ids", "out")


class Launcher(Protocol):
    """A kernel's pairing of text and geometry for a number of output elements."""

    def __call__(self, kind: str, outputs: int, args: tuple[Arg, ...], scale: Scale) -> Launch: ...


def outputs_of(shape: Shape) -> int:
    """Output elements: every one is a dot product of its own."""
    return shape["tokens"] * shape["top_k"] * shape["rows"]


def refuses_grid(blocks: int, shape: Shape) -> str:
    """One grid axis holds all outputs: its limit is 2^31 - 1, that of the others 65,535."""
    if blocks <= GRID_X_MOST:
        return ""
    of = f"{shape['rows']} rows of {shape['tokens']} tokens' {shape['top_k']} slots"
    return f"grid.x {blocks} for {of} is past CUDA's {GRID_X_MOST}; take fewer tokens"


def mul_mat_id_plan(case: Case, launch: Launcher) -> Plan:
    """Experts one behind the other, x, ids and out, and one launch over them."""
    rows, cols, experts, top_k, tokens, x_rows = (size for _, size in case.shape.axes)
    weights = weights_buffer("weights", registry.kind(case.kinds[0]), experts * rows, cols, case.layout)
    x = x_buffer("x", (tokens, x_rows, cols), case.layout)
    ids = replace(packed("ids", (tokens, top_k), Role.IN, "i4"), align=4)
    out = packed("out", (tokens, top_k, rows), Role.OUT)
    row_bytes = weights.strides[0]
    args: tuple[Arg, ...] = (
        *(BufferArg(role, role) for role in ROLES),
        ScalarArg("rows", "i4", rows),
        ScalarArg("cols", "i4", cols),
        ScalarArg("slots_per_x", "i4", top_k // x_rows),
        ScalarArg("row_bytes", "i8", row_bytes),
        ScalarArg("expert_bytes", "i8", rows * row_bytes),
    )
    step = launch(case.kinds[0], outputs_of(case.shape), args, scale_arg(case, "weights"))
    return Plan((weights, x, ids, out), (step,), case.build)


def by_expert(step: Step, x: np.ndarray, dot: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
    """(tokens, top_k, rows) of x's dtype: `dot` of every expert's rows and the (n, cols) x of its slots."""
    ids, rows = step.arrays["ids"], int(step.scalars["rows"])
    xs = np.broadcast_to(x, (*ids.shape, x.shape[-1]))
    out = np.empty((*ids.shape, rows), x.dtype)
    for expert in np.unique(ids):
        mine = ids == expert
        out[mine] = dot(step.arrays["weights"][expert * rows : (expert + 1) * rows], xs[mine])
    return out


def slots_by(matvec: Block | Coalesced, step: Step, rows: np.ndarray, xs: np.ndarray) -> np.ndarray:
    """(n, rows) float32: a matvec kernel's twin over one expert's rows, for each of (n, cols) x."""
    return np.stack([matvec.twin(replace(step, arrays={"weights": rows, "x": x})) for x in xs])
