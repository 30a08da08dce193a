"""The two expf are one: numpy's and the host runtime's, bit for bit, and both are right."""

from collections.abc import Callable

import numpy as np
import pytest

from kernels.exp32 import exp32

TEXT = """extern "C" __global__ void k(const float *x, float *y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = expf(x[i]);
}"""
EDGES = np.array(
    [
        0,
        -0.0,
        1,
        -1,
        88.72283,
        88.72284,
        89,
        1e38,
        -87.3,
        -87.4,
        -103.97,
        -103.98,
        -104,
        -150,
        -1e38,
        np.inf,
        -np.inf,
        np.nan,
        1e-45,
        -1e-45,
        1e-38,
        200,
        -200,
        201,
    ],
    np.float32,
)


def on_host(run: Callable[..., np.ndarray], x: np.ndarray, build: str = "exact") -> np.ndarray:
    return run(TEXT, [x], np.zeros_like(x), block=256, grid=64, scalars=(len(x),), build=build)


@pytest.mark.parametrize("build", ["exact", "default"])
def test_million_random_bit_patterns_give_the_twins_bits(run: Callable[..., np.ndarray], build: str) -> None:
    x = np.random.default_rng(1).integers(0, 2**32, 10**6, np.uint32).view(np.float32)
    np.testing.assert_array_equal(on_host(run, x, build).view(np.uint32), exp32(x).view(np.uint32))


def test_a_million_values_in_the_finite_range_give_the_twins_bits(run: Callable[..., np.ndarray]) -> None:
    x = np.random.default_rng(2).uniform(-110, 95, 10**6).astype(np.float32)
    np.testing.assert_array_equal(on_host(run, x).view(np.uint32), exp32(x).view(np.uint32))


def test_edges_give_the_twins_bits(run: Callable[..., np.ndarray]) -> None:
    np.testing.assert_array_equal(on_host(run, EDGES).view(np.uint32), exp32(EDGES).view(np.uint32))


def test_the_values_are_the_rounded_true_ones() -> None:
    x = np.random.default_rng(3).uniform(-87, 88, 10**5).astype(np.float32)
    true = np.exp(x.astype(np.longdouble))
    ulp = np.spacing(true.astype(np.float32)).astype(np.longdouble)
    assert float((np.abs(exp32(x) - true) / ulp).max()) <= 0.5000001


def test_overflow_is_inf_and_underflow_is_gradual() -> None:
    got = exp32(np.array([88.8, -100, -104, np.inf, -np.inf], np.float32))
    assert got.tolist() == [np.inf, np.float32(3.783506e-44), 0.0, np.inf, 0.0]


def test_another_dtype_is_refused() -> None:
    with pytest.raises(TypeError, match="takes float32, got float64"):
        exp32(np.zeros(3))
