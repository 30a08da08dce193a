"""CUDA through CuPy: modules, launches and plain memory; never its compiler, its pool or its kernels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from kernels.model import Grid
from workers.backend import CannotRun
from workers.cuda import libcuda
from workers.cuda.arch import Version, cuda_version
from workers.cuda.driver import Gemm
from workers.cuda.errors import CUBLAS, CUDA, CudaError

SHARED_WITHOUT_ASKING = 48 << 10  # dynamic bytes of a block; more has to be asked for, entry by entry
# CUDA Runtime API, cudaDataType_t; cuBLAS, cublasComputeType_t and cublasGemmAlgo_t.
REAL_32F, REAL_16F = 0, 2
COMPUTE_32F, ANY_ALGORITHM = 68, -1
NOT_TRANSPOSED, TRANSPOSED = 0, 1
CUBLAS_EXTRAS = {12: "cublas", 13: "cublas13"}  # by CuPy's own CUDA


def no_cublas(cuda: int, why: str) -> str:
    """The refusal where cuBLAS isn't found, with what to install; `cuda` is 12090 for CUDA 12.9."""
    extra = CUBLAS_EXTRAS.get(cuda // 1000, "")
    install = f"./run pip install -e '.[{extra}]', or " if extra else ""
    return f"CuPy finds no cuBLAS ({' '.join(why.split())[:120]}); {install}install a CUDA toolkit"


class CupyDriver:
    """Importing CuPy takes a second and no context: the first call that touches the board makes that."""

    def __init__(self) -> None:
        import cupy  # the vendor's own, which most machines lack
        from cupy_backends.cuda.api import driver, runtime

        self._cupy, self._runtime, self._driver = cupy, runtime, driver
        self.label = f"CuPy {cupy.__version__}"

    def boards(self) -> tuple[str, ...]:
        return tuple(board.uuid for board in libcuda.answers().boards)

    def capability(self) -> int:
        with self._told("cudaDeviceGetAttribute"):
            major, minor = (self._runtime.deviceGetAttribute(which, 0) for which in (75, 76))
        return int(major) * 10 + int(minor)

    def version(self) -> Version:
        with self._told("cudaDriverGetVersion"):
            return cuda_version(self._runtime.driverGetVersion())

    def room(self) -> tuple[int, int]:
        with self._told("cudaMemGetInfo"):
            free, total = self._runtime.memGetInfo()
        return free, total

    def allocate(self, nbytes: int) -> int:
        with self._told(f"cudaMalloc of {nbytes} bytes"):
            return int(self._runtime.malloc(nbytes))

    def free(self, address: int) -> None:
        with self._told("cudaFree"):
            self._runtime.free(address)

    def upload(self, address: int, data: np.ndarray) -> None:
        with self._told("cudaMemcpy to the board"):
            self._runtime.memcpy(address, data.ctypes.data, data.nbytes, self._runtime.memcpyHostToDevice)

    def download(self, address: int, nbytes: int) -> np.ndarray:
        data = np.empty(nbytes, np.uint8)
        with self._told("cudaMemcpy from the board"):
            self._runtime.memcpy(data.ctypes.data, address, nbytes, self._runtime.memcpyDeviceToHost)
        return data

    def copy(self, to: int, address: int, nbytes: int) -> None:
        with self._told("cudaMemcpyAsync on the board"):
            stream, how = self._cupy.cuda.Stream.null.ptr, self._runtime.memcpyDeviceToDevice
            self._runtime.memcpyAsync(to, address, nbytes, how, stream)

    def entry(self, path: Path, symbol: str) -> Any:
        # CuPy keeps one module for a path and the board, whatever the file holds by now.
        with self._told(f"loading {symbol}"):
            return self._cupy.RawModule(path=str(path)).get_function(symbol)

    def forget(self) -> None:
        self._cupy.clear_memo()

    def static_shared_bytes(self, entry: Any) -> int:
        with self._told("cuFuncGetAttribute"):
            return int(entry.shared_size_bytes)

    def launch(
        self, entry: Any, grid: Grid, block: Grid, args: tuple[np.generic, ...], dynamic_shared_bytes: int
    ) -> None:
        # Nothing but the launch: this is what queueing a pass takes.
        try:
            if dynamic_shared_bytes > SHARED_WITHOUT_ASKING:
                entry.max_dynamic_shared_size_bytes = dynamic_shared_bytes
            entry(grid, block, args, shared_mem=dynamic_shared_bytes)
        except RuntimeError as error:
            raise self._sorted(error, f"launching {entry.name}") from None

    def gemm(self, call: Gemm) -> None:
        # cuBLAS counts by columns: rows of the weights are its columns, to be transposed; those of x and out
        # are columns already.
        cublas = self._cublas()
        one, none = np.ones(1, np.float32), np.zeros(1, np.float32)
        element = {"f2": REAL_16F, "f4": REAL_32F}[call.dtype]
        with self._told("cublasGemmEx"):
            cublas.gemmEx(
                self._cupy.cuda.get_cublas_handle(), TRANSPOSED, NOT_TRANSPOSED,
                call.rows, call.batch, call.cols, one.ctypes.data,
                call.weights, element, call.pitch, call.x, element, call.cols, none.ctypes.data,
                call.out, REAL_32F, call.rows, COMPUTE_32F, ANY_ALGORITHM,
            )  # fmt: skip

    def blas(self) -> str:
        cublas = self._cublas()
        with self._told("cublasGetVersion"):
            number = cublas.getVersion(self._cupy.cuda.get_cublas_handle())
        return f"cuBLAS {number // 10000}.{number // 100 % 100}.{number % 100}"

    def event(self) -> Any:
        with self._told("cudaEventRecord"):
            event = self._cupy.cuda.Event()
            event.record(self._cupy.cuda.Stream.null)
        return event

    def elapsed_us(self, first: Any, last: Any) -> float:
        with self._told("cudaEventElapsedTime"):
            return 1000.0 * float(self._cupy.cuda.get_elapsed_time(first, last))

    def wait(self) -> None:
        with self._told("cudaDeviceSynchronize"):
            self._runtime.deviceSynchronize()

    def _cublas(self) -> Any:
        try:
            from cupy_backends.cuda.libs import cublas  # a library of its own, loaded where it is called
        except ImportError as error:
            raise CannotRun(no_cublas(self._runtime.runtimeGetVersion(), str(error))) from None
        return cublas

    @contextmanager
    def _told(self, call: str) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            raise self._sorted(error, call) from None

    def _sorted(self, error: RuntimeError, call: str) -> Exception:
        """CuPy's errors as CudaError: their classes carry the vendor's number. Any other is what it was."""
        if isinstance(error, (self._runtime.CUDARuntimeError, self._driver.CUDADriverError)):
            return CudaError(error.status, call, CUDA)
        if type(error).__name__ == "CUBLASError":  # its module isn't imported where cuBLAS is away
            return CudaError(error.status, call, CUBLAS)  # type: ignore[attr-defined]
        return error
