"""Lists the kernels with their launches, bounds and sources, or prints the CUDA text of one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click
import numpy as np

from farm import user_catalog
from farm.cli import options
from farm.reader import kinds_of
from farm.terminal import console, shown, table
from kernels import catalog, judge, registry, source
from kernels.errors import UsageError
from kernels.inputs import FIXTURE_VERSION
from kernels.model import Case, Launch, Plan, Seeded
from kernels.op import Kernel, Op


@click.command(short_help=__doc__)
@click.argument("name", metavar="[KERNEL]", required=False)
@click.option(
    "--text", nargs=2, metavar="KERNEL KIND", help="Print the CUDA text as it is compiled; F32 for no kind."
)
@options.catalog
@options.as_json
def kernels(
    name: str | None, text: tuple[str, str] | None, catalog_folder: str | None, as_json: bool
) -> None:
    """Lists the kernels with their launches, bounds and sources, or prints the CUDA text of one.

    KERNEL is op/name, for example matvec/block: with it, the source digest of every kind and build.
    """
    with user_catalog.searching(catalog_folder):
        show(name, text, as_json)


def show(name: str | None, text: tuple[str, str] | None, as_json: bool) -> None:
    if text:
        print_text(cuda_texts(*text), as_json)
        return
    chosen = [registry.kernel(name)] if name else list(registry.all_kernels().values())
    records = [kernel_record(kernel) for kernel in chosen]
    if as_json:
        click.echo(json.dumps({"catalog_digest": catalog.digest(), "kernels": records}, indent=1))
        return
    print_kernels(records)
    if name:
        print_sources(records[0])


def kernel_record(kernel: Kernel) -> dict[str, Any]:
    """A kernel, the launches of its op's first quick shape, and the source digest of every kind and build."""
    op = registry.op(kernel.op)
    cells = [cell for cell in catalog.cells() if (cell.op, cell.kernel) == (kernel.op, kernel.name)]
    labels = list(dict.fromkeys(cell.kind for cell in cells))
    case = _example(kernel, op, kinds_of(op.name, labels[0]))
    plan = kernel.plan(case)
    return {
        "name": kernel.id,
        "shape_grammar": catalog.grammar(op),
        "kinds": labels,
        "packing": kernel.packing,
        "builds": [build.value for build in kernel.builds],
        "example": {
            "kind": case.kind,
            "shape": str(case.shape),
            "launches": [_launch_record(plan, launch, case) for launch in plan.launches],
        },
        "source_digests": {label: _digests(kernel, label) for label in labels},
    }


def _example(kernel: Kernel, op: Op, kinds: tuple[str, ...]) -> Case:
    workload = op.quick(tuple(registry.kind(kind) for kind in kinds))[0]
    seeded = Seeded(workload.families[0], 0, FIXTURE_VERSION)
    return catalog.case_of(kernel, kinds, workload, seeded, kernel.builds[0])


def _launch_record(plan: Plan, launch: Launch, case: Case) -> dict[str, Any]:
    part = registry.launch_kernel(launch.kernel)
    images = {buffer.name: np.zeros(buffer.nbytes, np.uint8) for buffer in plan.buffers}
    # A catalog's launches are judged together: the op's operands belong to all of them.
    step = judge.step_of(plan.judged_as[0] if plan.judged_as else launch, plan, images, case.family)
    return {
        "kernel": launch.kernel,
        "entry": launch.entry,
        "library": launch.library,
        "grid": list(launch.grid),
        "block": list(launch.block),
        "static_shared_bytes": launch.static_shared_bytes,
        "dynamic_shared_bytes": launch.dynamic_shared_bytes,
        "chain": part.chain(step),
        "arithmetic": part.arithmetic,
        "approximates": list(part.approximates),
    }


def _digests(kernel: Kernel, label: str) -> dict[str, str]:
    kinds = kinds_of(kernel.op, label)
    return {build.value: source.digest(kernel.id, kinds, build) for build in kernel.builds}


def print_kernels(records: Sequence[dict[str, Any]]) -> None:
    """One line per launch; figures are those of the shape named."""
    grid = table("kernel", "kinds", "shape", "launch", "grid", "block", "shared B", "chain", "arithmetic")
    grid.columns[0].no_wrap = True  # names are what one looks for
    for record in records:
        head = [
            record["name"],
            str(len(record["kinds"])),
            f"{record['example']['kind']} {record['example']['shape']}",
        ]
        for launch in record["example"]["launches"]:
            dims = ["x".join(map(str, launch[name])) for name in ("grid", "block")]
            shared = f"{launch['static_shared_bytes']}+{launch['dynamic_shared_bytes']}"
            if launch["library"]:
                dims, shared = ["library", ""], ""
            arithmetic = " ".join([launch["arithmetic"], *launch["approximates"]])
            grid.add_row(
                *map(shown, (*head, launch["kernel"], *dims, shared, str(launch["chain"]), arithmetic))
            )
            head = ["", "", ""]
    out = console()
    out.print(grid)
    usual = [build.value for build in catalog.DEFAULT_BUILDS]
    for record in records:
        if record["packing"]:
            out.print(
                shown(f"{record['name']} reads weights in the layout {record['packing']}"), soft_wrap=True
            )
        if record["builds"] != usual:
            out.print(shown(f"{record['name']} has builds of its own: {', '.join(record['builds'])}"))
    legend = f"shared: static+dynamic; chain: longest chain of additions; builds: {', '.join(usual)}"
    out.print(legend, soft_wrap=True)


def print_sources(record: dict[str, Any]) -> None:
    grid = table("kind", *record["builds"])
    for label, digests in record["source_digests"].items():
        grid.add_row(shown(label), *(digest[:16] for digest in digests.values()))
    out = console()
    out.print(f"\nsource digests; {record['shape_grammar']}", soft_wrap=True)
    out.print(grid)


def cuda_texts(kernel_id: str, label: str) -> dict[str, str]:
    """What a case of this kernel and kind compiles, by kernel and kind."""
    kernel = registry.kernel(kernel_id)
    op = registry.op(kernel.op)
    if not op.matrices and label.upper() != catalog.NO_KIND:
        raise UsageError(f"{kernel_id} has no text for {label!r}; write {catalog.NO_KIND}: it has no kinds")
    parts = dict.fromkeys(kernel.parts(kinds_of(kernel.op, label)))
    if not parts:
        raise UsageError(f"{kernel_id} has no text: a library does it")
    return {f"{part} {kind}".strip(): source.text(part, kind) for part, kind in parts}


def print_text(texts: dict[str, str], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"texts": texts}, indent=1))
        return
    for text in texts.values():
        click.echo(text, nl=not text.endswith("\n"))


COMMAND = kernels
