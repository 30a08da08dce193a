"""Library calls on the CPU: a dense GEMM by the BLAS that numpy is linked to."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cache

import numpy as np

from kernels.evidence import LaunchRecord
from kernels.model import Launch
from workers.backend import CannotRun

NOWHERE = (0, 0, 0)  # grid and block of what isn't launched

Arrays = Mapping[str, np.ndarray]  # by role


def gemm(arrays: Arrays) -> None:
    """out (m, n) float32 = x (m, k) by the transpose of weights (n, bytes of k), both float16 or float32.

    They are made float32, which is exact; the additions are in BLAS' own order.
    """
    w = arrays["weights"].view(arrays["x"].dtype)
    with np.errstate(all="ignore"):  # NaN and Inf are fed on purpose
        arrays["out"][...] = arrays["x"].astype(np.float32) @ w.astype(np.float32).T


ROUTINES: dict[str, Callable[[Arrays], None]] = {"gemm": gemm}


def call(launch: Launch, arrays: Arrays) -> LaunchRecord:
    """Does what the launch names, on views of its buffers."""
    if launch.entry not in ROUTINES:
        raise CannotRun(f"no library here does {launch.entry}; there are {', '.join(ROUTINES)}")
    began = time.perf_counter()
    ROUTINES[launch.entry](arrays)
    elapsed_us = (time.perf_counter() - began) * 1e6
    return LaunchRecord(launch.kernel, launch.entry, NOWHERE, NOWHERE, 0, 0, "", elapsed_us, blas())


@cache
def blas() -> str:
    """`scipy-openblas 0.3.31 (numpy 2.4.6)`: what numpy says it was built with."""
    told = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return f"{told['name']} {told.get('version', 'of unknown version')} (numpy {np.__version__})"
