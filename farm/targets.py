"""Reads the target GPUs: columns of the matrix before anybody ran anything there."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from kernels import codec


@dataclass(frozen=True)
class TargetGpu:
    """A GPU that users own, with its data sheet's figures."""

    name: str  # as its driver calls it
    device_class: str  # slug
    sm: str  # sm_86
    memory_gb: float
    bandwidth_gbs: float  # of the memory
    source: str  # whose figures these are; `from memory` where nobody has looked them up again
    sms: int = 0  # 0, as the next one, where nobody said
    boost_mhz: float = 0.0  # what the clock reaches


@cache
def target_gpus() -> tuple[TargetGpu, ...]:
    """Every target, oldest architecture first."""
    data = json.loads((files("farm") / "targets.json").read_text(encoding="utf8"))
    return codec.decode(tuple[TargetGpu, ...], data, "targets.json")
