"""How many blocks of a kernel fit on one SM of an architecture, and what keeps more from fitting.

Limits: NVIDIA, CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; block limits
and granularities: `cuda_occupancy.h` of CUDA 12.9 and 13.5.
"""

from __future__ import annotations

from dataclasses import dataclass

WARP = 32  # threads
REGISTERS = 65536  # of one SM, the same for all that NVRTC 12 and 13 know
REGISTER_UNIT = 256  # registers: what a warp takes is rounded up to it


@dataclass(frozen=True)
class Limits:
    """What one SM has to give."""

    threads: int
    blocks: int
    shared_bytes: int
    shared_unit_bytes: int  # what a block takes is rounded up to it
    reserved_shared_bytes: int  # taken by the system for every block
    partitions: int = 4  # each with its share of registers; a warp lives in one


@dataclass(frozen=True)
class Occupancy:
    """What fits; all zero and empty where the architecture isn't known."""

    blocks: int  # on one SM at the same time
    share: float  # of the threads that an SM holds
    limited_by: str  # registers, shared, threads or blocks


UNKNOWN = Occupancy(0, 0.0, "")


def _old(shared_kb: int, threads: int = 2048, blocks: int = 32, partitions: int = 4) -> Limits:
    """Before sm_80: nothing reserved, units of 256 bytes."""
    return Limits(threads, blocks, shared_kb * 1024, 256, 0, partitions)


def _new(shared_kb: int, threads: int = 2048, blocks: int = 32) -> Limits:
    """From sm_80 on."""
    return Limits(threads, blocks, shared_kb * 1024, 128, 1024)


LIMITS = {
    50: _old(64), 52: _old(96), 53: _old(64),
    60: _old(64, partitions=2), 61: _old(96), 62: _old(64),
    70: _old(96), 72: _old(96), 75: _old(64, threads=1024, blocks=16),
    80: _new(164), 86: _new(100, 1536, 16), 87: _new(164, 1536, 16), 88: _new(100, 1536, 16),
    89: _new(100, 1536, 24), 90: _new(228), 100: _new(228), 101: _new(228, 1536, 24), 103: _new(228),
    110: _new(228, 1536, 24), 120: _new(100, 1536, 24), 121: _new(100, 1536, 24),
}  # fmt: skip
UNTOLD = (107,)  # what NVRTC builds for and no document read here has the limits of


def occupancy(arch: int, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """For blocks of so many threads, each with so many registers, and so much shared memory a block."""
    limits = LIMITS.get(arch)
    if limits is None:
        return UNKNOWN
    warps = -(-threads // WARP)
    of_block = _rounded(shared_bytes + limits.reserved_shared_bytes, limits.shared_unit_bytes)
    fits = {  # of equal ones the first is named: an SM that is full of threads lacks nothing else
        "threads": limits.threads // (warps * WARP),
        "blocks": limits.blocks,
        "registers": _by_registers(limits, warps, registers),
        "shared": limits.shared_bytes // of_block if of_block else limits.blocks,
    }
    limited_by = min(fits, key=fits.__getitem__)
    blocks = fits[limited_by]
    return Occupancy(blocks, blocks * warps * WARP / limits.threads, limited_by)


def _by_registers(limits: Limits, warps: int, registers: int) -> int:
    of_warp = _rounded(max(registers, 1) * WARP, REGISTER_UNIT)
    return REGISTERS // limits.partitions // of_warp * limits.partitions // warps


def _rounded(amount: int, unit: int) -> int:
    return -(-amount // unit) * unit
