"""matvec/dp4a: activations to q8_1 first, then a warp per row over integer products, four at a time.

The second launch is judged by the activations that it reads, and beside that reported against the float32
ones. It never reads a q8_1 block's s, a float16 that overflows: the quants are summed again where a kind has
something to add per group.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kernels import oracle, registry
from kernels.families import huge_block
from kernels.ints._ints import PIECE
from kernels.kind import WARP, Kind
from kernels.model import Case, Device, Launch, Plan, Role, Shape, packed
from kernels.op import JudgedOp, LaunchKernel, Matrix, Step, Truth, Workload, ceil_div
from kernels.ops import _q8_1
from kernels.ops._linear import (
    by_rows,
    halved,
    in_order,
    refuses_lanes,
    scale_arg,
    scaled,
    weights_buffer,
    x_buffer,
)
from kernels.ops.matvec._launch import matvec_args
from kernels.ops.quantize_q8_1.warp import KERNEL as QUANTIZE

ROWS = 4  # rows of a thread block, a warp each
SHUFFLES = WARP.bit_length() - 1  # additions of the shuffle-down 16, 8, 4, 2, 1
LEAST_SM = 61  # that has __dp4a


class Dp4a(LaunchKernel):
    op = "matvec"
    name = "dp4a"
    body = "dp4a.cu"
    arithmetic = "factored"
    reads_ints = True
    float_x = "x"

    def serves(self, kinds: tuple[str, ...]) -> bool:
        return all(registry.ints(kind) for kind in kinds)

    def parts(self, kinds: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
        return (QUANTIZE.id, ""), (self.id, kinds[0])

    def constants(self, kind: Kind | None) -> dict[str, int]:
        fields = _q8_1.BLOCK.fields
        assert fields is not None  # a dtype with names has fields
        sizes = {"Q8_ELEMENTS": _q8_1.ELEMENTS, "Q8_BYTES": _q8_1.BLOCK.itemsize, "Q8_AT_QS": fields["qs"][1]}
        return {"WARP": WARP, "ROWS": ROWS, "PIECE": PIECE, **sizes}

    def quick(self, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
        """A second shape for `specials`, of as many columns as it takes that family with."""
        return (Workload(Shape.of(rows=17, cols=2 * kinds[0].elements), ("specials",)),)

    def families(self, workload: Workload, kinds: tuple[str, ...]) -> tuple[str, ...]:
        """Not `specials` where it has activations that q8_1 can't hold."""
        huge = _has_huge(registry.kind(kinds[0]), workload.shape)
        return tuple(name for name in workload.families if not (huge and name == "specials"))

    def refuses(self, case: Case) -> str:
        kind = registry.kind(case.kinds[0])
        if case.family == "specials" and _has_huge(kind, case.shape):
            most = 2 * kind.elements
            return f"family specials has activations of 2^100, past q8_1's float16 scale; at most {most} cols"
        return refuses_lanes(kind, case.shape["cols"], case.layout)

    def refuses_device(self, device: Device, executes: bool) -> str:
        sm = dict(device.fingerprint).get("sm", "")
        if sm and int(sm.removeprefix("sm_")) < LEAST_SM:
            return f"{self.id} needs __dp4a, which sm_{LEAST_SM} and newer have; this device is {sm}"
        return ""

    def plan(self, case: Case) -> Plan:
        rows, cols = case.shape["rows"], case.shape["cols"]
        weights = weights_buffer("weights", registry.kind(case.kinds[0]), rows, cols, case.layout)
        quantized = packed("quantized", (_q8_1.row_bytes(cols),), Role.SCRATCH, "u1")
        names = {"weights": "weights", "x": "quantized", "out": "out"}
        scale = scale_arg(case, "weights")
        launch = Launch(
            kernel=self.id,
            kind=case.kinds[0],
            entry=self.entry(case.kinds[0]),
            args=matvec_args(rows, cols, weights.strides[0], names, scale),
            grid=(ceil_div(rows, ROWS), 1, 1),
            block=(WARP, ROWS, 1),
        )
        return Plan(
            (weights, x_buffer("x", (cols,), case.layout), quantized, packed("out", (rows,), Role.OUT)),
            (QUANTIZE.launch(cols // _q8_1.ELEMENTS, {"x": "x", "out": "quantized"}), launch),
            case.build,
        )

    def chain(self, step: Step) -> int:
        """A lane's pieces, then the shuffles: the products of a piece are whole numbers, summed exactly."""
        return ceil_div(_columns(step) // PIECE, WARP) + SHUFFLES

    def truth(self, op: JudgedOp, step: Step) -> Truth:
        """Of the activations as they were quantized.

        Weights or activations of Inf or NaN meet single products in the oracle, and their scale a whole sum
        here: 0 times it, or Infs that cancel, are the twin's to judge.
        """
        assert step.kind is not None
        x = step.arrays["x"]
        if x.dtype != np.uint8:
            return op.truth(self, step)
        found = op.truth(self, replace(step, arrays={**step.arrays, "x": _q8_1.values(x)}))
        weights = oracle.weights(step.kind, step.arrays["weights"])
        odd = np.isinf(x.view(_q8_1.BLOCK)["d"]).any() | ~np.isfinite(weights).all(axis=1)
        return replace(found, by_twin=found.by_twin | odd)

    def twin(self, step: Step) -> np.ndarray:
        """(rows,) float32: each lane over its pieces, then shuffle-down 16, 8, 4, 2, 1."""
        kind, x = step.kind, step.arrays["x"].view(_q8_1.BLOCK)
        assert kind is not None
        with np.errstate(all="ignore"):  # NaN and Inf are fed on purpose
            cols = len(x) * _q8_1.ELEMENTS
            return scaled(step, by_rows(step.arrays["weights"], cols, lambda rows: _sums(kind, rows, x)))


def _columns(step: Step) -> int:
    assert step.kind is not None
    row_bytes: int = step.arrays["weights"].shape[1]
    return row_bytes // step.kind.block_bytes * step.kind.elements


def _has_huge(kind: Kind, shape: Shape) -> bool:
    """Whether the family `specials` makes a block of such a matrix' activations huge."""
    return huge_block((Matrix("weights", kind, shape["rows"], shape["cols"]),)) > 0


def _split(kind: Kind, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """q (rows, pieces, PIECE) int8, scale and low (rows, pieces) float32."""
    ints = registry.ints(kind.name)
    assert ints is not None  # the kernel serves no other kinds
    q, scale, low = ints.split(np.ascontiguousarray(rows).view(kind.block).reshape(-1))
    count = len(rows)
    parts = q.reshape(count, -1, PIECE), scale.reshape(count, -1)
    return *parts, None if low is None else low.reshape(count, -1)


def _sums(kind: Kind, rows: np.ndarray, x: np.ndarray) -> np.ndarray:
    q, scale, low = _split(kind, rows)
    us = x["qs"].reshape(-1, PIECE).astype(np.int32)
    d = np.repeat(x["d"].astype(np.float32), _q8_1.ELEMENTS // PIECE)
    dots = (q * us).sum(axis=2, dtype=np.int32).astype(np.float32)  # (rows, pieces), exact
    terms = scale * (d * dots)
    if low is not None:
        terms += low * (d * us.sum(axis=1, dtype=np.int32).astype(np.float32))
    return halved(in_order(_dealt(terms), np.zeros((len(rows), WARP), np.float32)))


def _dealt(terms: np.ndarray) -> np.ndarray:
    """(rows, pieces) -> (turns, rows, lanes): lane l takes pieces l, l + 32, …; a missing one adds 0."""
    rows, count = terms.shape
    padded = np.zeros((rows, ceil_div(count, WARP) * WARP), np.float32)
    padded[:, :count] = terms
    return padded.reshape(rows, -1, WARP).transpose(1, 0, 2)


KERNEL = Dp4a()
