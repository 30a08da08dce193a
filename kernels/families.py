"""The families of seeded inputs: what each does to random weight blocks and activations, and what it detects.

Activations come as (vectors, length) uint64 draws, one word an element, and leave as float32 of that shape.
Weights come as (rows, blocks) finite random blocks and are changed in place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kernels.op import Matrix, Vector

# Drowns every other term, and its sums still are finite; in float16 it is the largest such power of two.
HUGE = {"f32": np.float32(2.0**100), "bf16": np.float32(2.0**100), "f16": np.float32(2.0**14)}
TOKENS = (np.inf, -np.inf, np.nan, 2.0**120, -(2.0**120))  # one in every fourth vector of a batch

# float16 bits (max, subnormals, ±Inf, NaN, ±0); their low bytes matter as E8M0: 255, 1, 128, 0, 254.
# A finite one first, for matrices of one row; then the others in such an order that nine rows meet an Inf.
SCALES = (0x0001, 0x7C00, 0x7EFE, 0x7BFF, 0x0000, 0xFC00, 0x8380, 0x8000, 0x03FE, 0xFBFF)
# The same without what would put NaN or Inf in an intermediate and so in every later output.
MILD_SCALES = (0x0001, 0x8380, 0x0000, 0x8000)
# High bytes of finite float16: subnormal ones of both signs, and from 57344 to the largest. The low byte,
# which is what E8M0 and E4M3 scales take, goes through all its values.
EXTREME_HIGH = np.array([0x00, 0x83, 0x01, 0x7B, 0x82, 0x02, 0xFB, 0x81, 0x03, 0x80], np.uint16)
MILD_HIGH = EXTREME_HIGH[EXTREME_HIGH & 0x7F < 4]
# About 1e5, past float16's largest number, and every sum of products is finite; in float16 it is below that.
LARGE = HUGE | {"f32": np.float32(2.0**17), "bf16": np.float32(2.0**17)}


@dataclass(frozen=True)
class Drawing:
    """Where activations are drawn for: what a family may look at beside the draws."""

    vector: Vector
    matrices: tuple[Matrix, ...]  # of the case, in order
    unit: int  # elements that a whole number of blocks of every matrix reading this vector holds
    seed: int


@dataclass(frozen=True)
class Family:
    """One family; `weights` gets the blocks, the matrix, all matrices and (rows,) draws."""

    detects: str
    x: Callable[[np.ndarray, Drawing], np.ndarray]
    weights: Callable[[np.ndarray, Matrix, tuple[Matrix, ...], np.ndarray], None]
    last_rows: int = 0  # rows at the end that are drawn, all others are zero bytes; 0 draws every row


def normal(draws: np.ndarray) -> np.ndarray:
    """float32 in (-3, 3), mean 0, deviation 1, never 0: three 16-bit uniforms, odd multiples of 2^-16."""
    low = np.uint64(0xFFFF)
    total = (draws & low) + (draws >> np.uint64(16) & low) + (draws >> np.uint64(32) & low)
    values: np.ndarray = (2 * total.astype(np.int64) - 3 * 0xFFFF).astype(np.float32) * np.float32(2.0**-16)
    return values


def one_of(draws: np.ndarray, count: int) -> np.ndarray:
    """True at one of `count` elements (a power of two), by bits that `normal` doesn't use."""
    kept: np.ndarray = draws >> np.uint64(48) & np.uint64(count - 1) == 0
    return kept


def negative(draws: np.ndarray) -> np.ndarray:
    """True at every other element, independently of `normal` and `one_of`."""
    signs: np.ndarray = draws >> np.uint64(63) == 1
    return signs


def routed(draws: np.ndarray, below: int) -> np.ndarray:
    """(tokens, slots) uint64 draws to int32 ids below `below`, which is at least the slots.

    The first token's slots have different experts, from the last one and expert 0 on; the last id is 0
    again, and the others are drawn with repeats. With experts enough, one in the middle gets no token.
    """
    tokens, slots = draws.shape
    experts = np.concatenate([[below - 1], np.arange(below - 1)])
    if below > max(slots, 2):
        experts = experts[experts != below // 2]
    ids = experts[(draws % np.uint64(len(experts))).astype(np.int64)]
    ids[0] = experts[:slots]
    if tokens > 1:
        ids[-1, -1] = 0
    return ids.astype(np.int32)


def dense(draws: np.ndarray) -> np.ndarray:
    """`normal`, but at least 1 in size at the end of every vector: there a dropped element must show."""
    x = normal(draws)
    last = x[:, -1]
    last += np.where(np.abs(last) < 1, np.sign(last), np.float32(0))
    return x


def _ordinary(draws: np.ndarray, drawing: Drawing) -> np.ndarray:
    return dense(draws)


def _tiny(draws: np.ndarray, drawing: Drawing) -> np.ndarray:
    return dense(draws) * np.float32(2.0**-10)


def _large(draws: np.ndarray, drawing: Drawing) -> np.ndarray:
    return dense(draws) * LARGE[drawing.vector.dtype]


def _heavy_tailed(draws: np.ndarray, drawing: Drawing) -> np.ndarray:
    """One element in 64, and at least one of every vector, is 8 to 1024 times as large."""
    x = dense(draws)
    outliers = one_of(draws, 64)
    outliers[np.arange(len(x)), (draws[:, 0] % np.uint64(x.shape[1])).astype(np.int64)] = True
    factors = np.float32(2.0) ** np.arange(3, 11, dtype=np.float32)
    return np.where(outliers, x * factors[draws >> np.uint64(54) & np.uint64(7)], x)


def _onehot(draws: np.ndarray, drawing: Drawing) -> np.ndarray:
    length = draws.shape[1]
    at = (draws[:, 0] % np.uint64(length)).astype(np.int64)
    at[0] = length - 1
    x = np.zeros(draws.shape, np.float32)
    rows = np.arange(len(x))
    x[rows, at] = dense(draws)[rows, at]
    return x


def _sparse(draws: np.ndarray, drawing: Drawing) -> np.ndarray:
    kept = one_of(draws, 16)
    kept[:, -1] = True
    return np.where(kept, dense(draws), np.float32(0))


def _constant(draws: np.ndarray, drawing: Drawing) -> np.ndarray:
    return np.repeat(normal(draws[:, :1]), draws.shape[1], axis=1)


def _cancelling(draws: np.ndarray, drawing: Drawing) -> np.ndarray:
    """The last half is the first negated, up to a rest; a middle block is small; one block has pairs."""
    x = normal(draws)
    rest = np.where(one_of(draws, 8), np.float32(2.0**-12), np.float32(0))
    rest[:, 0] = 2.0**-12  # short rows draw none
    length = x.shape[1]
    half = length // drawing.unit // 2 * drawing.unit
    if half:
        x[:, half : length - half] *= np.float32(2.0**-10)
        x[:, length - half :] = rest[:, :half] - x[:, :half]
    else:
        pairs = length // 2
        x[:, 1 : 2 * pairs : 2] = rest[:, :pairs] - x[:, 0 : 2 * pairs : 2]
    return x


def _specials(draws: np.ndarray, drawing: Drawing) -> np.ndarray:
    """Zeros of both signs everywhere, and what the op names, or what a sum of products can be tried with."""
    vector = drawing.vector
    zeros = np.where(negative(draws), np.float32(-0.0), np.float32(0))
    x = np.where(one_of(draws, 16), zeros, normal(draws))
    if vector.exponents:
        return x * np.float32(2.0 ** vector.exponents[drawing.seed % len(vector.exponents)])
    if vector.specials:
        _put_specials(x, vector.specials)
    elif len(x) > 1:
        _put_tokens(x, draws)
    elif block := huge_block(drawing.matrices):
        x[:, block * drawing.unit : (block + 1) * drawing.unit] *= HUGE[vector.dtype]
    return x


def _put_specials(x: np.ndarray, values: tuple[float, ...]) -> None:
    """Every other element takes the next value in turn, so that short arrays meet most of them."""
    slots = x[:, ::2].shape
    turn = np.arange(slots[0] * slots[1]).reshape(slots) % len(values)
    x[:, ::2] = np.array(values, np.float32)[turn]


def _put_tokens(x: np.ndarray, draws: np.ndarray) -> None:
    rows = np.arange(1, len(x), 4)
    at = (draws[rows, 0] % np.uint64(x.shape[1])).astype(np.int64)
    x[rows, at] = np.array(TOKENS, np.float32)[(rows // 4) % len(TOKENS)]


def huge_block(matrices: tuple[Matrix, ...]) -> int:
    """The block whose activations are huge, and whose scale is zero in most rows; 0 for none.

    Only with one matrix: where another one reads the outputs, all of its own would be huge.
    """
    if len(matrices) != 1 or matrices[0].kind.poke is None:
        return 0
    blocks = matrices[0].cols // matrices[0].kind.elements
    return blocks // 2 if blocks >= 3 else 0


def _leave(blocks: np.ndarray, matrix: Matrix, matrices: tuple[Matrix, ...], draws: np.ndarray) -> None:
    """Random finite blocks as they are."""


def _same_blocks(blocks: np.ndarray, matrix: Matrix, matrices: tuple[Matrix, ...], draws: np.ndarray) -> None:
    blocks[:] = blocks[:, :1]


def _same_halves(blocks: np.ndarray, matrix: Matrix, matrices: tuple[Matrix, ...], draws: np.ndarray) -> None:
    unit = unit_of(matrix.cols, matrices)
    half = matrix.cols // unit // 2 * unit // matrix.kind.elements
    if half:
        blocks[:, -half:] = blocks[:, :half]


def _special_scales(
    blocks: np.ndarray, matrix: Matrix, matrices: tuple[Matrix, ...], draws: np.ndarray
) -> None:
    """One block in every fourth row gets a special scale; the huge block is zero but in every fourth row."""
    if matrix.kind.poke is None:
        return
    rows = len(blocks)
    huge = huge_block(matrices)
    if huge:
        calm = np.flatnonzero(np.arange(rows) % 4 != 2)
        _poke(blocks, matrix, calm, np.full(len(calm), huge), np.zeros(len(calm), np.uint16))
    chosen = np.arange(min(3, rows - 1), rows, 4)
    at = (draws[chosen] % np.uint64(blocks.shape[1])).astype(np.int64)
    at[at == huge] = 0
    scales = np.array(_scales(matrix, matrix is matrices[-1]), np.uint16)
    _poke(blocks, matrix, chosen, at, scales[np.arange(len(chosen)) % len(scales)])


def _extreme_scales(
    blocks: np.ndarray, matrix: Matrix, matrices: tuple[Matrix, ...], draws: np.ndarray
) -> None:
    """Every block of a row has the row's scale, so that no other block drowns it.

    256 rows meet every low byte, 2,560 every float16 of the high bytes. Other matrices than the last have
    small scales only, or their outputs would put NaN in every later one.
    """
    if matrix.kind.poke is None:
        return
    last = matrix is matrices[-1]
    row = np.arange(len(blocks), dtype=np.uint64)
    high = (EXTREME_HIGH if last else MILD_HIGH)[(row + (row >> np.uint64(8))) % np.uint64(10 if last else 8)]
    low = (row + draws[0]) & np.uint64(0xFF if last else 0x7F)
    bits = high << 8 | low.astype(np.uint16)
    flat = blocks.reshape(-1)
    matrix.kind.poke(flat, np.repeat(bits, blocks.shape[1]))


def _scales(matrix: Matrix, is_last: bool) -> tuple[int, ...]:
    return matrix.kind.special_scales or (SCALES if is_last else MILD_SCALES)


def _poke(blocks: np.ndarray, matrix: Matrix, rows: np.ndarray, at: np.ndarray, scales: np.ndarray) -> None:
    assert matrix.kind.poke is not None  # callers have asked
    poked = blocks[rows, at]
    matrix.kind.poke(poked, scales)
    blocks[rows, at] = poked


def unit_of(length: int, matrices: tuple[Matrix, ...]) -> int:
    """Elements of the largest block among the matrices with rows of `length`; 1 if there is none."""
    return max((matrix.kind.elements for matrix in matrices if matrix.cols == length), default=1)


FAMILIES = {
    "ordinary": Family(
        "wrong decode, order, stride, lanes or geometry; most single dropped elements", _ordinary, _leave
    ),
    "tiny": Family("what an absolute tolerance hides: x is about 1e-3, scales off by an ulp", _tiny, _leave),
    "onehot": Family(
        "a dropped last element; with a batch, swapped or shifted activations: each output is one product",
        _onehot,
        _leave,
    ),
    "sparse": Family("swapped, shifted or dropped activations that dense data drowns", _sparse, _leave),
    "constant": Family(
        "drift: every block of a row is the same, so that roundings add up", _constant, _same_blocks
    ),
    "cancelling": Family(
        "activations or weights rounded to fewer bits: products cancel to about 2^-12 of their size",
        _cancelling,
        _same_halves,
    ),
    "specials": Family(
        "NaN, Inf, zero, subnormal and largest scales and activations", _specials, _special_scales
    ),
    "large": Family(
        "float16 on the way, or a clamp: every activation is about 1e5, past float16's range", _large, _leave
    ),
    "heavy_tailed": Family(
        "clipped outliers, one scale for a whole row of activations, shortcuts in the middle of exp's range",
        _heavy_tailed,
        _leave,
    ),
    "extreme": Family(
        "flushed or saturated scales: a row is subnormal or largest float16s, or one E8M0 or E4M3 byte",
        _ordinary,
        _extreme_scales,
    ),
    "last_row": Family(
        "row offsets that overflow: only the last row isn't zero, so that a read of any other row shows",
        _ordinary,
        _leave,
        last_rows=1,
    ),
}
