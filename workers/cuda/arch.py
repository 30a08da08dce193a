"""Which code is built for a board: a cubin for its sm, or PTX where its NVRTC doesn't know that yet.

Versions: NVIDIA, CUDA Compatibility. A driver runs what any toolkit of its own major version builds; PTX is
read by drivers of the toolkit's own minor version and newer ones alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

Version = tuple[int, int]

# NVIDIA, CUDA Toolkit Release Notes: the branch that knows a major version of CUDA first, of those used here.
FIRST_DRIVER = {12: "525", 13: "580"}


@dataclass(frozen=True)
class Target:
    """What the compiler is asked for."""

    arch: str  # sm_86, or compute_90

    @property
    def is_ptx(self) -> bool:
        """Whether the driver still has to compile it for the board."""
        return self.arch.startswith("compute_")

    @property
    def number(self) -> int:
        return int(self.arch.rpartition("_")[2])


@dataclass(frozen=True)
class Toolkit:
    """What there is to build with, and what is to run it."""

    nvrtc: Version
    archs: tuple[int, ...]  # that NVRTC knows: 86 for sm_86
    driver: Version  # newest CUDA that the driver knows


def choose(sm: int, has: Toolkit) -> Target | str:
    """The target for a board of compute capability `sm` (86 for 8.6), or why there is none and what to do."""
    if has.nvrtc[0] > has.driver[0]:
        return (
            f"NVRTC {_dotted(has.nvrtc)} builds for drivers of CUDA {has.nvrtc[0]}, this one knows CUDA "
            f"{_dotted(has.driver)}; {_newer(has)}"
        )
    if sm in has.archs:
        return Target(f"sm_{sm}")
    older = [arch for arch in has.archs if arch < sm]
    if not older:
        return (
            f"NVRTC {_dotted(has.nvrtc)} builds for sm_{min(has.archs)} and newer, this board is sm_{sm}; "
            f"install NVRTC {has.nvrtc[0] - 1}"
        )
    if has.nvrtc > has.driver:
        return (
            f"NVRTC {_dotted(has.nvrtc)} knows no sm_{sm}, and its PTX is newer than the driver's CUDA "
            f"{_dotted(has.driver)}; install a newer NVRTC or driver"
        )
    family = sm // 10 * 10  # of one generation the first, which all others take
    return Target(f"compute_{family if family in older else max(older)}")


def _newer(has: Toolkit) -> str:
    driver = f"install driver {FIRST_DRIVER.get(has.nvrtc[0], 'of that CUDA')} or newer"
    return f"{driver}, or NVRTC {has.driver[0]}" if has.driver[0] in FIRST_DRIVER else driver


def sm_of(name: str) -> int:
    """86 of `sm_86`, 0 where that is no such name."""
    match = re.fullmatch(r"sm_(\d+)", name)
    return int(match[1]) if match else 0


def cuda_version(number: int) -> Version:
    """(12, 8) of the 12080 that CUDA calls itself."""
    return number // 1000, number % 1000 // 10


def _dotted(version: Version) -> str:
    return f"{version[0]}.{version[1]}"
