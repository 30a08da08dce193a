"""Plays CuPy on a board that does silu(gate) * up, rightly or as the variable BOARD says."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import numpy as np
from cupy_backends.cuda.api import driver


class Function:
    def __call__(self, grid: tuple, block: tuple, args: tuple, shared_mem: int) -> None:
        gate, up, out, n = args
        assert (type(gate), type(n), shared_mem) == (np.uint64, np.int32, 0)
        assert grid[0] * block[0] >= n
        x, y, z = (floats(int(address), int(n)) for address in (gate, up, out))
        with np.errstate(all="ignore"):
            right = x / (np.float32(1) + np.exp(-x)) * y
        how = os.environ["BOARD"]
        z[:] = x * y if how == "wrong" else right
        if how == "one missing":
            z[-1:].view(np.uint32)[:] = 0x7FC0DEAD
        if how == "past":
            floats(int(out), int(n) + 1)[-1] = 1.0
        if how == "input":
            x[0] = 1.0
        if how == "restless":
            z[0] = np.nextafter(z[0], np.float32(9)) if floats.calls % 2 else z[0]


def floats(address: int, count: int) -> np.ndarray:
    floats.calls += 1
    return np.ctypeslib.as_array((ctypes.c_float * count).from_address(address))


floats.calls = 0


class RawModule:
    def __init__(self, path: str) -> None:
        self.flags, _, self.text = Path(path).read_text().partition("\n")

    def get_function(self, symbol: str) -> Function:
        print("flags", self.flags)
        if symbol not in self.text or os.environ["BOARD"] == "no entry":
            raise driver.CUDADriverError(500)
        return Function()
