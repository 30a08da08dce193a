"""Special scales: decode and oracle against what ggml decoded, line by line of docs/SPECIALS.md."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from kernels import oracle, registry
from kernels.kind import Kind
from tests.docs import scale_forms, specials
from tests.docs.scale_forms import E8M0, HALF, form_of, scale_bits
from tests.docs.specials import EDGES, Row, differing, unequal

KINDS = list(registry.kinds().values())
ROWS = specials.all_rows()
every_row = pytest.mark.parametrize("row", ROWS, ids=[f"{row.kind.name}-{row.number}" for row in ROWS])
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
half_kinds = pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if form_of(kind) is HALF], ids=lambda kind: kind.name
)


@every_row
def test_decode_has_ggmls_bits_where_scales_are_special(row: Row) -> None:
    got = row.kind.weights(row.block)[0]
    assert row.ggml.shape == (row.kind.elements,)
    assert differing(got, row.ggml) == 0


@every_row
def test_oracle_has_ggmls_classes_and_values_where_scales_are_special(row: Row) -> None:
    assert unequal(oracle.weights(row.kind, row.block)[0], row.ggml) == 0


@pytest.mark.parametrize("number", EDGES)
@every_kind
def test_decode_and_oracle_equal_ggml_on_its_quantizers_edge_cases(kind: Kind, number: int) -> None:
    blocks, ggml = specials.edge(kind, number)
    assert ggml.size == 1024
    assert differing(kind.weights(blocks), ggml) == 0
    assert unequal(oracle.weights(kind, blocks), ggml) == 0


@half_kinds
def test_ggmls_quantizer_makes_zeros_of_tiny_weights(kind: Kind) -> None:
    assert (specials.edge(kind, 7)[1] == 0).all()
    assert (specials.edge(kind, 8)[1] == 0).all()


# Their d or m is a weight itself, of N(0, 3e4) one past 65,520; those of the others are a fraction of one.
WEIGHTS_AS_SCALES = {"F16", "Q2_0", "Q4_1", "Q5_1", "TQ1_0", "TQ2_0"}


@half_kinds
def test_ggmls_quantizer_makes_inf_of_large_weights_where_a_scale_is_a_weight(kind: Kind) -> None:
    scales = np.concatenate([scale_bits(kind, specials.edge(kind, row)[0]) for row in EDGES])
    values = np.abs(scales.astype(np.uint16).view(np.float16))
    assert ((values == 0) | (values >= 2.0**-14)).all()
    assert np.isinf(values).any() == (kind.name in WEIGHTS_AS_SCALES)


def test_ggmls_quantizer_gives_float32_denormals_byte_252_and_zero_codes() -> None:
    blocks, ggml = specials.edge(registry.kind("MXFP4"), 8)
    assert set(blocks[:, 0].tolist()) == {252}
    assert (ggml == 0).all()


@every_kind
def test_special_blocks_have_every_class_of_scale(kind: Kind) -> None:
    found = {scale for row in specials.rows(kind.name) for scale in row.scales}
    if (form := form_of(kind)) is E8M0:
        assert found >= form.special
    else:
        assert found == form.special
    if form is HALF:
        assert {group for row in specials.rows(kind.name) for group in row.groups} >= {
            "nan",
            "inf",
            "max",
            "subnormal",
        }


@half_kinds
def test_every_subnormal_half_is_decoded_and_none_is_flushed(kind: Kind) -> None:
    bits = np.concatenate([np.arange(0x0001, 0x0400), np.arange(0x8001, 0x8400)]).astype(np.uint16)
    blocks = specials.one_sign(kind, bits)
    unit = kind.weights(specials.one_sign(kind, (0x3C00,)))[0].astype(np.float64)
    want = bits.view(np.float16).astype(np.float64)[:, None] * unit
    got = kind.weights(blocks)
    assert np.count_nonzero(want) == 2046 * kind.elements
    assert np.array_equal(got, want)
    assert np.array_equal(oracle.weights(kind, blocks), want)


def test_every_e8m0_byte_is_a_power_of_two_in_decode_and_oracle() -> None:
    kind = registry.kind("MXFP4")
    blocks = specials.one_sign(kind, np.arange(256), fill=0x11)  # code 1: one half
    want = np.ldexp(1.0, np.arange(256) - 128)[:, None] * np.ones(kind.elements)
    assert np.array_equal(kind.weights(blocks), want)
    assert np.array_equal(oracle.weights(kind, blocks), want)


def test_every_e4m3_byte_is_its_value_in_decode_and_oracle() -> None:
    kind = registry.kind("NVFP4")
    blocks = specials.one_sign(kind, np.arange(256), fill=0x22)  # code 2: one
    got = kind.weights(blocks)
    # A sign that doesn't count, four bits of exponent with bias 7, three of mantissa; all ones are no number.
    exponent, mantissa = np.arange(256) >> 3 & 15, np.arange(256) & 7
    want = np.where(exponent, (1 + mantissa / 8) * 2.0 ** (exponent - 7), mantissa * 2.0**-9)
    want[0x7F] = 0
    assert np.array_equal(got, np.repeat(want[:, None], 64, axis=1))
    assert np.array_equal(oracle.weights(kind, blocks), got)


def flushing_halves(kind: Kind, blocks: np.ndarray) -> np.ndarray:
    """What a decode makes of them that takes a subnormal float16 for zero."""
    flushed = blocks.copy().view(kind.block)
    for name in set(scale_forms.FIELDS) & set(kind.block.names or ()):
        field = flushed[name].view(np.uint16)
        field[(field & 0x7C00) == 0] &= 0x8000
    return kind.weights(flushed.view(np.uint8))


def flushing_floats(kind: Kind, blocks: np.ndarray) -> np.ndarray:
    w = kind.weights(blocks)
    return np.asarray(np.where(np.abs(w) < specials.TINY, np.float32(0), w))


def nan_at_255(kind: Kind, blocks: np.ndarray) -> np.ndarray:
    w = kind.weights(blocks)
    return np.asarray(np.where(blocks[:, :1] == 255, np.float32(np.nan), w))


def saturating(kind: Kind, blocks: np.ndarray) -> np.ndarray:
    """Inf becomes the largest float32."""
    largest = float(np.finfo(np.float32).max)
    return np.asarray(np.nan_to_num(kind.weights(blocks), nan=np.nan, posinf=largest, neginf=-largest))


def without_nan(kind: Kind, blocks: np.ndarray) -> np.ndarray:
    return np.asarray(np.nan_to_num(kind.weights(blocks), nan=0.0, posinf=np.inf, neginf=-np.inf))


# A wrong decode, a kind it is tried on, and the special blocks that must notice: those and no other.
WRONG: list[tuple[Callable[[Kind, np.ndarray], np.ndarray], str, set[int]]] = [
    (flushing_halves, "Q4_0", {55, 56, 57}),
    (flushing_halves, "Q2_K", {60, 61, 62}),  # in 55..57 the other scale is NaN
    (flushing_floats, "MXFP4", {48, 49}),
    (nan_at_255, "MXFP4", {63}),
    (saturating, "Q8_0", {48, 49}),
    (saturating, "MXFP4", {61, 62, 63}),
    (without_nan, "Q6_K", {48, 49, 50, 51, 52}),
]


@pytest.mark.parametrize(("wrong", "name", "noticing"), WRONG)
def test_a_wrong_decode_is_noticed_in_its_lines_and_no_other(
    wrong: Callable[[Kind, np.ndarray], np.ndarray], name: str, noticing: set[int]
) -> None:
    rows = specials.rows(name)
    by_bits = {row.number for row in rows if differing(wrong(row.kind, row.block)[0], row.ggml)}
    by_value = {row.number for row in rows if unequal(wrong(row.kind, row.block)[0], row.ggml)}
    assert (by_bits, by_value) == (noticing, noticing)


def test_a_zero_of_the_other_sign_is_noticed_by_bits_alone() -> None:
    row = next(row for row in ROWS if row.label == "d = -0")
    other = replace(row, ggml=-row.ggml)
    got = row.kind.weights(row.block)[0]
    assert differing(got, other.ggml) == row.kind.elements
    assert unequal(got, other.ggml) == 0
