"""What kernels that round their activations compute on, and what is left open by it."""

from __future__ import annotations

import numpy as np
import pytest
from gguf import GGMLQuantizationType
from gguf.quants import quantize

from kernels.declared.activations import rounded
from kernels.declared.declaration import ComputesOn
from kernels.inputs import words

X = (words(5, 4 * 96).astype(np.float64) / 2.0**62 - 2).astype(np.float32).reshape(4, 96)


def test_x_is_what_it_is():
    found = rounded(X, ComputesOn.X)
    assert np.array_equal(found.x, X)
    assert not any(part.any() for part in (found.slack, found.of_mins, found.lost))


@pytest.mark.parametrize(("how", "unit"), [(ComputesOn.F16, 2.0**-11), (ComputesOn.BF16, 2.0**-8)])
def test_16_bit_floats_are_the_nearest(how, unit):
    found = rounded(X, how)
    error = np.abs(found.x - X)
    assert error.max() > 0
    assert (error <= unit * np.abs(X)).all()
    assert not found.slack.any()


def test_what_leaves_float16_is_lost_by_vector():
    x = X.copy()
    x[2, 7] = 70000.0
    assert rounded(x, ComputesOn.F16).lost.tolist() == [False, False, True, False]
    assert not rounded(x, ComputesOn.BF16).lost.any()


def test_q8_1_is_q8_0_of_another_author():
    """gguf's Q8_0 has the same scale and the same whole numbers, but where a quotient is next to a half."""
    found = rounded(X, ComputesOn.Q8_1)
    blocks = quantize(X, GGMLQuantizationType.Q8_0).reshape(-1, 34)
    want = blocks[:, :2].copy().view(np.float16).astype(np.float64) * blocks[:, 2:].view(np.int8)
    differs = np.abs(found.x.reshape(-1, 32) - want)
    assert (differs <= found.slack.reshape(-1, 32)).all()
    assert (differs == 0).mean() > 0.99
    step = np.abs(X).reshape(4, 3, 32).max(axis=-1, keepdims=True) / 127
    assert (np.abs(found.x - X).reshape(4, 3, 32) <= step * (0.5 + 127 * 2.0**-11)).all()


def test_halves_are_left_open_and_nothing_else():
    x = np.full((1, 32), 4.0, np.float32)
    x[0, :4] = 127.0, 3.5, -2.5, 2.499
    found = rounded(x, ComputesOn.Q8_1)
    assert found.x[0, :5].tolist() == [127.0, 4.0, -3.0, 2.0, 4.0]
    assert found.slack[0, :5].tolist() == [0.0, 1.0, 1.0, 0.0, 0.0]


def test_zeros_stay_zeros_and_the_sum_may_be_off_by_its_float16():
    found = rounded(np.zeros((1, 64), np.float32), ComputesOn.Q8_1)
    assert not any(part.any() for part in (found.x, found.slack))
    ones = rounded(np.ones((1, 32), np.float32), ComputesOn.Q8_1)
    assert 32 * ones.of_mins[0, 0] >= 32 * 2.0**-11


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 2.0**100])
def test_what_leaves_q8_1_is_lost_by_vector(value):
    x = X.copy()
    x[1, 40] = value
    with np.errstate(all="ignore"):
        assert rounded(x, ComputesOn.Q8_1).lost.tolist() == [False, True, False, False]
