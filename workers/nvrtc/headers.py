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
# Their own: a text may ask for them, and NVRTC defines size_t and the like by itself.
OWN = {"stdint.h": INTEGERS, "cstdint": INTEGERS, "stddef.h": "", "cstddef": "", "cuda_runtime.h": ""}
MISSING = re.compile(r'(?:could not|cannot) open source file "([^"]+)"')
OF_CUDA = re.compile(r"(cuda|mma|cooperative_groups|math_constants|vector_|device_|sm_)\w*(\.h|\.hpp)?")
INSTALL = "set CUDA_HOME, or ./run pip install nvidia-cuda-runtime-cu12"


@cache
def folder() -> str:
    """Where CUDA's headers lie: $CUDA_HOME, /usr/local/cuda, or the packages beside NVRTC; empty: nowhere."""
    named = [
        Path(os.environ[name]) / "include" for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)
    ]
    installed = [Path(path) / "nvidia" / "cuda_runtime" / "include" for path in sys.path if path]
    for place in (*named, Path("/usr/local/cuda/include"), *installed):
        if (place / "cuda_fp16.h").is_file():
            return str(place)
    return ""


def demand_found(error: str) -> None:
    """CannotRun where a text wants a header of CUDA's that isn't installed: its kernel isn't at fault."""
    match = MISSING.search(error)
    if match and not folder() and OF_CUDA.match(match[1]):
        raise CannotRun(f"the text includes {match[1]}, which NVRTC doesn't bring; {INSTALL}")
