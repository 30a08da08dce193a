"""dtypes: 16-bit floats keep their numbers, round to the nearest even and have a poison of their own."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kernels.dtypes import BF16, F16, F32, NARROW, bits, canonical, dtype, poison, rounded, values

EVERY = np.arange(1 << 16, dtype=np.uint16)
NARROWS = pytest.mark.parametrize("of", [F16, BF16], ids=["f16", "bf16"])
WORDS = (0x7FC0DEAD, 0xFFC1BEEF, 0x7FC2F00D)


def bf16(*codes: int) -> np.ndarray:
    return np.array(codes, "<u2").view(BF16)


def test_a_buffers_names_are_numpys_but_for_bf16() -> None:
    assert (dtype("f2"), dtype("f4"), dtype("u1")) == (F16, F32, np.dtype(np.uint8))
    assert dtype("bf16") == BF16 != np.dtype("<u2")


def test_bf16_codes_are_the_upper_halves_of_float32() -> None:
    found = values(bf16(0x3F80, 0xC0A0, 0x0001, 0xFF80, 0x7FC1))
    assert found[:4].tolist() == [1.0, -5.0, 2.0**-133, -math.inf]
    assert math.isnan(found[4])
    assert found.dtype == F32


@NARROWS
def test_every_code_keeps_its_bits_through_float32(of: np.dtype) -> None:
    codes = EVERY.view(of)
    numbers = values(codes)
    again = bits(rounded(numbers, of))
    number = ~np.isnan(numbers)
    assert (again[number] == EVERY[number]).all()
    assert np.isnan(values(rounded(numbers, of)))[~number].all()
    assert number.sum() == (63490 if of == F16 else 65282)


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (1.0 + 2.0**-8, 0x3F80),  # half way: to the even one below
        (1.0 + 3 * 2.0**-8, 0x3F82),  # half way: to the even one above
        (1.0 + 2.0**-8 + 2.0**-20, 0x3F81),
        (-1.0 - 3 * 2.0**-8, 0xBF82),
        (2.0**-134, 0x0000),  # half of the smallest subnormal
        (3.0 * 2.0**-134, 0x0002),
        (3.4e38, 0x7F80),  # past (2 - 2^-8) * 2^127
        (math.inf, 0x7F80),
        (-0.0, 0x8000),
    ],
)
def test_bf16_rounds_to_the_nearest_even(number: float, code: int) -> None:
    assert bits(rounded(np.array([number], np.float32), BF16)).tolist() == [code]


def test_a_nan_with_a_low_payload_stays_one_in_bf16() -> None:
    nan = np.array([0x7F800001, 0xFFFFFFFF], np.uint32).view(np.float32)
    assert np.isnan(values(rounded(nan, BF16))).all()


@NARROWS
def test_half_an_ulp_is_the_most_that_rounding_costs(of: np.dtype) -> None:
    draws = np.random.default_rng(4)
    numbers = (draws.standard_normal(20000) * 2.0 ** draws.integers(-30, 15, 20000)).astype(np.float32)
    error = np.abs(values(rounded(numbers, of)).astype(np.float64) - numbers)
    half = NARROW[of].half_ulp(np.abs(numbers, dtype=np.float64))
    assert (error <= half).all()
    assert (error > 0.999 * half).any()


@NARROWS
def test_what_overflows_rounds_to_inf_and_what_is_below_does_not(of: np.dtype) -> None:
    edge = np.float32(NARROW[of].overflow)
    below = np.nextafter(edge, np.float32(0))
    assert np.isinf(values(rounded(np.array([edge, below], np.float32), of))).tolist() == [True, False]


@NARROWS
def test_canonical_leaves_one_nan_and_one_zero(of: np.dtype) -> None:
    found = canonical(EVERY.view(of))
    numbers = values(found)
    assert found.dtype == of
    assert len(set(bits(found)[np.isnan(numbers)].tolist())) == 1
    assert bits(found)[numbers == 0].tolist() == [0, 0]
    kept = ~np.isnan(numbers) & (numbers != 0)
    assert (bits(found)[kept] == EVERY[kept]).all()


def test_bytes_are_canonical_as_they_are() -> None:
    every = np.arange(256, dtype=np.uint8)
    assert canonical(every).tolist() == every.tolist()
    assert bits(every).dtype == np.uint8


@pytest.mark.parametrize("word", WORDS)
@NARROWS
def test_a_poison_of_16_bits_is_a_nan_that_no_conversion_makes(of: np.dtype, word: int) -> None:
    code = poison(word, of)
    assert code is not None
    assert math.isnan(values(np.array([code], "<u2").view(of))[0])
    made = {0x7E00, 0xFE00, 0x7FC0, 0xFFC0, 0x7FFF, 0xFFFF, word >> 16}  # numpy's, x86's and CUDA's NaNs
    assert code not in made


def test_poisons_of_one_type_differ_and_bytes_have_none() -> None:
    for of in (F32, F16, BF16):
        assert len({poison(word, of) for word in WORDS}) == 3
    assert poison(WORDS[0], np.dtype(np.uint8)) is None
