"""matvec/ladder_v5: as ladder_v3, with activations and a block's sums in float16, two at a time."""

from __future__ import annotations

import numpy as np

from kernels import oracle
from kernels.compare import CALIBRATED, OVERFLOW
from kernels.kind import WARP, Kind, half, nibbles
from kernels.model import Case, Device, Seeded, Shape
from kernels.op import Step, Truth, Workload, ceil_div
from kernels.ops._linear import halved
from kernels.ops.matvec._ladder import ELEMENTS, SHUFFLES, TILE, Rung, dealt

PAIRS = ELEMENTS // 2
STRIDE = PAIRS + 1  # pairs from block to block of a tile: lanes then read different banks
APART = 4  # weights of a pair: i and i + 4 of a word's eight
OLDEST_SM = 53  # f16x2 instructions
LARGEST = 511  # |x| from which on 16 products with a weight of 8 may pass float16's 65,504
# Families with larger activations, and the number of blocks from which on they have them.
TOO_LARGE = {"large": 1, "heavy_tailed": 1, "specials": 3}

HALF_U = 2.0**-11  # unit roundoff of float16
NORMAL = 2.0**-14  # activations below it are staged as multiples of 2^-24,
LOST = 2.0**-25  # and lose this much at most
ROUNDINGS = 1 + PAIRS  # of an activation when it is staged, and of a lane's sum over a block
PROVEN = ROUNDINGS * HALF_U / (1 - ROUNDINGS * HALF_U)
# Zero-mean inputs: roundings are of random sign, and those of different blocks don't know each other, so they
# add up like the root of the sum of the blocks' squares. The twin was seen at up to 2.35 over rows of one
# block, 1.1 over those of 33 and more.
CALIBRATED_UNITS = 6


class LadderV5(Rung):
    name = "ladder_v5"
    body = "ladder_v5.cu"
    before = ("f16x2.cuh",)
    packing = "q4_linear_f16"
    static_shared_bytes = 4 * TILE * STRIDE

    def constants(self, kind: Kind | None) -> dict[str, int]:
        return super().constants(kind) | {"STRIDE": STRIDE, "PAIRS": PAIRS}

    def quick(self, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
        two_blocks = Shape.of(rows=17, cols=2 * ELEMENTS)  # special scales; the op's own have larger x
        return *super().quick(kinds), Workload(two_blocks, ("specials",))

    def families(self, workload: Workload, kinds: tuple[str, ...]) -> tuple[str, ...]:
        blocks = workload.shape["cols"] // ELEMENTS
        return tuple(one for one in super().families(workload, kinds) if not _too_large(one, blocks))

    def refuses(self, case: Case) -> str:
        blocks = case.shape["cols"] // ELEMENTS
        if isinstance(case.x, Seeded) and _too_large(case.x.family, blocks):
            return f"x: family {case.x.family} has more than the {LARGEST} that sums in float16 hold"
        return super().refuses(case)

    def refuses_device(self, device: Device, executes: bool) -> str:
        sm = dict(device.fingerprint).get("sm", "")
        if sm and int(sm.removeprefix("sm_")) < OLDEST_SM:
            return f"f16x2 arithmetic needs sm_{OLDEST_SM}; this is {sm}"
        return ""

    def chain(self, step: Step) -> int:
        blocks = step.arrays["x"].shape[-1] // ELEMENTS
        return PAIRS + 1 + ceil_div(blocks, WARP) + SHUFFLES

    def held_to(self, step: Step, truth: Truth) -> Truth:
        """float16's roundings within a block on top of float32's; a scale of Inf or NaN is the twin's.

        Such a scale multiplies a sum here, and every weight in the oracle: NaN there may be Inf here.
        """
        assert step.kind is not None
        sizes = oracle.magnitudes(step.kind, step.arrays["weights"], self.arithmetic)
        x = np.abs(step.arrays["x"].astype(np.float64))
        with np.errstate(all="ignore"):
            by_block = (sizes * x).reshape(len(sizes), -1, ELEMENTS).sum(axis=-1)  # S of every block
            rounding = PROVEN * by_block.sum(axis=-1)
            if step.family in CALIBRATED:
                spread = np.sqrt(np.square(by_block).sum(axis=-1))
                rounding = np.minimum(rounding, CALIBRATED_UNITS * HALF_U * spread)
            subnormal = ((x > 0) & (x < NORMAL)).astype(np.float64)
            limit = truth.limit + rounding + LOST * (sizes * subnormal).sum(axis=-1)
        by_twin = truth.by_twin | ~(by_block.sum(axis=-1) < OVERFLOW)
        limit = np.where(np.isfinite(limit), limit, 0.0)
        return Truth(truth.want, limit, by_twin, truth.relative, truth.scale)

    def sums(self, kind: Kind, rows: np.ndarray, x: np.ndarray) -> np.ndarray:
        blocks = np.ascontiguousarray(rows).view(kind.block)  # (rows, blocks)
        q = nibbles(blocks["qs"]).reshape(*blocks.shape, ELEMENTS).astype(np.float64) - 8
        staged = x.astype(np.float16).astype(np.float64).reshape(-1, ELEMENTS)
        low, high = (float16_sums(q, staged, pairs) for pairs in pair_elements())
        terms = half(blocks["d"]) * (low + high)
        return halved(dealt(terms[None], WARP))


def _too_large(family: str, blocks: int) -> bool:
    return family in TOO_LARGE and blocks >= TOO_LARGE[family]


def pair_elements() -> tuple[np.ndarray, np.ndarray]:
    """The elements of a block that the low halves of its pairs are, and the high ones, in order."""
    low = np.arange(ELEMENTS).reshape(-1, 2, APART)[:, 0].reshape(-1)
    return low, low + APART


def float16_sums(q: np.ndarray, staged: np.ndarray, elements: np.ndarray) -> np.ndarray:
    """(rows, blocks) float32: fused multiply-adds of float16 over `elements` of (…, blocks, 32) float64.

    Products and sums are exact in float64, whatever is kept is rounded once.
    """
    total = np.zeros(q.shape[:2], np.float64)
    for element in elements:
        total = (q[..., element] * staged[:, element] + total).astype(np.float16).astype(np.float64)
    return total.astype(np.float32)


KERNEL = LadderV5()
