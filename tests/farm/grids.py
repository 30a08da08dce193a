"""Capabilities, boards and matrices with visible numbers, as the tests of the matrix need them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from db.cell import Capability, CellKey
from farm.matrix import Claim, Matrix, Row
from farm.pivot import pivot
from farm.targets import TargetGpu
from kernels.evidence import Verdict
from kernels.model import Device

NOW_US = 1_700_000_000_000_000  # 2023-11-14T22:13:20Z
BLOCK = Row("matvec", "block", "Q4_0", "exact")
BLOCK_DEFAULT = Row("matvec", "block", "Q4_0", "default")
CPU = Device("cpu-x86_64-aaaa", "cpu-x86_64", "Test CPU", "0123")
CPU_2 = Device("cpu-x86_64-bbbb", "cpu-x86_64", "Test CPU", "4567")
GPU = Device("rtx-3060-cccc", "rtx-3060", "NVIDIA RTX 3060", "GPU-89ab", fingerprint=(("sm", "sm_86"),))
RTX_3060 = TargetGpu("NVIDIA RTX 3060", "rtx-3060", "sm_86", 12, 360, "a test")
H200 = TargetGpu("NVIDIA H200", "h200", "sm_90", 141, 4800, "a test")


def capability(
    verdict: Verdict = Verdict.PASS,
    device: Device = CPU,
    backend: str = "host",
    row: Row = BLOCK,
    source: str = "now",
    **changes: Any,
) -> Capability:
    """Ten cases over 100 positions that ran at second 1."""
    key = CellKey(device.slug, backend, *row, source)
    rungs = ("twin", "host", "exact") if verdict is Verdict.PASS and backend == "host" else ()
    made = Capability(
        key=key,
        device_class=device.device_class,
        verdict=verdict,
        reason="",
        rungs=rungs,
        flags=(),
        cases=10,
        skipped=0,
        positions=100,
        bound_ratio=0.5,
        relative_ratio=0.25,
        nmse=1e-12,
        bit_exact=True,
        last_run_us=1_000_000,
    )
    return made._replace(**changes)


def matrix_of(
    capabilities: Iterable[Capability],
    rows: Sequence[Row] = (BLOCK,),
    devices: Sequence[Device] = (CPU,),
    targets: Sequence[TargetGpu] = (),
) -> Matrix:
    """A matrix whose catalog has `rows`, each with the source digest `now`."""
    claims = [Claim(row, "now") for row in rows]
    return pivot(capabilities, claims, devices, targets, "c0ffee", NOW_US)
