"""The vendor seam: every call into CUDA that the backend makes, and the numbers that cross it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from kernels.model import Grid
from workers.cuda.arch import Version

Opener = Callable[[], "Driver"]


@dataclass(frozen=True)
class Gemm:
    """out (batch, rows) float32 = x (batch, cols) by the transpose of weights (rows, cols); all row-major."""

    weights: int  # addresses
    x: int
    out: int
    rows: int
    cols: int
    batch: int
    pitch: int  # elements from one row of the weights to the next
    dtype: str  # of weights and x: f2 or f4


class Driver(Protocol):
    """CUDA on the one board that this process sees.

    A call that doesn't succeed raises CudaError with the vendor's code. Launches, copies and
    events are queued on one stream; upload, download and wait() end when all of it has.
    """

    label: str  # CuPy 14.2.0

    def boards(self) -> tuple[str, ...]:
        """UUIDs of the boards that the process sees, GPU- or MIG- before them or not."""

    def capability(self) -> int:
        """86 for compute capability 8.6."""

    def version(self) -> Version:
        """The newest CUDA that the driver knows."""

    def room(self) -> tuple[int, int]:
        """Bytes free and in all."""

    def allocate(self, nbytes: int) -> int:
        """The address of so many bytes, aligned to 256, of no pool."""

    def free(self, address: int) -> None: ...

    def upload(self, address: int, data: np.ndarray) -> None:
        """Copies (n,) uint8 to the board."""

    def download(self, address: int, nbytes: int) -> np.ndarray:
        """(nbytes,) uint8 from the board."""

    def copy(self, to: int, address: int, nbytes: int) -> None:
        """Queues a copy on the board."""

    def entry(self, path: Path, symbol: str) -> Any:
        """A kernel of a cubin or PTX file, whose module is loaded once while it isn't forgotten."""

    def forget(self) -> None:
        """Lets go of all modules but those of entries that somebody holds."""

    def static_shared_bytes(self, entry: Any) -> int: ...

    def launch(
        self, entry: Any, grid: Grid, block: Grid, args: tuple[np.generic, ...], dynamic_shared_bytes: int
    ) -> None:
        """Each argument is passed as the bytes of its own type."""

    def gemm(self, call: Gemm) -> None: ...

    def blas(self) -> str:
        """`cuBLAS 12.9.1`."""

    def event(self) -> Any:
        """A mark in the stream."""

    def elapsed_us(self, first: Any, last: Any) -> float:
        """Between two marks that the board has passed."""

    def wait(self) -> None: ...
