"""Reads the matrix from a database: the only place where rows, catalog and targets meet."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from db import agreement, benchmark, capability, device, sabotage
from db.session import Session
from farm import user_catalog
from farm.matrix import Claim, Matrix, Row, Sabotaged
from farm.pivot import pivot, row_of
from farm.targets import target_gpus
from kernels import catalog, registry, source
from kernels.errors import FarmError, UsageError
from kernels.model import Build
from kernels.op import LibraryKernel
from workers.sim.plan import is_simulated


def read_matrix(s: Session, now_us: int) -> Matrix:
    """Every cell that this catalog or a stored one has, or that evidence names, stale against them."""
    with user_catalog.searching_stored(s), _uncollected():
        return _read_matrix(s, now_us)


@contextmanager
def _uncollected() -> Iterator[None]:
    """A matrix may be 200,000 objects without a cycle: looking for cycles takes half of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _read_matrix(s: Session, now_us: int) -> Matrix:
    # A simulation is no evidence about a kernel, wherever its lines came from.
    proved = benchmark.proved(s)
    ran = [
        cell._replace(rungs=(*cell.rungs, benchmark.RUNG)) if cell.key in proved else cell
        for cell in capability.cells(s)
        if not is_simulated(cell.key.backend, cell.key.device)
    ]
    found = agreement.levels(s, ran)
    boards = [seen.device for seen in device.devices(s) if not is_simulated("", seen.device.slug)]
    claims = claims_for(row_of(cell) for cell in found)
    matrix = pivot(found, claims, boards, target_gpus(), catalog.digest(), now_us)
    times = tuple(one for one in benchmark.newest(s) if not is_simulated(one.key.backend, one.key.device))
    return replace(matrix, sabotage=read_sabotage(s), times=times)


def read_sabotage(s: Session) -> tuple[Sabotaged, ...]:
    """The newest score of every text, stale where this catalog's differs or has none."""
    return tuple(
        Sabotaged(score, _exact_digest(score.kernel, score.kind) != score.source_digest)
        for score in sabotage.scores(s)
    )


def _exact_digest(kernel_id: str, kind: str) -> str:
    op, _, name = kernel_id.partition("/")
    return source_digest(Row(op, name, kind, Build.EXACT.value))


def claims_for(rows: Iterable[Row]) -> list[Claim]:
    """The catalog's own claims, then those of rows that only evidence has and this catalog can still make."""
    listed = [Row(name.op, name.kernel, name.kind, name.build.value) for name in catalog.cells()]
    others = sorted(set(rows) - set(listed))
    return [_claim(row, True) for row in listed] + [_claim(row, False) for row in others]


def _claim(row: Row, listed: bool) -> Claim:
    """Of a row whose kernel this catalog may not have."""
    kernel = registry.all_kernels().get(f"{row.op}/{row.kernel}")
    packing = kernel.packing if kernel else ""
    return Claim(row, source_digest(row), listed, packing, isinstance(kernel, LibraryKernel))


def source_digest(row: Row) -> str:
    """The digest of a row's source here; empty where this catalog has no such kernel, kind or build."""
    try:
        kernel_id = f"{row.op}/{row.kernel}"
        registry.kernel(kernel_id)
        return source.digest(kernel_id, kinds_of(row.op, row.kind), Build(row.build))
    except (FarmError, ValueError):
        return ""


def kinds_of(op: str, label: str) -> tuple[str, ...]:
    """The kind of every weight matrix of an op, from a cell's label: F32, Q4_K or Q4_K+Q4_K+Q6_K."""
    matrices = registry.op(op).matrices
    names = tuple(registry.kind(name).name for name in label.split("+")) if matrices else ()
    names = names * len(matrices) if len(names) == 1 else names
    if len(names) != len(matrices):
        raise UsageError(f"{op} takes {len(matrices)} kinds, {label!r} has {len(names)}")
    return names
