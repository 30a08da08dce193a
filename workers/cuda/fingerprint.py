"""A board as a device: its class, and what belongs to every piece of evidence from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kernels.model import Device
from workers.cuda import device_class
from workers.cuda.libcuda import Seen, bare
from workers.cuda.nvml import Facts

Words = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Machine:
    """What all boards of a machine share; empty where it isn't known."""

    driver: str  # 575.57.08
    cuda: int | None  # 12090: what the driver knows
    nvrtc: str  # NVRTC 12.9
    cupy: str  # cupy-cuda12x 14.2.0
    runtime: str  # of CUDA, as installed beside them
    words: Words  # os, cpu, provider, …


def device_of(facts: Facts, seen: Seen | None, machine: Machine) -> Device:
    """The device; what can change within a day, as clocks and temperature do, is no part of it.

    `seen` is the driver's own description, which has what NVML doesn't tell.
    """
    memory_bytes = facts.memory_bytes or (seen.memory_bytes if seen else None)
    name = facts.name or (seen.name if seen else "")
    named = device_class.class_of(name, memory_bytes)
    return Device(
        slug=f"{named}-{bare(facts.uuid).replace('-', '')[:8]}",
        device_class=named,
        name=name or "unnamed",
        uuid=facts.uuid,
        slots=1,
        fingerprint=_told(_of_board(facts, seen, memory_bytes)) + _told(_of_machine(machine)) + machine.words,
    )


def _of_board(facts: Facts, seen: Seen | None, memory_bytes: int | None) -> Mapping[str, object]:
    sm = facts.sm or (seen.sm if seen else None)
    generation, width = facts.pcie_generation, facts.pcie_width
    return {
        "sm": sm and f"sm_{sm}",
        "class_rule": device_class.table().rule,
        "memory_bytes": memory_bytes,
        "sms": facts.multiprocessors or (seen.multiprocessors if seen else None),
        "l2_bytes": seen.l2_bytes if seen else None,
        "bus_bits": facts.bus_bits or (seen.bus_bits if seen else None),
        "sm_clock_mhz": facts.sm_clock_max_mhz,
        "memory_clock_mhz": facts.memory_clock_max_mhz,
        "power_cap_w": facts.power_cap_w and f"{facts.power_cap_w:g}",
        "ecc": None if facts.ecc is None else "on" if facts.ecc else "off",
        "retired_pages": facts.retired_pages,
        "remapped_rows": facts.remapped_rows,
        "mig": facts.mig_parent and f"part of {facts.mig_parent}",
        "pcie": generation and width and f"gen {generation} x{width}",
    }


def _of_machine(machine: Machine) -> Mapping[str, object]:
    cuda = machine.cuda
    return {
        "driver": machine.driver,
        "driver_cuda": cuda and f"{cuda // 1000}.{cuda % 1000 // 10}",
        "runtime": machine.runtime,
        "nvrtc": machine.nvrtc,
        "cupy": machine.cupy,
    }


def _told(found: Mapping[str, object]) -> Words:
    """What is known, 0 included; None and empty words are left out."""
    return tuple((name, str(value)) for name, value in found.items() if value is not None and value != "")
