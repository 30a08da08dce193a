"""mul_mm/mma: products on tensor cores, weights and activations rounded to float16, sums in float32.

In which order a tensor core adds is not documented, so that there is no twin and no exact build: the oracle
judges, by a limit of the kernel's own. What bounds it is written in docs/FLOOR.md.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kernels import oracle, registry
from kernels.compare import CALIBRATED
from kernels.families import huge_block
from kernels.kind import WARP, Kind
from kernels.model import Build, Case, Device, Layout, Seeded, Shape
from kernels.op import Matrix, Step, Truth, Workload
from kernels.ops.mul_mm.reference import SUB, Reference, Tile

PITCH = 32 // 2 + 4  # pairs of a row of the tile: fragments are read from 32 different banks
WARP_ROWS, WARP_TOKENS = 32, 64
LEAST_SM = 80  # that has the instruction
MOST_COLS = 16384  # of the op's quick cases: a row of 257 blocks takes the host a second

HALF_U = 2.0**-11  # unit roundoff of float16
LOST = 2.0**-25  # what a number below float16's normal ones loses at most
OVERFLOW = 65520.0  # from here on float16 has Inf
PROVEN = 2 * HALF_U + HALF_U**2  # both factors of a product are rounded
# Zero-mean inputs: the roundings don't know each other. One of a random mantissa has a deviation of about
# 0.4 units, two 0.6: six units are ten deviations of the sum's error.
CALIBRATED_UNITS = 6
# Tensor cores were seen to align the terms of a sum to the largest and to cut what is below its last bit
# (Fasi, Higham, Mikaitis and Pranesh, 2021): a unit in the last place, twice float32's roundoff, an addition.
CUT = 2.0**-23
PARTIAL = 4  # deviations of the whole sum that its partial sums stay within


class Mma(Reference):
    name = "mma"
    body = "mma.cu"
    before = ("../matvec/f16x2.cuh",)
    builds = (Build.DEFAULT,)
    lacks = (Build.EXACT, Build.DECLARED)
    tile = Tile(rows=128, tokens=128, columns=32, threads=256)
    static_shared_bytes = 2 * 4 * PITCH * (128 + 128)

    def constants(self, kind: Kind | None) -> dict[str, int]:
        assert kind is not None  # every kind's text is its own
        tile = self.tile
        sizes = {"BM": tile.rows, "BN": tile.tokens, "BK": tile.columns, "THREADS": tile.threads}
        warps = {"WM": WARP_ROWS, "WN": WARP_TOKENS, "PITCH": PITCH, "WARP": WARP}
        return sizes | warps | {"SUB": SUB, "PIECES": kind.elements // SUB}

    def families(self, workload: Workload, kinds: tuple[str, ...]) -> tuple[str, ...]:
        """Those whose activations float16 holds; none of a row that is long for the host."""
        if workload.shape["cols"] > MOST_COLS:
            return ()
        too_large = _too_large(registry.kind(kinds[0]), workload.shape)
        return tuple(name for name in workload.families if name not in too_large)

    def quick(self, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
        """Activations that no 16-byte load takes, special scales, one row, and one and seven of 33 blocks."""
        size = kinds[0].elements
        short = Shape.of(rows=6, cols=2 * size, batch=3)
        return (
            Workload(short, ("ordinary", "specials"), layout=Layout(x_offset=4)),
            Workload(Shape.of(rows=1, cols=size, batch=1)),
            Workload(Shape.of(rows=1, cols=33 * size, batch=2)),
            Workload(Shape.of(rows=7, cols=33 * size, batch=2)),
        )

    def refuses(self, case: Case) -> str:
        kind, x = registry.kind(case.kinds[0]), case.x
        if isinstance(x, Seeded) and x.family in _too_large(kind, case.shape):
            return f"x: family {x.family} has numbers past the {OVERFLOW:.0f} from which float16 has Inf"
        return super().refuses(case)

    def refuses_device(self, device: Device, executes: bool) -> str:
        sm = dict(device.fingerprint).get("sm", "")
        if sm and int(sm.removeprefix("sm_")) < LEAST_SM:
            return f"{self.id} needs mma.m16n8k16, which sm_{LEAST_SM} and newer have; this device is {sm}"
        return ""

    def held_to(self, step: Step, truth: Truth) -> Truth:
        """Two roundings to float16 a product, and sums that are cut, on top of float32's own.

        What is past float16 has no truth here: weights and activations of 65,520 and more, but finite.
        """
        assert step.kind is not None
        x = np.abs(step.arrays["x"].astype(np.float64))
        sizes = oracle.magnitudes(step.kind, step.arrays["weights"], self.arithmetic)
        with np.errstate(all="ignore"):
            lost = LOST * (x.sum(axis=1)[:, None] + sizes.sum(axis=1))
            more = _rounding(step, x, sizes) + lost
            limit = truth.limit + abs(step.tensor_scale or 1.0) * more
        past = _past(x)[:, None] | _past(sizes)
        limit = np.where(np.isfinite(limit), limit, 0.0)
        return replace(truth, limit=limit, by_twin=truth.by_twin | (past & ~np.isnan(truth.want)))

    def twin(self, step: Step) -> None:
        return None


def _rounding(step: Step, x: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """(batch, rows) float64: what rounded factors and cut sums may be off by."""
    cut = x.shape[1] * CUT
    proven: np.ndarray = (PROVEN + cut / (1 - cut)) * oracle.dot(sizes, x)
    if step.family not in CALIBRATED:
        return proven
    spread = np.sqrt(oracle.dot(np.square(sizes), np.square(x)))
    calibrated: np.ndarray = np.minimum(proven, (CALIBRATED_UNITS * HALF_U + PARTIAL * cut) * spread)
    return calibrated


def _past(values: np.ndarray) -> np.ndarray:
    """Whether a row has a finite number that float16 has not."""
    found: np.ndarray = ((values >= OVERFLOW) & np.isfinite(values)).any(axis=1)
    return found


def _too_large(kind: Kind, shape: Shape) -> tuple[str, ...]:
    """Families that have activations past float16 at this shape."""
    huge = huge_block((Matrix("weights", kind, shape["rows"], shape["cols"]),)) > 0
    return ("large", "specials") if huge else ("large",)


KERNEL = Mma()
