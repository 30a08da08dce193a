"""What a case asks of a board and what its board has to give, as far as fingerprint and machine code tell."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kernels import registry
from kernels.built import BuildRecord
from kernels.limits import Board, Work
from kernels.model import Case, Device
from kernels.op import LaunchKernel, Matrix
from workers.timed import BoardState

X_BYTES = {"f32": 4.0, "f16": 2.0, "bf16": 2.0}  # of one activation
ON_TENSOR_CORES = ("mma",)  # whose multiply-adds tensor cores do
PER_ROW = ("block", "coalesced")  # matvecs whose every weight loads an activation of its own


def work_of(case: Case, nbytes: int, builds: Sequence[BuildRecord] = ()) -> Work:
    """By the builds that ran; a loop that decodes for many tokens has no figure of a weight."""
    matrices = [part for part in registry.op(case.op).operands(case) if isinstance(part, Matrix)]
    weights = sum(part.rows * part.cols for part in matrices)
    kernel = registry.kernel(f"{case.op}/{case.kernel}")
    one_launch = isinstance(kernel, LaunchKernel) and case.op == "matvec"
    per_weight = builds[-1].instructions_per_weight if builds and one_launch else None
    of_x = X_BYTES.get(case.x_dtype) if one_launch and case.kernel.split("_")[0] in PER_ROW else None
    batch = dict(case.shape.axes).get("batch", 1)
    macs = weights * batch if case.op == "mul_mm" else 0
    in_lanes, in_tensor_cores = (0, macs) if case.kernel in ON_TENSOR_CORES else (macs, 0)
    return Work(nbytes, weights, in_lanes, per_weight, of_x, in_tensor_cores)


def board_of(device: Device, state: BoardState) -> Board:
    """SMs by the fingerprint, the clock as it was measured with; zeros where neither tells."""
    told = dict(device.fingerprint)
    return Board(
        sm=_number(told, "sm", "compute_capability"),
        sms=_number(told, "sms"),
        clock_mhz=float(state.sm_clock_mhz or 0),
        basis=f"{told.get('sms', '?')} SMs at {state.sm_clock_mhz or '?'} MHz",
    )


def cache_bytes(device: Device) -> int:
    """Of the last cache; 0 where it isn't told."""
    return _number(dict(device.fingerprint), "l2_bytes")


def sheet_gb_per_s(device: Device) -> float:
    """What memory can do by bus width and clock, two transfers a clock; 0 where they aren't told."""
    told = dict(device.fingerprint)
    return 2e-3 * _number(told, "memory_clock_mhz") * _number(told, "bus_bits") / 8


def _number(told: dict[str, str], *names: str) -> int:
    """The digits of the first of these that is told: 86 for sm_86 and for 8.6."""
    for name in names:
        if digits := re.sub(r"\D", "", told.get(name, "")):
            return int(digits)
    return 0
