"""Asks a board for faults of its own, before a kernel is blamed: Xids, ECC, and whether it is there at all.

Xids: NVIDIA, "XID Errors". Those that a program can cause (13, 31, 32, 43, 45, 68, 69), or one that never
ends (8, 46, 109), aren't listed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from workers.cuda import nvml as reading

XIDS = {
    48: "double-bit ECC error", 54: "auxiliary power isn't connected",
    61: "internal micro-controller breakpoint", 62: "internal micro-controller halt",
    63: "ECC page retirement or row remapping", 64: "ECC page retirement or row remapping failed",
    74: "NVLink error", 79: "the board has fallen off the bus", 92: "high single-bit ECC error rate",
    94: "contained ECC error", 95: "uncontained ECC error",
    119: "the board's system processor doesn't answer", 120: "error of the board's system processor",
    140: "unrecovered ECC error", 154: "the board needs a recovery",
}  # fmt: skip
XID_EVENT = 0x8  # nvmlEventTypeXidCriticalError
LOST = {15: "NVML says that the board is lost", 16: "NVML says that the board needs a reset"}
MOST_EVENTS = 100
COMES_S = 0.2  # an Xid is told some time after the call that failed of it


@dataclass
class Watch:
    """Made when the board is opened: it knows what was there before. Tells nothing where NVML is away."""

    nvml: Any
    uuid: str
    clock: Callable[[], float] = time.monotonic
    _handle: Any = field(default=None, init=False)
    _events: Any = field(default=None, init=False)
    _uncorrected: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.nvml is None:
            return
        self._handle = reading.handle_of(self.nvml, self.uuid)
        self._uncorrected = reading.state(self.nvml, self.uuid).ecc_uncorrected
        try:
            self._events = self.nvml.nvmlEventSetCreate()
            self.nvml.nvmlDeviceRegisterEvents(self._handle, XID_EVENT, self._events)
        except self.nvml.NVMLError:  # not on this board, or not for this user
            self._events = None

    def __call__(self) -> str:
        """What is wrong with the board, in words; empty where nothing is known to be."""
        if self._handle is None:
            return ""
        return self._lost() or self._xid() or self._ecc()

    def _lost(self) -> str:
        try:
            self.nvml.nvmlDeviceGetTemperature(self._handle, reading.DIE)
        except self.nvml.NVMLError as error:
            return LOST.get(getattr(error, "value", 0), "")
        return ""

    def _xid(self) -> str:
        """The first Xid of the hardware's own that was raised since the last look, or comes soon."""
        if self._events is None:
            return ""
        until = self.clock() + COMES_S
        for _ in range(MOST_EVENTS):
            left_ms = max(0, round(1000 * (until - self.clock())))
            try:
                raised = int(self.nvml.nvmlEventSetWait_v2(self._events, left_ms).eventData)
            except self.nvml.NVMLError:  # no more of them
                return ""
            if raised in XIDS:
                return f"Xid {raised}, {XIDS[raised]}"
        return ""

    def _ecc(self) -> str:
        now = reading.state(self.nvml, self.uuid).ecc_uncorrected
        if now is None or self._uncorrected is None or now <= self._uncorrected:
            return ""
        return f"{now - self._uncorrected} uncorrected ECC errors since the board was opened"
