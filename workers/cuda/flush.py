"""Buffers flush against an unmapped page of the board: one byte read past the end is a fault, not a number.

By the driver's virtual memory calls (CUDA Driver API, "Virtual Memory Management"): an address range is
reserved that is longer than what is mapped in it. A page is 2 MiB, and every buffer takes at least one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from workers.backend import Unavailable
from workers.cuda.errors import CudaError
from workers.cuda.memory import Span


@dataclass(frozen=True)
class Mapped:
    """What was made for one buffer."""

    start: int  # address of the range
    nbytes: int  # mapped
    reserved: int
    memory: Any  # the vendor's handle


class Flush:
    """An allocator; NVIDIA's own binding makes the calls, on the context that CuPy opened."""

    def __init__(self, cuda: Any = None, device: int = 0) -> None:
        self._cuda = cuda or _binding()
        self._mapped: dict[int, Mapped] = {}
        where = self._cuda.CUmemLocation()
        where.type, where.id = self._cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, device
        self._what = self._cuda.CUmemAllocationProp()
        self._what.type = self._cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        self._what.location = where
        self._access = self._cuda.CUmemAccessDesc()
        self._access.location = where
        self._access.flags = self._cuda.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        least = self._cuda.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        (self._page,) = self._done("cuMemGetAllocationGranularity", self._what, least)

    def allocate(self, nbytes: int, front: int, align: int) -> Span:
        """The buffer ends where the mapping ends, but for what its alignment leaves."""
        taken = -(-nbytes // align) * align
        whole = max(1, -(-(front + taken) // self._page)) * self._page
        start = self._map(whole)
        address = start + whole - taken
        return Span(address - front, front, nbytes, taken - nbytes, start)

    def free(self, span: Span) -> None:
        mapped = self._mapped.pop(span.handle)
        self._done("cuMemUnmap", mapped.start, mapped.nbytes)
        self._done("cuMemRelease", mapped.memory)
        self._done("cuMemAddressFree", mapped.start, mapped.reserved)

    def _map(self, nbytes: int) -> int:
        """The address of so many bytes with a page behind them that nothing is mapped to."""
        (memory,) = self._done("cuMemCreate", nbytes, self._what, 0)
        reserved = nbytes + self._page
        try:
            (start,) = self._done("cuMemAddressReserve", reserved, 0, 0, 0)
        except CudaError:
            self._done("cuMemRelease", memory)
            raise
        self._done("cuMemMap", start, nbytes, 0, memory, 0)
        self._done("cuMemSetAccess", start, nbytes, [self._access], 1)
        self._mapped[int(start)] = Mapped(int(start), nbytes, reserved, memory)
        return int(start)

    def _done(self, call: str, *args: Any) -> tuple[Any, ...]:
        status, *given = getattr(self._cuda, call)(*args)
        if int(status):
            raise CudaError(int(status), call)
        return tuple(given)


def _binding() -> Any:
    try:
        from cuda.bindings import driver  # the vendor's own, of the extra `nvrtc`
    except ImportError:
        raise Unavailable(
            "flush buffers need cuda-bindings; ./run pip install -e '.[nvrtc]', or leave out "
            "FARM_CUDA_ALLOCATOR"
        ) from None
    return driver
