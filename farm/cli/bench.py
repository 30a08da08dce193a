"""Times kernels on this machine's boards, beside a copy, a read and dense products in the same run."""

from __future__ import annotations

from typing import Any

import click

from farm import user_catalog
from farm.campaign import Order
from farm.cli import options
from farm.drive import Way, submit_and_finish
from kernels import registry
from kernels.catalog import NO_KIND, Selection
from kernels.errors import UsageError
from kernels.model import Build
from kernels.op import Kernel
from workers.boards import wanted_backends

SHAPES = {  # by op: large enough that no board's cache holds what effort.py allows of copies
    "matvec": ("4096x4096", "14336x4096"),
    "mul_mm": ("4096x4096x512",),
    "gemm": ("4096x4096x512",),
    "ffn": ("4096x14336",),
    "rmsnorm": ("4096x512",),
    "silu_mul": ("7340032",),  # 512 tokens of 14336
    "add_rmsnorm": ("131072",),
}
KIND = "Q4_K"


@click.command("bench")
@click.argument("kernels", nargs=-1, required=True, metavar="KERNEL...")
@click.option("--kind", "kinds", multiple=True, help=f"{KIND} unless named.")
@click.option("--shape", "shapes", multiple=True, help="matvec:ROWSxCOLS, …; large ones unless named.")
@click.option(
    "--build", "builds", multiple=True, type=options.BUILDS, help="As an engine would build it unless named."
)
@click.option(
    "--backend", "backends", multiple=True, help="host, and cuda where there is a board, unless named."
)
@click.option("--device", default="*", metavar="GLOB", help="By class, board name or UUID.")
@options.catalog
@options.local
@options.database
@options.as_json
def bench(
    kernels: tuple[str, ...], catalog_folder: str | None, local: bool, url: str, as_json: bool, **words: Any
) -> int:
    """Time kernels, and say what share of the least limit they reach.

    \b
    farm bench matvec/coalesced --kind Q4_K --kind Q6_K
    farm bench matvec/block mul_mm/reference --shape matvec:8192x8192 --shape mul_mm:4096x4096x128
    farm bench matvec/mine --catalog my-kernels --kind Q8_0 --device rtx-3060

    Inputs are drawn anew and read in turn so that no cache holds them, and the outputs of a pass that
    chance chooses are judged: one that is wrong is FAIL. What ran hot or faster than the data sheet is kept
    and proves nothing. A processor's times exercise the path and say nothing about a GPU.
    """
    with user_catalog.searching(catalog_folder) as found:
        selection = _selection(kernels, words["kinds"], words["shapes"], words["builds"])
        order = Order(
            found.selected(selection) if found else selection,
            wanted_backends(words["backends"]),
            words["device"],
            catalog=found.pack.address if found else "",
            bench=True,
        )
        return submit_and_finish(url, order, Way(local, as_json), found)


def _selection(
    names: tuple[str, ...], kinds: tuple[str, ...], shapes: tuple[str, ...], builds: tuple[str, ...]
) -> Selection:
    """The kernels in the shapes named, else in their ops' own; UsageError for an op that has none."""
    chosen = [registry.kernel(name) for name in names]
    own = tuple(dict.fromkeys(f"{k.op}:{shape}" for k in chosen for shape in SHAPES.get(k.op, ())))
    if missing := sorted({kernel.op for kernel in chosen if kernel.op not in SHAPES}) if not shapes else []:
        raise UsageError(f"no shape of {missing[0]} is timed unless it is named; give --shape {missing[0]}:…")
    return Selection(
        kernels=tuple(kernel.id for kernel in chosen),
        kinds=tuple(kind.upper() for kind in kinds) or tuple({_kind(kernel): None for kernel in chosen}),
        shapes=shapes or own,
        builds=tuple(map(Build, builds)) or (Build.DEFAULT,),
    )


def _kind(kernel: Kernel) -> str:
    """The kind that a kernel is timed with: one label for those without, and the first that serves else."""
    if not registry.op(kernel.op).matrices:
        return NO_KIND
    wanted = (KIND, *registry.kinds())
    return next(kind for kind in wanted if kernel.serves((kind,) * len(registry.op(kernel.op).matrices)))


COMMAND = bench
