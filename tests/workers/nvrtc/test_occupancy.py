"""Occupancy against figures that NVIDIA's own calculator gives."""

from __future__ import annotations

import pytest

from farm.toolchains import archs, known
from workers.nvrtc.occupancy import LIMITS, UNKNOWN, UNTOLD, Occupancy, occupancy


@pytest.mark.parametrize(
    ("arch", "threads", "registers", "shared_bytes", "want"),
    [
        (86, 256, 40, 1024, Occupancy(6, 1.0, "threads")),  # 6 * 8 warps of 1,280 registers fill 61,440
        (86, 256, 41, 0, Occupancy(5, 5 / 6, "registers")),
        (80, 256, 32, 0, Occupancy(8, 1.0, "threads")),
        (61, 256, 96, 24576, Occupancy(2, 0.25, "registers")),
        (75, 256, 32, 24576, Occupancy(2, 0.5, "shared")),
        (86, 256, 32, 24576, Occupancy(4, 2 / 3, "shared")),  # 24,576 and 1,024 reserved, of 102,400
        (90, 256, 32, 49152, Occupancy(4, 0.5, "shared")),  # 4 * 50,176 of 233,472
        (75, 32, 16, 0, Occupancy(16, 0.5, "blocks")),
        (89, 32, 16, 0, Occupancy(24, 0.5, "blocks")),
        (86, 1024, 64, 0, Occupancy(1, 2 / 3, "threads")),
        (60, 64, 128, 0, Occupancy(8, 0.25, "registers")),
        (70, 256, 16, 0, Occupancy(8, 1.0, "threads")),
        (70, 1024, 255, 0, Occupancy(0, 0.0, "registers")),
    ],
)
def test_blocks_that_fit(arch: int, threads: int, registers: int, shared_bytes: int, want: Occupancy) -> None:
    assert occupancy(arch, threads, registers, shared_bytes) == want


def test_an_architecture_that_nobody_described_has_no_figures() -> None:
    assert occupancy(999, 256, 32, 0) == UNKNOWN


@pytest.mark.parametrize("arch", LIMITS)
def test_more_of_anything_never_fits_more_blocks(arch: int) -> None:
    base = occupancy(arch, 256, 32, 8192).blocks
    assert base >= 1
    assert occupancy(arch, 512, 32, 8192).blocks <= base
    assert occupancy(arch, 256, 64, 8192).blocks <= base
    assert occupancy(arch, 256, 32, 16384).blocks <= base


def test_every_architecture_that_a_release_builds_for_is_described_or_named_as_untold() -> None:
    assert set(archs(known())) - set(LIMITS) == set(UNTOLD)
