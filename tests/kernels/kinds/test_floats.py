"""Plain numbers: what a poke with a float16's bits makes of them, and that F32 is nobody's to write to."""

from __future__ import annotations

import numpy as np
import pytest

from kernels import registry
from kernels.kind import Kind

KINDS = [kind for kind in registry.kinds().values() if kind.is_plain]
every_float = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)

HALVES = np.arange(1 << 16, dtype=np.uint16)
SMALLEST_NORMAL = {"F16": 2.0**-14, "BF16": 2.0**-126, "F32": 2.0**-126}
# Of BF16 and F32 not the largest of all: its products with activations overflow, and then the order decides.
LARGEST = {"F16": 65504.0, "BF16": (2 - 2.0**-7) * 2.0**96, "F32": (2 - 2.0**-23) * 2.0**96}
SMALLEST = {"F16": 2.0**-24, "BF16": 2.0**-133, "F32": 2.0**-149}


def poked(kind: Kind, halves: np.ndarray) -> np.ndarray:
    """(n, 32) float64: the weights of blocks poked with (n,) float16 bits."""
    blocks = np.zeros(len(halves), kind.block)
    assert kind.poke is not None
    kind.poke(blocks, halves)
    return exactly(kind.decode(blocks))


def exactly(values: np.ndarray) -> np.ndarray:
    """As float64; signalling NaN pass without a warning."""
    with np.errstate(invalid="ignore"):
        return values.astype(np.float64)


def names(values: np.ndarray, smallest_normal: float) -> np.ndarray:
    """The class of every value."""
    size = np.abs(values)
    of = [np.isnan(values), np.isinf(values), size == 0, size < smallest_normal]
    return np.select(of, ["NaN", "Inf", "zero", "subnormal"], "normal")


@every_float
def test_every_half_keeps_its_class_and_sign_in_all_weights(kind: Kind) -> None:
    w = poked(kind, HALVES)
    assert (np.isnan(w) == np.isnan(w[:, :1])).all()
    assert (np.isnan(w) | (w == w[:, :1])).all()
    halves = exactly(HALVES.view(np.float16))
    assert np.array_equal(names(w[:, 0], SMALLEST_NORMAL[kind.name]), names(halves, 2.0**-14))
    numbers = ~np.isnan(halves)
    assert np.array_equal(np.signbit(w[numbers, 0]), np.signbit(halves[numbers]))


@every_float
def test_the_smallest_are_the_kinds_own_and_the_largest_are_large(kind: Kind) -> None:
    assert poked(kind, np.array([0x0001], np.uint16))[0, 0] == SMALLEST[kind.name]
    assert poked(kind, np.array([0x0400], np.uint16))[0, 0] == SMALLEST_NORMAL[kind.name]
    assert poked(kind, np.array([0xFBFF], np.uint16))[0, 0] == -LARGEST[kind.name]


@pytest.mark.parametrize("name", ["F16", "F32"])
def test_ordinary_halves_keep_their_value(name: str) -> None:
    """But for the two mantissas that stand for the ends; BF16 has three bits less."""
    middle = HALVES[((HALVES >> 10 & 31) > 1) & ((HALVES >> 10 & 31) < 30)]
    middle = middle[(middle & 0x3FF != 1) & (middle & 0x3FF != 0x3FF)]
    assert len(middle) == 2 * 28 * 1022
    assert np.array_equal(poked(registry.kind(name), middle)[:, 0], middle.view(np.float16))


@every_float
def test_pin_takes_two_exponents_and_leaves_sign_and_mantissa(kind: Kind) -> None:
    content = np.random.default_rng(7).integers(0, 256, (500, kind.block_bytes), np.uint8)
    blocks = content.view(kind.block)[:, 0]
    kind.pin(blocks)
    w = kind.decode(blocks).astype(np.float64)
    assert set(np.frexp(np.abs(w))[1].ravel().tolist()) == {0, 1}  # 1/2 to 2
    assert 0.45 < (w < 0).mean() < 0.55
    assert len(np.unique(w)) > {"BF16": 500, "F16": 3500, "F32": 15_000}[kind.name]


def test_weights_of_f32_cannot_be_written_to() -> None:
    kind = registry.kind("F32")
    rows = np.zeros((2, kind.block_bytes), np.uint8)
    w = kind.weights(rows)
    assert np.shares_memory(w, rows)
    with pytest.raises(ValueError, match="read-only"):
        w[0, 0] = 1
