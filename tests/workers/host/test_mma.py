"""The warp's matrix product on the host: fragments where PTX documents them, in every build."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.workers.zoo import ZOO
from workers.backend import KernelFault

# A (16, 16) and B (16, 8) float16, C (16, 8) float32, row-major; a lane finds its own by the tables of PTX.
TEXT = """
extern "C" __global__ void k(const unsigned short *a, const unsigned short *b, const float *c, float *d) {
    const int group = threadIdx.x >> 2, place = threadIdx.x % 4;
    unsigned of_a[4], of_b[2];
    float sums[4];
    for (int i = 0; i < 8; ++i) {
        const int row = i < 2 || (i >= 4 && i < 6) ? group : group + 8;
        const int column = place * 2 + (i & 1) + (i < 4 ? 0 : 8);
        ((unsigned short *)of_a)[i] = a[row * 16 + column];
    }
    for (int i = 0; i < 4; ++i)
        ((unsigned short *)of_b)[i] = b[(place * 2 + (i & 1) + (i < 2 ? 0 : 8)) * 8 + group];
    for (int i = 0; i < 4; ++i)
        sums[i] = c[(i < 2 ? group : group + 8) * 8 + place * 2 + (i & 1)];
    MULTIPLY
    for (int i = 0; i < 4; ++i)
        d[(i < 2 ? group : group + 8) * 8 + place * 2 + (i & 1)] = sums[i];
}
"""
CALL = "__host_mma_m16n8k16(sums, of_a, of_b);"


def matrices() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Whole numbers, all different in A and in B: every sum is exact and none is another's."""
    a = np.arange(-100, 156, dtype=np.float16).reshape(16, 16)
    b = (np.arange(128, dtype=np.float16)[::-1] - 31).reshape(16, 8)
    return a, b, np.arange(128, dtype=np.float32).reshape(16, 8) * 3


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("build", ["exact", "default", "check"])
def test_product_of_a_warp_is_the_matrices_product(
    run: Callable[..., np.ndarray], build: str, order: int
) -> None:
    a, b, c = matrices()
    out = np.zeros(128, np.float32)
    got = run(TEXT.replace("MULTIPLY", CALL), [a, b, c], out, order=order, build=build).reshape(16, 8)
    want = c + a.astype(np.float64) @ b.astype(np.float64)
    assert np.array_equal(got, want)
    assert not np.array_equal(got, c + a.astype(np.float64) @ b[::-1].astype(np.float64))


def test_products_are_added_one_by_one_in_float32(run: Callable[..., np.ndarray]) -> None:
    """2^24 and then sixteen ones: each is lost by itself, together they would not be."""
    a, b = np.ones((16, 16), np.float16), np.ones((16, 8), np.float16)
    c = np.full((16, 8), 2.0**24, np.float32)
    assert (run(TEXT.replace("MULTIPLY", CALL), [a, b, c], np.zeros(128, np.float32)) == 2.0**24).all()


def test_a_lane_that_stays_away_is_a_fault(run: Callable[..., np.ndarray]) -> None:
    a, b, c = matrices()
    with pytest.raises(KernelFault):
        run(TEXT.replace("MULTIPLY", f"if (threadIdx.x != 7) {CALL}"), [a, b, c], np.zeros(128, np.float32))


def test_what_a_lane_that_does_not_exist_holds_is_no_number(run: Callable[..., np.ndarray]) -> None:
    """Of half a warp, lanes 16 to 31 have rows 4 to 7 and 12 to 15 of A, and columns 4 to 7 of B."""
    a, b, c = matrices()
    got = run(TEXT.replace("MULTIPLY", CALL), [a, b, c], np.zeros(128, np.float32), block=16).reshape(16, 8)
    there = np.arange(16) % 8 < 4
    want = c + a.astype(np.float64) @ b.astype(np.float64)
    assert np.array_equal(got[there, :4], want[there, :4])
    assert np.isnan(got[there, 4:]).all()
    assert not got[~there].any()  # nobody wrote those


def test_a_wrong_fragment_is_among_the_wrong_kernels() -> None:
    assert [wrong.name for wrong in ZOO if wrong.kernel == "mul_mm/mma"]
