"""Headers for texts that NVRTC compiles: C's integer types, and CUDA's own where they are installed."""

from __future__ import annotations

import os
import re
import sys
from functools import cache
from pathlib import Path

from workers.backend import CannotRun

INTEGERS = """#pragma once
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
typedef long long intptr_t;
typedef unsigned long long uintptr_t;
#define INT8_MAX 127
#define UINT8_MAX 255
#define INT16_MAX 32767
#define UINT16_MAX 65535
#define INT32_MAX 2147483647
#define UINT32_MAX 4294967295u
"""
# What NVRTC declares without being asked, so that these have nothing left to say.
BUILT_IN = (
    "stddef.h", "cstddef", "math.h", "cmath", "assert.h", "cassert", "stdio.h", "cstdio", "cuda.h",
    "cuda_runtime.h", "device_launch_parameters.h", "vector_types.h",
)  # fmt: skip
OWN = {"stdint.h": INTEGERS, "cstdint": INTEGERS, **dict.fromkeys(BUILT_IN, "")}
MISSING = re.compile(r'(?:could not|cannot) open source file "([^"]+)"')
OF_CUDA = re.compile(r"(cuda|mma|cooperative_groups|math_constants|vector_|device_|sm_)\w*(\.h|\.hpp)?")
# Where wheels have them: CUDA 13's lie in one folder, CUDA 12's in one for each package.
IN_WHEELS = ("nvidia/cu13/include", "nvidia/cuda_runtime/include")
INSTALL = "./run pip install -e '.[nvrtc]', or set CUDA_HOME"


@cache
def folder() -> str:
    """Where CUDA's headers lie: $CUDA_HOME, the packages beside NVRTC, or /usr/local/cuda; empty: nowhere."""
    named = [
        Path(os.environ[name]) / "include" for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)
    ]
    installed = [Path(path) / place for path in sys.path if path for place in IN_WHEELS]
    for place in (*named, *installed, Path("/usr/local/cuda/include")):
        if (place / "cuda_fp16.h").is_file():
            return str(place)
    return ""


def demand_found(error: str) -> None:
    """CannotRun where a text wants a header of CUDA's that isn't installed: its kernel isn't at fault."""
    match = MISSING.search(error)
    if match and not folder() and OF_CUDA.match(match[1]):
        raise CannotRun(f"the text includes {match[1]}, which NVRTC doesn't bring; {INSTALL}")
