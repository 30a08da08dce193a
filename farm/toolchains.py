"""Which NVRTC compiles for which architecture: known versions, and the one that is installed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files

from kernels import codec
from workers.nvrtc.library import Nvrtc


class Standing(StrEnum):
    """What an NVRTC can do for an architecture."""

    COMPILES = "compiles"
    NEEDS_NEWER = "needs newer"
    DROPPED = "dropped"


@dataclass(frozen=True)
class Toolchain:
    """A version of NVRTC."""

    nvrtc: str  # 12.9
    driver: int  # branch that runs its cubins, at least
    archs: tuple[int, ...]  # 86 for sm_86
    source: str

    @property
    def version(self) -> tuple[int, ...]:
        return tuple(map(int, self.nvrtc.split(".")))


@cache
def known() -> tuple[Toolchain, ...]:
    """The versions that are written down, oldest first."""
    data = json.loads((files("farm") / "toolchains.json").read_text(encoding="utf8"))
    return codec.decode(tuple[Toolchain, ...], data, "toolchains.json")


def with_installed(toolchains: Sequence[Toolchain], found: Nvrtc | None) -> tuple[Toolchain, ...]:
    """The versions in order; of the installed one what it says itself counts."""
    if found is None:
        return tuple(toolchains)
    name = ".".join(map(str, found.version))
    older = [made for made in toolchains if made.version <= found.version]
    driver = (older or list(toolchains))[-1].driver
    own = Toolchain(name, driver, found.archs, "nvrtcGetSupportedArchs, installed here")
    return tuple(
        sorted([own, *(made for made in toolchains if made.nvrtc != name)], key=lambda made: made.version)
    )


def archs(toolchains: Iterable[Toolchain]) -> tuple[int, ...]:
    """Every architecture that one of them knows."""
    return tuple(sorted({arch for made in toolchains for arch in made.archs}))


def standing(arch: int, chosen: Toolchain, toolchains: Iterable[Toolchain]) -> Standing:
    """Whether a version compiles for an architecture, is too old for it, or has given it up."""
    if arch in chosen.archs:
        return Standing.COMPILES
    older = (made for made in toolchains if made.version < chosen.version)
    return Standing.DROPPED if any(arch in made.archs for made in older) else Standing.NEEDS_NEWER
