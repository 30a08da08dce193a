"""Plain kernels that a board is measured by: a copy, a sum that only reads, dense GEMMs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from kernels.model import Arg, BufferArg, Build, Case, Launch, Plan, Role, ScalarArg, packed
from kernels.op import SelfContained, Step

THREADS = 256
WORDS_A_THREAD = 4  # of 16 bytes
BLOCK_BYTES = THREADS * WORDS_A_THREAD * 16
WARPS = THREADS // 32
LANES = 32
NOWHERE = (0, 0, 0)  # grid and block of what a library does
KIND_OF = {"f2": "F16", "f4": "F32"}

COPY = """
extern "C" __global__ void yardstick_copy(const uint4 *x, uint4 *out) {
    const unsigned long long first = 1024ull * blockIdx.x + threadIdx.x;
    uint4 words[4];
    for (int i = 0; i < 4; ++i)
        words[i] = x[first + 256 * i];
    for (int i = 0; i < 4; ++i)
        out[first + 256 * i] = words[i];
}
"""
READ = """
extern "C" __global__ void yardstick_read(const uint4 *x, unsigned int *out) {
    const unsigned long long first = 1024ull * blockIdx.x + threadIdx.x;
    unsigned int sum = 0;
    for (int i = 0; i < 4; ++i) {
        const uint4 word = x[first + 256 * i];
        sum += word.x + word.y + word.z + word.w;
    }
    for (int lanes = 16; lanes > 0; lanes /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, lanes);
    if (threadIdx.x % 32 == 0)
        out[8 * blockIdx.x + threadIdx.x / 32] = sum;
}
"""


class Yardstick(SelfContained):
    """A text that no case of the catalog names: it is found only while something is measured."""

    op = "yardstick"

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self._text = text

    def text(self, kind: str, unit: str = "") -> str:
        return self._text

    def entries(self, kind: str) -> Mapping[str, tuple[str, ...]]:
        return {f"{self.name}.cu": (self.entry(kind),)}

    def digest(self, kinds: tuple[str, ...], build: Build) -> str:
        return hashlib.sha256(self._text.encode()).hexdigest()

    def frame_digest(self, kinds: tuple[str, ...], build: Build) -> str:
        return ""

    def plan(self, case: Case) -> Plan:
        """One launch over `nbytes` bytes, rounded up to whole blocks."""
        return self.over(case.shape["nbytes"])

    def over(self, nbytes: int) -> Plan:
        blocks = -(-nbytes // BLOCK_BYTES)
        x = packed("x", (blocks * BLOCK_BYTES // 4,), Role.IN, "u4")
        size = (blocks * WARPS,) if self.name == "read" else x.shape
        args = BufferArg("x", "x"), BufferArg("out", "out")
        launch = Launch(self.id, "", self.entry(""), args, (blocks, 1, 1), (THREADS, 1, 1))
        return Plan((x, packed("out", size, Role.OUT, "u4")), (launch,), Build.DEFAULT)

    def twin(self, step: Step) -> np.ndarray | None:
        return self.sums(step.arrays["x"])

    def sums(self, x: np.ndarray) -> np.ndarray:
        """(n,) uint32 that must come out, to the bit: integers have no order of addition."""
        if self.name == "copy":
            return x
        of_warps = x.reshape(-1, WORDS_A_THREAD, WARPS, LANES * 4)  # blocks, words of a thread, warps, lanes
        sums: np.ndarray = of_warps.sum(axis=(1, 3), dtype=np.uint32).reshape(-1)
        return sums

    def chain(self, step: Step) -> int:
        return 0


YARDSTICKS = (Yardstick("copy", COPY), Yardstick("read", READ))


def dense(rows: int, cols: int, batch: int, dtype: str) -> Plan:
    """A GEMM by the board's own library, W (rows, cols) and x (batch, cols) of f2 or f4, out float32."""
    size = np.dtype(dtype).itemsize
    weights = packed("weights", (rows, cols * size), Role.IN, "u1")
    x, out = packed("x", (batch, cols), Role.IN, dtype), packed("out", (batch, rows), Role.OUT)
    sizes = {"rows": rows, "cols": cols, "batch": batch}
    args: tuple[Arg, ...] = (
        *(BufferArg(buffer.name, buffer.name) for buffer in (weights, x, out)),
        *(ScalarArg(name, "i4", value) for name, value in sizes.items()),
        ScalarArg("row_bytes", "i8", cols * size),
    )
    call = Launch("gemm/library", KIND_OF[dtype], "gemm", args, NOWHERE, NOWHERE, library=True)
    return Plan((weights, x, out), (call,), Build.DEFAULT)
