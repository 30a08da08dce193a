"""mul_mm/reference: the geometry of the engine it stands for, one number for text, twin and grid."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernels import compare, oracle, registry, source
from kernels.model import Layout
from kernels.ops.mul_mm import reference

KERNEL = "mul_mm/reference"


@pytest.mark.parametrize(
    ("shape", "grid"),
    [
        ("1x256x1", (1, 1, 1)),
        ("64x256x128", (1, 1, 1)),
        ("65x256x129", (2, 2, 1)),
        ("71x256x512", (4, 2, 1)),
        ("65537x256x33", (1, 1025, 1)),
    ],
)
def test_grid_is_tokens_by_rows(make: Any, shape: str, grid: tuple[int, int, int]) -> None:
    (launch,) = registry.kernel(KERNEL).plan(make(KERNEL, "Q4_K", shape)).launches
    assert (launch.grid, launch.block) == (grid, (256, 1, 1))
    assert (launch.static_shared_bytes, launch.dynamic_shared_bytes) == (24576, 0)


def test_constants_are_those_of_the_geometry() -> None:
    text = source.text(KERNEL, "Q4_0")
    for name, value in {"BM": 64, "BN": 128, "BK": 32, "TM": 4, "TN": 8, "SUB": 16, "THREADS": 256}.items():
        assert f"#define {name} {value}\n" in text
        assert getattr(reference, name) == value
    body = text[text.index("__global__") :]
    assert not {"64", "128", "24576", "256"} & set(body.replace("[", " ").replace("]", " ").split())


def test_operands_are_read_from_shared_memory_as_float4() -> None:
    text = source.text(KERNEL, "Q4_0")
    assert "*(const float4 *)&w_tile[" in text
    assert "*(const float4 *)&x_tile[" in text


@pytest.mark.parametrize("kind", list(registry.kinds()))
def test_text_defines_the_entry_that_the_plan_launches(make: Any, kind: str) -> None:
    (launch,) = registry.kernel(KERNEL).plan(make(KERNEL, kind, "1x256x1")).launches
    assert launch.entry == f"mul_mm_reference_{kind.lower()}"
    assert f"#define ENTRY {launch.entry}\n" in source.text(launch.kernel, launch.kind)


@pytest.mark.parametrize("kind", list(registry.kinds()))
@pytest.mark.parametrize("batch", [1, 33, 129])
def test_twin_is_inside_the_proven_bound(make: Any, ran: Any, kind: str, batch: int) -> None:
    done = ran(make(KERNEL, kind, f"9x768x{batch}", "sparse"))
    (step,), (out,) = done.steps, done.outs
    weights, x = oracle.weights(registry.kind(kind), step.arrays["weights"]), step.arrays["x"]
    weights = weights * (step.tensor_scale or 1)
    error = np.abs(out - x.astype(np.float64) @ weights.T)
    limit = compare.gamma(768 + 4 + registry.kind(kind).tensor_scale) * (
        np.abs(x.astype(np.float64)) @ np.abs(weights).T
    )
    assert (error <= limit).all()
    assert error.max() > 0
    assert (done.comparison.verdict, done.comparison.positions) == ("PASS", 9 * batch)
    assert registry.launch_kernel(KERNEL).chain(step) == 768


@pytest.mark.parametrize("shape", ["2x96x3", "9x96x11"])
def test_twin_adds_column_after_column_into_token_times_rows_plus_row(
    make: Any, ran: Any, shape: str
) -> None:
    done = ran(make(KERNEL, "Q4_0", shape))
    (step,), (out,) = done.steps, done.outs
    assert step.kind is not None
    w, x = step.kind.weights(step.arrays["weights"]), step.arrays["x"]
    flat = out.reshape(-1)
    for token, row in np.ndindex(len(x), len(w)):
        total = np.float32(0)
        for column in range(w.shape[1]):
            total += w[row, column] * x[token, column]
        assert flat[token * len(w) + row] == total


def test_twin_does_not_depend_on_how_many_columns_it_holds(
    make: Any, ran: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = make(KERNEL, "Q6_K", "9x512x11")
    whole = ran(case).outs[0]
    monkeypatch.setattr(reference, "TERMS_AT_ONCE", 5 * 9 * 11)
    assert ran(case).outs[0].tobytes() == whole.tobytes()


def test_reads_a_padded_pitch_and_an_offset_view(make: Any, ran: Any) -> None:
    layout = Layout(row_padding=6, weights_offset=2, x_offset=4, x_slack=7)
    apart, plain = (ran(make(KERNEL, "Q6_K", "5x512x3", layout=lay)) for lay in (layout, Layout()))
    assert apart.plan.launches[0].scalars["row_bytes"] == 2 * 210 + 6
    assert apart.outs[0].tobytes() == plain.outs[0].tobytes()


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ("0x256x1", "empty"),
        ("1x256x0", "empty: got rows 1, cols 256, batch 0"),
        ("4x48x2", "cols 48 is not a multiple of the K-tile 32"),
        ("4x1152x2", "whole number of Q4_K's"),
        ("4194241x256x1", "grid.y 65536 for 4194241 rows is past CUDA's 65535; at most 4194240 rows"),
    ],
)
def test_refuses_by_name(make: Any, refused: Any, shape: str, reason: str) -> None:
    assert reason in refused(make(KERNEL, "Q4_K", shape))


def test_accepts_the_most_rows_that_fit_the_grid(make: Any, refused: Any) -> None:
    assert refused(make(KERNEL, "Q4_K", "4194240x256x1")) == ""


def test_a_batch_is_worth_a_gemm_from_a_quarter_tile_on(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reference.worth_a_gemm() == 32
    monkeypatch.setattr(reference, "BN", 4)
    assert reference.worth_a_gemm() == 2
