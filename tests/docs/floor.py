"""The tables of docs/FLOOR.md from what NVRTC makes of every kernel; `--write` puts the current ones in."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from farm.floor import Floor, predicted
from farm.targets import TargetGpu, target_gpus
from kernels import catalog, registry
from kernels.built import BuildRecord
from kernels.catalog import Selection
from kernels.model import Build, Case
from workers.backends.nvrtc import BACKEND
from workers.nvrtc import disassembler, library

PAGE = Path(__file__).resolve().parents[2] / "docs" / "FLOOR.md"
REGION = re.compile(r"<!-- floor -->\n.*?<!-- end -->\n", re.DOTALL)
GPUS = ("rtx-3060", "h200")
SHAPES = {  # by op; of what is no matrix, a length that a model has
    "matvec": "4096x4096",
    "mul_mm": "4096x4096x512",
    "rmsnorm": "4096x512",
    "add_rmsnorm": "4096",
    "silu_mul": "14336",
    "quantize_q8_1": "14336",
}


def kernels() -> tuple[str, ...]:
    """Kernels with texts of their own: an ffn launches others', narrow activations share a text."""
    found = registry.built_in().values()
    return tuple(kernel.id for kernel in found if kernel.op in SHAPES and not kernel.narrow)


def cases(kernel_id: str) -> tuple[Case, ...]:
    """One case a kind, in the default build."""
    op = kernel_id.split("/")[0]
    chosen = Selection(kernels=(kernel_id,), shapes=(f"{op}:{SHAPES[op]}",), builds=(Build.DEFAULT,))
    planned = catalog.expand(chosen)
    kernel = registry.kernel(kernel_id)
    return tuple(item.case for item in planned if not kernel.refuses(item.case))


def built(case: Case, gpu: TargetGpu) -> tuple[BuildRecord, ...]:
    devices = {device.slug: device for device in BACKEND.devices()}
    plan = registry.kernel(f"{case.op}/{case.kernel}").plan(case)
    return BACKEND.run(plan, {}, devices[gpu.sm], 0).builds


def page() -> Iterator[str]:
    """The lines of the region."""
    gpus = [gpu for gpu in target_gpus() if gpu.device_class in GPUS]
    yield f"Compiled by {library.find().label}, read by {disassembler.label()}, build `default`. Nothing ran."
    for kernel_id in kernels():
        if found := cases(kernel_id):
            yield from table(kernel_id, found, gpus)


def table(kernel_id: str, found: tuple[Case, ...], gpus: list[TargetGpu]) -> Iterator[str]:
    op = kernel_id.split("/")[0]
    yield f"\n### {kernel_id}, {SHAPES[op]}\n"
    heads = [
        f"{gpu.sm}: instructions a weight, registers, occupancy | least limit on {gpu.name}" for gpu in gpus
    ]
    yield f"| kind | MB a pass | {' | '.join(heads)} |"
    yield "| --- | --- |" + " --- | --- |" * len(gpus)
    for case in found:
        parts = [(builds := built(case, gpu), predicted(case, builds, gpu)) for gpu in gpus]
        yield row(case, [(builds[-1], floor) for builds, floor in parts])


def row(case: Case, parts: list[tuple[BuildRecord, Floor]]) -> str:
    """`| Q4_K | 9.5 | 12.9, 40, 100 % | memory, 100 % of the data sheet | …`"""
    moved = parts[0][1].limits[0].pass_us * parts[0][1].gpu.bandwidth_gbs * 1000 / 1e6
    cells = [f"{case.kind}", f"{moved:.3g}"]
    for build, floor in parts:
        per_weight = f"{build.instructions_per_weight:.1f}" if build.instructions_per_weight else "–"
        cells.append(f"{per_weight}, {build.registers}, {build.occupancy:.0%}")
        unknown = "; issue not known" * (case.op == "matvec" and not build.instructions_per_weight)
        cells.append(f"{floor.least.name}, {floor.of_memory:.0%} of the data sheet{unknown}")
    return f"| {' | '.join(cells)} |"


def main(words: list[str]) -> int:
    text = "\n".join(page())
    if "--write" in words:
        region = f"<!-- floor -->\n{text}\n<!-- end -->\n"
        PAGE.write_text(REGION.sub(lambda _: region, PAGE.read_text(encoding="utf8")), encoding="utf8")
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
