"""Plays CUDA's runtime: this machine's memory for a board's, of compute capability 8.6."""

from __future__ import annotations

import ctypes
import os

memcpyHostToDevice, memcpyDeviceToHost = 1, 2
HELD: dict[int, ctypes.Array[ctypes.c_char]] = {}


class CUDARuntimeError(RuntimeError):
    def __init__(self, status: int) -> None:
        super().__init__(f"cudaError {status}")
        self.status = status


def deviceGetAttribute(which: int, device: int) -> int:
    if os.environ["BOARD"] == "absent":
        raise CUDARuntimeError(100)
    return {75: 8, 76: 6}[which]


def malloc(nbytes: int) -> int:
    if os.environ["BOARD"] == "full":
        raise CUDARuntimeError(2)
    made = ctypes.create_string_buffer(nbytes + 256)
    address = -(-ctypes.addressof(made) // 256) * 256
    HELD[address] = made
    return address


def free(address: int) -> None:
    del HELD[address]


def memcpy(to: int, source: int, nbytes: int, kind: int) -> None:
    ctypes.memmove(to, source, nbytes)


def deviceSynchronize() -> None:
    code = os.environ["BOARD"].partition("code ")[2]
    if code:
        raise CUDARuntimeError(int(code))
