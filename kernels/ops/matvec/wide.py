"""matvec/wide: several rows a warp from bytes staged by 16-byte loads; few rows are split over warps.

What bounds it is written in docs/FLOOR.md.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd

import numpy as np

from kernels import oracle, registry
from kernels.ints._ints import PIECE
from kernels.kind import WARP, Kind
from kernels.model import Case, Launch, Layout, Plan, ScalarArg, Shape
from kernels.op import LaunchKernel, Step, Truth, Workload, ceil_div, flat
from kernels.ops._linear import Scale, by_rows, halved, in_order, scaled
from kernels.ops.matvec._launch import matvec_args, matvec_plan

WARPS = 4  # of a thread block
SPAN = 1024  # columns that a warp stages at a time
PAD = 4  # floats from unit to unit of activations, so that lanes read different banks
VECTOR = 16  # bytes of the widest load
WORD_BYTES = 4
MOST_VECTORS = 288  # of a warp's rows together, nine loads a lane: so many rows that it stays below
MOST_ROWS = 4
ENOUGH_WARPS = 4096  # of a launch: about what the largest boards hold; with fewer, rows are split
SHUFFLES = WARP.bit_length() - 1  # additions of the shuffle-down 16, 8, 4, 2, 1


class Wide(LaunchKernel):
    op = "matvec"
    name = "wide"
    body = "wide.cu"
    ahead = ("staged.cuh",)
    arithmetic = "factored"
    reads_ints = True

    def constants(self, kind: Kind | None) -> dict[str, int]:
        assert kind is not None  # every kind's text is its own
        own = {
            "WHOLE": int(_whole(kind)),
            "WORDS": ceil_div(kind.block_bytes, WORD_BYTES) if _whole(kind) else 1,
            "ALIGN": _align(kind),
            "TORN": _align(kind) - 1,
            "EVEN": 1 - kind.block_bytes % 2,
        }
        shared = {"WARP": WARP, "WARPS": WARPS, "SPAN": SPAN, "PAD": PAD, "PIECE": PIECE}
        return (
            shared
            | {
                "UNIT": _unit(kind),
                "UNITS": kind.elements // _unit(kind),
                "ROWS": _rows(kind),
                "VECTORS": _vectors(kind),
                "LOADS": ceil_div(_vectors(kind), WARP),
            }
            | own
        )

    def quick(self, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
        """What no 16-byte load takes, what the last one just takes or doesn't, and rows of three spans."""
        (kind,) = kinds
        size, align = kind.elements, _align(kind)
        odd = Shape.of(rows=17, cols=SPAN + size)  # two warps a row, and two groups of rows a thread block
        split = Shape.of(rows=8, cols=3 * SPAN + size)
        last = 7 * kind.row_bytes(split["cols"])  # bytes from the first row's start to the last one's
        return (
            Workload(odd, layout=Layout(weights_offset=1, x_offset=4)),
            # rows whose distance tears fields apart, and has no bit that says so but the lowest
            Workload(Shape.of(rows=3, cols=size), layout=Layout(_tearing(kind), 2 * VECTOR)),
            # the last row starts with a vector: behind its last whole span is less than one vector more
            Workload(split, ("ordinary", "onehot"), layout=Layout(weights_offset=-last % VECTOR)),
            # the first row starts inside a vector; the last row ends inside the last one
            Workload(Shape.of(rows=8, cols=SPAN), layout=Layout(weights_offset=align)),
        )

    def launch(
        self, kind: str, rows: int, cols: int, row_bytes: int, names: dict[str, str], scale: Scale = ()
    ) -> Launch:
        """One launch over the buffers that `names` gives for weights, x and out."""
        of = registry.kind(kind)
        split = warps_a_row(rows, cols, _rows(of))
        grid, block = flat(ceil_div(rows, WARPS // split * _rows(of)), WARPS * WARP)
        args = matvec_args(rows, cols, row_bytes, names, (ScalarArg("split", "i4", split), *scale))
        weights = VECTOR * WARPS * _rows(of) * _vectors(of)
        x = 4 * split * SPAN // _unit(of) * (_unit(of) + PAD)
        return Launch(self.id, kind, self.entry(kind), args, grid, block, dynamic_shared_bytes=weights + x)

    def plan(self, case: Case) -> Plan:
        return matvec_plan(case, self.launch)

    def chain(self, step: Step) -> int:
        """A piece's products, a lane's pieces, the shuffles, and the warps that share a row."""
        cols, split = step.arrays["x"].shape[-1], int(step.scalars["split"])
        turns = ceil_div(ceil_div(cols, SPAN), split)
        return PIECE + turns * (SPAN // PIECE // WARP) + SHUFFLES + split - 1

    def held_to(self, step: Step, truth: Truth) -> Truth:
        """The twin's where a row has a weight of Inf or NaN: its scale multiplies a whole sum here."""
        assert step.kind is not None
        if not registry.ints(step.kind.name):
            return truth
        weights = oracle.weights(step.kind, step.arrays["weights"])
        return replace(truth, by_twin=truth.by_twin | ~np.isfinite(weights).all(axis=1))

    def twin(self, step: Step) -> np.ndarray:
        """(rows,) float32: pieces in order, lanes over their pieces, shuffle-down, then warp after warp."""
        kind, x, split = step.kind, step.arrays["x"], int(step.scalars["split"])
        assert kind is not None
        with np.errstate(all="ignore"):  # NaN and Inf are fed on purpose
            sums = by_rows(step.arrays["weights"], len(x), lambda rows: _sums(kind, rows, x, split))
            return scaled(step, sums)


def warps_a_row(rows: int, cols: int, rows_a_warp: int) -> int:
    """How many warps share a row: 1, 2 or 4, until a launch has enough of them or a warp has one span."""
    split = 1
    while (
        2 * split <= min(WARPS, ceil_div(cols, SPAN)) and ceil_div(rows, rows_a_warp) * split < ENOUGH_WARPS
    ):
        split *= 2
    return split


def _whole(kind: Kind) -> bool:
    """Whether a lane takes a whole block into registers: small ones that are read as integers."""
    return kind.elements == WARP and registry.ints(kind.name) is not None


def _unit(kind: Kind) -> int:
    """Neighbouring columns of a lane."""
    return kind.elements if _whole(kind) else PIECE


def _align(kind: Kind) -> int:
    """Bytes that every block's address is a multiple of in shared memory; a whole one is taken anywhere."""
    return 1 if _whole(kind) else gcd(kind.block_bytes, VECTOR)


def _tearing(kind: Kind) -> int:
    """Bytes behind a row of one block that make rows' distance odd, and clear its bit of weight `_align`."""
    align = _align(kind)
    return 1 + align if align > 1 and (kind.block_bytes + 1) & align else 1


def _vectors(kind: Kind) -> int:
    """Vectors that hold a row's span wherever it begins in the first."""
    return ceil_div(SPAN // kind.elements * kind.block_bytes + VECTOR - _align(kind), VECTOR)


def _rows(kind: Kind) -> int:
    rows = MOST_ROWS
    while rows > 1 and rows * _vectors(kind) > MOST_VECTORS:
        rows //= 2
    return rows


def _sums(kind: Kind, rows: np.ndarray, x: np.ndarray, split: int) -> np.ndarray:
    terms = _dealt(kind, _terms(kind, rows, x), split)  # (turns, rows, split, lanes)
    lanes = halved(in_order(terms, np.zeros(terms.shape[1:], np.float32)))  # (rows, split)
    return in_order(lanes.T[1:], lanes[:, 0])


def _terms(kind: Kind, rows: np.ndarray, x: np.ndarray) -> np.ndarray:
    """(rows, pieces) float32: what a piece adds to its lane's sum."""
    ints, count, xs = registry.ints(kind.name), len(rows), x.reshape(-1, PIECE)
    if ints is None:
        return _in_pieces(kind.weights(rows).reshape(count, -1, PIECE) * xs)
    q, scale, low = ints.split(np.ascontiguousarray(rows).view(kind.block).reshape(-1))
    terms: np.ndarray = scale.reshape(count, -1) * _in_pieces(q.reshape(count, -1, PIECE) * xs)
    return terms if low is None else terms + low.reshape(count, -1) * _in_pieces(xs)


def _in_pieces(products: np.ndarray) -> np.ndarray:
    """(…, PIECE) -> (…): one after the other."""
    return in_order(np.moveaxis(products, -1, 0), np.zeros(products.shape[:-1], np.float32))


def _dealt(kind: Kind, terms: np.ndarray, split: int) -> np.ndarray:
    """(rows, pieces) -> (turns, rows, split, lanes): a lane's, in order; missing ones add 0."""
    rows, count = terms.shape
    a_unit, pieces = _unit(kind) // PIECE, SPAN // PIECE
    padded = np.zeros((rows, ceil_div(count, split * pieces) * split * pieces), np.float32)
    padded[:, :count] = terms
    units = pieces // WARP // a_unit  # of a lane in a span
    dealt = padded.reshape(rows, -1, split, units, WARP, a_unit).transpose(1, 3, 5, 0, 2, 4)
    return dealt.reshape(-1, rows, split, WARP)


KERNEL = Wide()
