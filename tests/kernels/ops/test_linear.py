"""Validation in the documented order, buffers, and sums in a stated order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kernels import registry
from kernels.kind import Kind
from kernels.model import Layout, Role
from kernels.ops import _linear as linear

Q8_0, Q6_K = registry.kind("Q8_0"), registry.kind("Q6_K")


@pytest.mark.parametrize(
    ("rows", "cols", "batch", "reason"),
    [
        (0, 64, 1, "empty: got rows 0, cols 64, batch 1; want each at least 1"),
        (4, 0, 1, "empty: got rows 4, cols 0, batch 1; want each at least 1"),
        (4, 64, 0, "empty: got rows 4, cols 64, batch 0; want each at least 1"),
        (4, 48, 1, "cols 48 is not a multiple of the K-tile 32; pad to 64"),
        (2**31, 64, 1, "size 2147483648 is past int32's 2147483647"),
    ],
)
def test_refuses_shape_with_got_and_want(rows: int, cols: int, batch: int, reason: str) -> None:
    assert linear.refuses_shape(Q8_0, rows, cols, batch).startswith(reason)


@pytest.mark.parametrize("cols", [1152 - 32, 1408])
def test_refuses_shape_when_columns_are_no_whole_blocks(cols: int) -> None:
    wanted = -(-cols // 256) * 256
    reason = f"cols {cols} is not a whole number of Q6_K's 256-weight blocks; pad to {wanted}"
    assert linear.refuses_shape(Q6_K, 8, cols) == reason


@pytest.mark.parametrize("kind", registry.kinds().values(), ids=registry.kinds())
@pytest.mark.parametrize("cols", [1, 33, 257, 4097, 4128])
def test_columns_padded_as_advised_are_accepted(kind: Kind, cols: int) -> None:
    reason = linear.refuses_shape(kind, 8, cols)
    assert cols % kind.elements == 0 or linear.refuses_shape(kind, 8, int(reason.rpartition(" ")[2])) == ""


@pytest.mark.parametrize("kind", registry.kinds().values(), ids=registry.kinds())
def test_refuses_shape_accepts_whole_blocks(kind: Kind) -> None:
    assert linear.refuses_shape(kind, 1, 3 * kind.elements) == ""


FITTING = linear.Sizes(row_bytes=68, weights=272, x=128)  # 4 rows, 64 columns, 2 tokens of Q8_0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"row_bytes": 33}, "row_bytes: got 33, want 68 for 64 columns of Q8_0"),
        ({"weights": 68}, "weight buffer too small: got 68 bytes, want 272 for 4 rows"),
        ({"x": 64}, "activation buffer too small: got 64 float32, want 128"),
        ({"row_bytes": 33, "weights": 68, "x": 64}, "row_bytes: got 33"),
        ({"weights": 68, "x": 64}, "weight buffer too small"),
    ],
)
def test_refuses_buffers_in_order(change: dict[str, int], reason: str) -> None:
    assert linear.refuses_buffers(Q8_0, 4, 64, 2, replace(FITTING, **change)).startswith(reason)


def test_refuses_buffers_asks_for_the_shape_first() -> None:
    assert "K-tile" in linear.refuses_buffers(Q8_0, 4, 48, 2, linear.Sizes(33, 68, 64))


@pytest.mark.parametrize("change", [{}, {"weights": 1000}, {"x": 129}])
def test_refuses_buffers_allows_larger_ones(change: dict[str, int]) -> None:
    assert linear.refuses_buffers(Q8_0, 4, 64, 2, replace(FITTING, **change)) == ""


@pytest.mark.parametrize(
    ("layout", "reason"),
    [
        (Layout(x_offset=2), "x offset 2 is not a multiple of float32's 4 bytes"),
        (Layout(row_padding=-1), "negative"),
        (Layout(x_offset=4, weights_offset=2), ""),
    ],
)
def test_refuses_layout(layout: Layout, reason: str) -> None:
    said = linear.refuses_layout(layout)
    assert reason in said
    assert bool(said) == bool(reason)


@pytest.mark.parametrize(("x_dtype", "word"), [("f16", "float16"), ("bf16", "bfloat16")])
def test_refuses_layout_by_the_size_of_the_activations(x_dtype: str, word: str) -> None:
    assert linear.refuses_layout(Layout(x_offset=2), x_dtype) == ""
    wanted = f"x offset 3 is not a multiple of {word}'s 2 bytes"
    assert linear.refuses_layout(Layout(x_offset=3), x_dtype) == wanted


@pytest.mark.parametrize(
    ("layout", "reason"),
    [
        (Layout(), ""),
        (Layout(weights_offset=4, row_padding=60), ""),
        (Layout(weights_offset=2), "weights offset: got 2 bytes, want a multiple of 4, which Q8_0's"),
        (Layout(row_padding=2), "row pitch: got 70 bytes, want a multiple of 4, which Q8_0's"),
    ],
)
def test_refuses_lanes_when_loads_would_be_misaligned(layout: Layout, reason: str) -> None:
    said = linear.refuses_lanes(replace(Q8_0, lane_align=4), 64, layout)
    assert said.startswith(reason)
    assert bool(said) == bool(reason)


def test_weights_buffer_holds_padding_and_offset() -> None:
    buffer = linear.weights_buffer("weights", Q8_0, 4, 64, Layout(row_padding=12, weights_offset=16))
    assert (buffer.shape, buffer.strides) == ((4, 68), (80, 1))
    assert (buffer.offset, buffer.nbytes, buffer.role) == (16, 16 + 4 * 80, Role.IN)


def test_x_buffer_holds_offset_and_slack() -> None:
    buffer = linear.x_buffer("x", (2, 64), Layout(x_offset=4, x_slack=3))
    assert (buffer.shape, buffer.strides) == ((2, 64), (256, 4))
    assert (buffer.offset, buffer.nbytes) == (4, 4 + 4 * (128 + 3))


@pytest.mark.parametrize(("x_dtype", "stored"), [("f16", "f2"), ("bf16", "bf16")])
def test_x_buffer_of_16_bits(x_dtype: str, stored: str) -> None:
    buffer = linear.x_buffer("x", (2, 64), Layout(x_offset=2, x_slack=3), x_dtype)
    assert (buffer.dtype, buffer.strides, buffer.nbytes) == (stored, (128, 2), 2 + 2 * (128 + 3))
    assert linear.x_buffer("x", (64,), Layout(), x_dtype).align == 2


def awkward(*shape: int) -> np.ndarray:
    """float32 terms whose sum depends on the order."""
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32) ** 3


@pytest.mark.parametrize("lanes", [1, 7, linear.FEW_LANES - 1, linear.FEW_LANES, 300])
def test_in_order_adds_one_term_after_the_other(lanes: int) -> None:
    terms, start = awkward(257, lanes), np.full(lanes, 3, np.float32)
    want = start.copy()
    for lane in range(lanes):
        for term in terms[:, lane]:
            want[lane] = np.float32(want[lane] + term)
    assert linear.in_order(terms, start).tobytes() == want.tobytes()


def test_in_order_is_not_the_pairwise_sum() -> None:
    terms = awkward(4096, 1)
    assert linear.in_order(terms, np.zeros(1, np.float32))[0] != np.sum(terms[:, 0])


def test_halved_adds_the_upper_half_onto_the_lower() -> None:
    sums = awkward(3, 8)
    want = [((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7])) for s in sums]
    assert linear.halved(sums).tolist() == want


def test_by_rows_gives_the_same_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.arange(20, dtype=np.uint8).reshape(10, 2)
    monkeypatch.setattr(linear, "WEIGHTS_AT_ONCE", 3 * 64)
    seen: list[int] = []

    def twin(part: np.ndarray) -> np.ndarray:
        seen.append(len(part))
        summed: np.ndarray = part.sum(axis=1).astype(np.float32)
        return summed

    assert linear.by_rows(rows, 64, twin).tolist() == rows.sum(axis=1).tolist()
    assert seen == [3, 3, 3, 1]
