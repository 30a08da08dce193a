"""Buffers against an unmapped page, over a driver that isn't there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from workers.cuda.errors import CudaError
from workers.cuda.flush import Flush

PAGE = 2 << 20


class FakeVirtualMemory:
    """The driver's virtual memory calls, with the vendor's names for what they are given."""

    CUmemLocation = CUmemAllocationProp = CUmemAccessDesc = SimpleNamespace
    CUmemLocationType = SimpleNamespace(CU_MEM_LOCATION_TYPE_DEVICE=1)
    CUmemAllocationType = SimpleNamespace(CU_MEM_ALLOCATION_TYPE_PINNED=1)
    CUmemAccess_flags = SimpleNamespace(CU_MEM_ACCESS_FLAGS_PROT_READWRITE=3)
    CUmemAllocationGranularity_flags = SimpleNamespace(CU_MEM_ALLOC_GRANULARITY_MINIMUM=0)

    def __init__(self) -> None:
        self.reserved: dict[int, int] = {}  # address -> bytes
        self.mapped: dict[int, int] = {}
        self.held: set[int] = set()
        self.full = False

    def cuMemGetAllocationGranularity(self, what: Any, least: int) -> tuple[int, int]:
        assert (what.type, what.location.type, what.location.id) == (1, 1, 0)
        return 0, PAGE

    def cuMemCreate(self, nbytes: int, what: Any, flags: int) -> tuple[int, int]:
        assert nbytes % PAGE == 0
        self.held.add(len(self.held) + 1)
        return 0, len(self.held)

    def cuMemAddressReserve(self, nbytes: int, align: int, at: int, flags: int) -> tuple[int, ...]:
        if self.full:
            return 2, 0
        start = (1 << 40) + sum(self.reserved.values())
        self.reserved[start] = nbytes
        return 0, start

    def cuMemMap(self, at: int, nbytes: int, offset: int, handle: int, flags: int) -> tuple[int]:
        assert nbytes < self.reserved[at]
        self.mapped[at] = nbytes
        return (0,)

    def cuMemSetAccess(self, at: int, nbytes: int, access: list[Any], count: int) -> tuple[int]:
        assert (self.mapped[at], access[0].flags, count) == (nbytes, 3, 1)
        return (0,)

    def cuMemUnmap(self, at: int, nbytes: int) -> tuple[int]:
        assert self.mapped.pop(at) == nbytes
        return (0,)

    def cuMemRelease(self, handle: int) -> tuple[int]:
        self.held.remove(handle)
        return (0,)

    def cuMemAddressFree(self, at: int, nbytes: int) -> tuple[int]:
        assert self.reserved.pop(at) == nbytes
        return (0,)


@pytest.mark.parametrize(
    ("nbytes", "align"), [(4, 4), (18 * 37, 2), (16, 16), (17, 16), (PAGE, 16), (PAGE + 1, 2)]
)
def test_a_buffer_ends_where_nothing_is_mapped(nbytes: int, align: int) -> None:
    cuda = FakeVirtualMemory()
    span = Flush(cuda).allocate(nbytes, 4096, align)
    ((start, mapped),) = cuda.mapped.items()
    end = span.address + nbytes
    assert start + mapped - end == span.back < align
    assert span.address % align == 0
    assert span.front == 4096
    assert span.base >= start
    assert cuda.reserved[start] - mapped == PAGE  # which nothing is mapped to


def test_what_is_freed_is_given_back_whole() -> None:
    cuda = FakeVirtualMemory()
    flush = Flush(cuda)
    flush.free(flush.allocate(100, 4096, 4))
    assert (cuda.mapped, cuda.reserved, cuda.held) == ({}, {}, set())


def test_an_address_range_that_isnt_to_be_had_leaves_nothing_behind() -> None:
    cuda = FakeVirtualMemory()
    flush = Flush(cuda)
    cuda.full = True
    with pytest.raises(CudaError, match="cuMemAddressReserve"):
        flush.allocate(100, 4096, 4)
    assert cuda.held == set()


def test_the_vendors_binding_has_the_names() -> None:
    """Its calls need a driver, its structures and numbers don't."""
    driver = pytest.importorskip("cuda.bindings.driver", reason="./run pip install -e '.[nvrtc]'")
    asked: list[str] = []

    class Counting:
        def __getattr__(self, name: str) -> Any:
            if not name.startswith("cuMem"):
                return getattr(driver, name)
            assert callable(getattr(driver, name))
            asked.append(name)
            return lambda *args: (0, PAGE)

    flush = Flush(Counting())
    flush.free(flush.allocate(100, 4096, 4))
    assert len(asked) == 8
