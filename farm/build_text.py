"""What a build says of itself, in lines for people."""

from __future__ import annotations

from collections.abc import Iterator

from kernels.built import BuildRecord


def lines(build: BuildRecord) -> Iterator[str]:
    """What it takes, what fits on an SM, and what the code shows."""
    yield f"{build.entry} for {build.arch}: {takes(build)}"
    yield fits(build)
    yield code(build)
    yield f"cubin {build.cubin_bytes:,} bytes, code {build.cubin_digest[:12]}"


def takes(build: BuildRecord) -> str:
    """40 registers, 24576+0 shared bytes, 12+20 bytes spilled"""
    shared = f"{build.static_shared_bytes}+{build.dynamic_shared_bytes} shared bytes"
    spilled = f"{build.spill_store_bytes}+{build.spill_load_bytes} bytes spilled (stores+loads)"
    parts = [
        f"{build.registers} registers",
        shared,
        f"{build.stack_bytes} stack bytes" * bool(build.stack_bytes),
    ]
    return ", ".join(filter(None, [*parts, spilled if "spills" in build.notes else "no spills"]))


def fits(build: BuildRecord) -> str:
    if not build.limited_by:
        return f"occupancy: the limits of {build.arch} aren't known"
    share, blocks = f"{build.occupancy:.0%}", _blocks(build.blocks_per_sm)
    said = f"occupancy {share}: {blocks} of {build.threads} threads an SM, limited by {build.limited_by}"
    if not build.most_dynamic_shared_bytes:
        return said
    least = _blocks(build.least_blocks_per_sm)
    return f"{said}; {least} where a case takes {build.most_dynamic_shared_bytes} dynamic bytes"


def _blocks(count: int) -> str:
    return "1 block" if count == 1 else f"{count} blocks"


def code(build: BuildRecord) -> str:
    if build.instructions is None:
        return build.disassembler
    loads = ", ".join(f"{count} of {bits} bits" for bits, count in build.loads) or "none"
    each = build.instructions_per_weight
    per_weight = f", {each:g} a weight in the loop that multiplies most" if each else ""
    return f"{build.instructions} instructions{per_weight}; global loads: {loads} ({build.disassembler})"
