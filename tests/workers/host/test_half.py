"""The host's conversion to float16 is the GPU's: to the nearest even, and one NaN."""

from collections.abc import Callable

import numpy as np
import pytest

from kernels.ops._q8_1 import NAN_BITS

TEXT = """extern "C" __global__ void k(const float *x, unsigned short *y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __host_double_to_half(x[i]);
}"""


def converted(run: Callable[..., np.ndarray], x: np.ndarray) -> np.ndarray:
    out = np.zeros(len(x), np.uint16)
    return run(TEXT, [x], out, block=256, grid=-(-len(x) // 256), scalars=(len(x),), build="exact")


def edges() -> np.ndarray:
    """Every float16, the floats beside it, and those half way to the next and beside that; both signs."""
    codes = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    halves = (codes[:-1] + codes[1:]) / 2
    whole = np.concatenate([codes, halves, np.array([65504, 65519.996, 65520, 65536, 1e30], np.float32)])
    near = np.concatenate(
        [whole, np.nextafter(whole, np.float32(np.inf)), np.nextafter(whole, np.float32(0))]
    )
    return np.concatenate([near, -near, np.array([np.inf, -np.inf], np.float32)])


def test_every_edge_rounds_as_numpy_rounds_it(run: Callable[..., np.ndarray]) -> None:
    x = edges()
    with np.errstate(over="ignore"):
        want = x.astype(np.float16).view(np.uint16)
    assert len(x) > 380_000
    np.testing.assert_array_equal(converted(run, x), want)


@pytest.mark.parametrize("bits", [0x7FC00000, 0xFFC00001, 0x7F800001, 0xFFFFFFFF])
def test_every_nan_has_the_gpus_bits(run: Callable[..., np.ndarray], bits: int) -> None:
    assert converted(run, np.array([bits], np.uint32).view(np.float32)).tolist() == [NAN_BITS]
