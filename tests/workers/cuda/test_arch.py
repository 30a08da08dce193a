"""What is built for every board with every NVRTC."""

from __future__ import annotations

import pytest

from workers.cuda.arch import Target, Toolkit, choose, cuda_version, sm_of

UP_TO_90 = (50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90)
# NVRTC's release notes: which architectures each version knows.
NVRTC = {
    (12, 0): UP_TO_90,
    (12, 4): UP_TO_90,
    (12, 6): UP_TO_90,
    (12, 8): (*UP_TO_90, 100, 101, 120),
    (12, 9): (*UP_TO_90, 100, 101, 103, 120, 121),
    (13, 0): (75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121),
    (13, 5): (75, 80, 86, 87, 88, 89, 90, 100, 103, 107, 110, 120, 121),
}
DROPPED = (50, 52, 53, 60, 61, 62, 70, 72)  # by CUDA 13
BOARDS = (*DROPPED, 75, 80, 86, 89, 90, 100, 103, 120, 121)
PTX = "compute_90"
# What each pair comes to with a driver as new as NVRTC; where nothing is said, a cubin for the board's sm.
OTHERS = {
    **{(nvrtc, sm): PTX for nvrtc in ((12, 0), (12, 4), (12, 6)) for sm in (100, 103, 120, 121)},
    ((12, 8), 103): "compute_100",
    ((12, 8), 121): "compute_120",
    **{
        (
            (13, minor),
            sm,
        ): f"NVRTC 13.{minor} builds for sm_75 and newer, this board is sm_{sm}; install NVRTC 12"
        for minor in (0, 5)
        for sm in DROPPED
    },
}


@pytest.mark.parametrize("nvrtc", NVRTC)
@pytest.mark.parametrize("sm", BOARDS)
def test_every_pair_of_nvrtc_and_board(nvrtc: tuple[int, int], sm: int) -> None:
    chosen = choose(sm, Toolkit(nvrtc, NVRTC[nvrtc], nvrtc))
    wanted = OTHERS.get((nvrtc, sm), f"sm_{sm}")
    assert (chosen.arch if isinstance(chosen, Target) else chosen) == wanted


def test_ptx_is_said_to_be_ptx() -> None:
    target = choose(120, Toolkit((12, 6), NVRTC[12, 6], (12, 8)))
    assert target == Target("compute_90")
    assert target.is_ptx
    assert not Target("sm_120").is_ptx


def test_a_cubin_needs_no_newer_driver_of_the_same_major() -> None:
    assert choose(86, Toolkit((12, 9), NVRTC[12, 9], (12, 2))) == Target("sm_86")


@pytest.mark.parametrize(
    ("sm", "nvrtc", "driver", "words"),
    [
        (
            86,
            (13, 0),
            (12, 8),
            "this one knows CUDA 12.8; install driver 580 or newer, or NVRTC 12",
        ),
        (120, (12, 6), (12, 4), "its PTX is newer than the driver's CUDA 12.4"),
        (61, (13, 0), (13, 0), "install NVRTC 12"),
    ],
)
def test_what_fits_nothing_says_why_and_what_to_do(
    sm: int, nvrtc: tuple[int, int], driver: tuple[int, int], words: str
) -> None:
    chosen = choose(sm, Toolkit(nvrtc, NVRTC[nvrtc], driver))
    assert isinstance(chosen, str)
    assert words in chosen


def test_numbers_are_read_from_names_and_versions() -> None:
    assert (sm_of("sm_86"), sm_of("86"), cuda_version(12080), cuda_version(13000)) == (
        86,
        0,
        (12, 8),
        (13, 0),
    )
