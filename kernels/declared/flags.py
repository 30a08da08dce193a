"""The compiler flags that a declaration may ask for in the build `declared`, and what each is elsewhere."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kernels.declared.mistake import no_such

STANDARDS = ("c++14", "c++17", "c++20")


@dataclass(frozen=True)
class Flag:
    """One flag in nvcc's words as a pattern, and how a host compiler and NVRTC are told; None: not at all."""

    pattern: str
    host: tuple[str, ...]
    nvrtc: str | None  # a template for re.Match.expand


# nvcc's fast math contracts, divides by a reciprocal and flushes subnormals; it doesn't reorder sums. A host
# has no flush-to-zero that a text could be given alone, so that part stays away there.
FAST_ON_HOST = ("-ffp-contract=fast", "-freciprocal-math")
FLAGS = (
    Flag(r"--?use_fast_math|-ffast-math", FAST_ON_HOST, "--use_fast_math"),
    Flag(r"--?fmad=true", ("-ffp-contract=fast",), "--fmad=true"),
    Flag(r"--?fmad=false", ("-ffp-contract=off",), "--fmad=false"),
    Flag(r"--?ftz=(true|false)", (), r"--ftz=\1"),
    Flag(r"--?prec-div=true", (), "--prec-div=true"),
    Flag(r"--?prec-div=false", ("-freciprocal-math",), "--prec-div=false"),
    Flag(r"--?prec-sqrt=(true|false)", (), r"--prec-sqrt=\1"),
    Flag(r"--?maxrregcount=(\d+)", (), r"--maxrregcount=\1"),
    Flag(r"--?restrict", (), "--restrict"),
    Flag(r"--?(?:extra-device-vectorization)", (), "--extra-device-vectorization"),
    Flag(r"-lineinfo|--generate-line-info", (), "--generate-line-info"),
    Flag(r"-O[0-3]", (), None),
)
WORDS = (
    "--use_fast_math", "-ffast-math", "--fmad=true", "--fmad=false", "--ftz=true", "--prec-div=false",
    "--prec-sqrt=false", "--maxrregcount=64", "--restrict", "--extra-device-vectorization",
    "--generate-line-info", "-O3",
)  # fmt: skip


def unknown_flag(flag: str) -> str:
    """Why a flag can't be declared; empty if it can."""
    if any(re.fullmatch(known.pattern, flag) for known in FLAGS):
        return ""
    return no_such("compiler flag that the farm can hand on", flag, WORDS)


def for_host(flags: Sequence[str]) -> tuple[str, ...]:
    """What a C++ compiler is told in their place."""
    return tuple(
        word for flag in flags for known in FLAGS if re.fullmatch(known.pattern, flag) for word in known.host
    )


def for_nvrtc(flags: Sequence[str]) -> tuple[str, ...]:
    """What NVRTC is told in their place."""
    return tuple(
        match.expand(known.nvrtc)
        for flag in flags
        for known in FLAGS
        if known.nvrtc and (match := re.fullmatch(known.pattern, flag))
    )
