"""What every kind promises besides its numbers: sizes, pinning, poking, lanes and chunks."""

from __future__ import annotations

import gguf
import numpy as np
import pytest

from kernels import registry
from kernels.kind import CHUNK_WEIGHTS, Kind
from tests.docs.scale_forms import HALF, WIDE, fields_of, form_of, scale_bits

KINDS = list(registry.kinds().values())
NAMES = [kind.name for kind in KINDS]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=NAMES)

BLOCKS = 500


def random_blocks(kind: Kind, count: int = BLOCKS) -> np.ndarray:
    """(count,) blocks of random bytes, scales too."""
    content = np.random.default_rng(7).integers(0, 256, (count, kind.block_bytes), np.uint8)
    return content.view(kind.block)[:, 0]


def gguf_sizes(kind: Kind) -> tuple[int, int] | None:
    """Elements and bytes of a block as the gguf package has them; None for a type that it doesn't know."""
    known = gguf.GGMLQuantizationType.__members__.get(kind.name)
    return gguf.GGML_QUANT_SIZES[known] if known is not None else None


@every_kind
def test_sizes_equal_those_of_gguf(kind: Kind) -> None:
    if kind.name == "Q2_0" and gguf_sizes(kind) is None:  # gguf 0.19
        assert (kind.elements, kind.block_bytes) == (64, 18)
        return
    sizes = gguf_sizes(kind)
    assert sizes is not None
    together = kind.elements if kind.is_plain else 1  # a plain number is a block of its own there
    assert (together * sizes[0], together * sizes[1]) == (kind.elements, kind.block_bytes)


@every_kind
def test_block_has_no_hidden_padding(kind: Kind) -> None:
    sizes = [kind.block[name].itemsize for name in kind.block.names or ()]
    assert sum(sizes) == kind.block.itemsize


@every_kind
def test_pinned_random_blocks_decode_finite(kind: Kind) -> None:
    blocks = random_blocks(kind)
    kind.pin(blocks)
    w = kind.decode(blocks)
    assert w.shape == (BLOCKS, kind.elements)
    assert np.isfinite(w).all()
    assert (np.abs(w).max(axis=1) > 0).all()


@every_kind
def test_unpinned_random_blocks_leave_the_finite_or_the_pinned_range(kind: Kind) -> None:
    # The pin is needed: without it scales are Inf, NaN, anything up to 2^127 (E8M0) or past 448 (E4M3).
    blocks = random_blocks(kind)
    largest = np.abs(kind.decode(blocks)).max()  # NaN where there is one
    kind.pin(blocks)
    assert not largest <= np.abs(kind.decode(blocks)).max()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.name != "MXFP4"], ids=lambda kind: kind.name)
def test_pinned_blocks_decode_to_zero_when_their_scales_are_zeroed(kind: Kind) -> None:
    blocks = random_blocks(kind)
    kind.pin(blocks)
    kind.poke(blocks, np.zeros(BLOCKS, np.uint16))
    assert (kind.decode(blocks) == 0).all()


@every_kind
def test_pin_touches_nothing_but_the_scales(kind: Kind) -> None:
    blocks, before = random_blocks(kind), random_blocks(kind)
    kind.pin(blocks)
    for name in kind.block.names or ():
        assert (blocks[name].tobytes() == before[name].tobytes()) == (name not in fields_of(kind))


def test_pin_keeps_sign_and_mantissa_random() -> None:
    blocks = random_blocks(registry.kind("Q4_0"))
    registry.kind("Q4_0").pin(blocks)
    d = blocks["d"].astype(np.float64)
    assert ((np.abs(d) >= 2.0**-4) & (np.abs(d) < 2.0**-3)).all()
    assert 0.4 < (d < 0).mean() < 0.6
    assert len(np.unique(np.abs(d))) > 300


def test_nvfp4_pin_takes_every_byte_that_is_a_number_and_no_sign() -> None:
    blocks = random_blocks(registry.kind("NVFP4"))
    before = blocks["d"].copy()
    registry.kind("NVFP4").pin(blocks)
    assert np.array_equal(blocks["d"], np.minimum(before & 0x7F, 0x7E))
    assert set(blocks["d"].ravel().tolist()) == set(range(0x7F))


def test_iq1_m_keeps_its_twelve_bits_of_sub_scales_when_d_is_pinned_or_poked() -> None:
    kind = registry.kind("IQ1_M")
    assert kind.poke is not None
    blocks, before = random_blocks(kind), random_blocks(kind)
    kind.pin(blocks)
    assert np.array_equal(blocks["scales"] & 0x0FFF, before["scales"] & 0x0FFF)
    kind.poke(blocks, np.full(BLOCKS, 0x4321, np.uint16))
    assert np.array_equal(blocks["scales"] & 0x0FFF, before["scales"] & 0x0FFF)
    assert (blocks["scales"][:, :, 0] >> 12 == [1, 2, 3, 4]).all()  # the lowest nibble first


def test_mxfp4_pin_takes_eight_exponents() -> None:
    blocks = random_blocks(registry.kind("MXFP4"))
    registry.kind("MXFP4").pin(blocks)
    assert set(blocks["e"].tolist()) == set(range(123, 131))


@every_kind
def test_poke_sets_every_scale_to_the_given_bits(kind: Kind) -> None:
    assert kind.poke is not None
    blocks = random_blocks(kind)
    bits = (np.arange(BLOCKS) * 131 % 65536).astype(np.uint16)
    kind.poke(blocks, bits)
    if form_of(kind) is WIDE:
        return  # tests/kernels/kinds/test_floats.py
    got = scale_bits(kind, blocks.view(np.uint8).reshape(BLOCKS, -1))
    assert got.size >= BLOCKS
    assert (got == (bits if form_of(kind) is HALF else bits & 0xFF)[:, None]).all()


@every_kind
def test_lanes_cover_every_weight_of_a_block_once(kind: Kind) -> None:
    elements = kind.lanes.elements()
    assert elements.shape == (32, kind.elements // 32)
    assert sorted(elements.ravel().tolist()) == list(range(kind.elements))


@every_kind
def test_lane_alignment_is_kept_from_block_to_block(kind: Kind) -> None:
    assert kind.block_bytes % kind.lane_align == 0


@every_kind
def test_decode_over_several_chunks_equals_block_by_block(kind: Kind) -> None:
    count = CHUNK_WEIGHTS // kind.elements + 3
    blocks = random_blocks(kind, count)
    kind.pin(blocks)
    whole = kind.decode(blocks)
    edge = [0, count - 4, count - 3, count - 1]
    assert np.array_equal(whole[edge], np.concatenate([kind.decode(blocks[i : i + 1]) for i in edge]))


@every_kind
def test_weights_reads_a_strided_view(kind: Kind) -> None:
    row = 3 * kind.block_bytes
    padded = np.full((5, row + 7), 0xFF, np.uint8)
    rows = padded[:, :row]
    rows[:] = random_blocks(kind, 15).view(np.uint8).reshape(5, row)
    blocks = rows.copy().view(kind.block)
    kind.pin(blocks)
    rows[:] = blocks.view(np.uint8)
    assert np.array_equal(kind.weights(rows), kind.decode(blocks.reshape(-1)).reshape(5, -1))


@every_kind
def test_decode_of_no_blocks_is_empty(kind: Kind) -> None:
    assert kind.decode(random_blocks(kind, 0)).shape == (0, kind.elements)


def test_mxfp4_scale_byte_zero_is_a_subnormal_and_not_zero() -> None:
    blocks = random_blocks(registry.kind("MXFP4"))
    blocks["e"] = 0
    assert np.abs(registry.kind("MXFP4").decode(blocks)).max() == 12 * 2.0**-128


@pytest.mark.parametrize("name", ["Q5_0", "Q5_1"])
def test_fifth_bits_vary(name: str) -> None:
    blocks = random_blocks(registry.kind(name))
    registry.kind(name).pin(blocks)
    assert len(np.unique(blocks["qh"])) > 250
