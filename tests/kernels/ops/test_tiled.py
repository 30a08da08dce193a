"""mul_mm/tiled: larger tiles, the reference's bits."""

from __future__ import annotations

from typing import Any

import pytest

from kernels import registry, source
from kernels.kind import WARP
from kernels.model import Layout
from kernels.ops.mul_mm.tiled import PAD, Tiled

KERNEL = "mul_mm/tiled"


@pytest.mark.parametrize(
    ("shape", "grid"),
    [
        ("1x256x1", (1, 1, 1)),
        ("128x256x128", (1, 1, 1)),
        ("129x256x257", (3, 2, 1)),
        ("65537x256x33", (1, 513, 1)),
    ],
)
def test_grid_is_tokens_by_rows(make: Any, shape: str, grid: tuple[int, int, int]) -> None:
    (launch,) = registry.kernel(KERNEL).plan(make(KERNEL, "Q4_K", shape)).launches
    assert (launch.grid, launch.block) == (grid, (256, 1, 1))
    assert (launch.static_shared_bytes, launch.dynamic_shared_bytes) == (33792, 0)


def test_grid_y_is_refused_by_its_own_tile(make: Any, refused: Any) -> None:
    most = 65535 * 128
    assert refused(make(KERNEL, "Q4_K", f"{most}x256x1")) == ""
    reason = refused(make(KERNEL, "Q4_K", f"{most + 1}x256x1"))
    assert reason == f"grid.y 65536 for {most + 1} rows is past CUDA's 65535; at most {most} rows"


@pytest.mark.parametrize("kind", ["Q4_K", "NVFP4", "F16"])
def test_it_has_the_references_bits(make: Any, ran: Any, kind: str) -> None:
    mine, theirs = (ran(make(name, kind, "9x512x5")) for name in (KERNEL, "mul_mm/reference"))
    assert mine.outs[0].tobytes() == theirs.outs[0].tobytes()


def test_half_of_the_threads_have_a_row_each_and_all_have_elements() -> None:
    tile = Tiled.tile
    assert 2 * tile.rows == tile.threads
    assert tile.rows * tile.tokens == 64 * tile.threads
    assert tile.columns == 16  # what decode16 gives


def test_padded_columns_start_four_banks_apart_and_float4s_stay_aligned() -> None:
    pitch = Tiled.tile.rows + PAD
    assert (pitch % WARP, pitch % 4) == (4, 0)


def test_activations_off_a_vector_are_among_the_quick_cases() -> None:
    kernel, kind = registry.kernel(KERNEL), registry.kind("Q4_0")
    assert [one.layout for one in kernel.quick((kind,))] == [Layout(x_offset=4)]
    assert "make_float4(x[0], x[1], x[2], x[3])" in source.text(KERNEL, "Q4_0")
