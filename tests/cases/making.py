"""Cases in visible numbers, and their evidence from a right kernel or a wrong one."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import numpy as np

from kernels import registry
from kernels.evidence import Evidence, Verdict
from kernels.inputs import FIXTURE_VERSION
from kernels.model import Build, Case, FromFile, Layout, Seeded, Shape
from tests.workers.zoo import Wrong
from workers.backend import Backend
from workers.backends.host import BACKEND, Host
from workers.files import FileStore
from workers.image_cache import ImageCache
from workers.machine import cpu_device
from workers.request import Request
from workers.runner import new_id, run_case

KINDS = tuple(registry.kinds())
LINEAR = ("matvec/block", "matvec/coalesced", "mul_mm/reference")
BATCH = 2  # of mul_mm
PACKED = Layout()


class RunCase(Protocol):
    def __call__(
        self, case: Case, wrong: Wrong | None = None, files: FileStore | None = None
    ) -> Evidence: ...


def run_on_host(case: Case, wrong: Wrong | None = None, files: FileStore | None = None) -> Evidence:
    """Wrong kernels of these tests are edits of the text alone."""
    return run_with(Host(wrong.text) if wrong else BACKEND, case, files)


def run_with(backend: Backend, case: Case, files: FileStore | None = None) -> Evidence:
    request = Request(new_id(), case, backend.name, cpu_device())
    return run_case(request, backend, ImageCache(files or FileStore()))


def linear_case(
    kernel: str, kind: str, rows: int, blocks: int, family: str = "ordinary", layout: Layout = PACKED
) -> Case:
    """`rows` rows of `blocks` blocks, with BATCH tokens where the op takes a batch; the exact build."""
    op_name, name = kernel.split("/")
    sizes = {"rows": rows, "cols": blocks * registry.kind(kind).elements}
    batch = {"batch": BATCH} if op_name == "mul_mm" else {}
    drawn = Seeded(family, 0, FIXTURE_VERSION)
    shape, scalars = Shape.of(**sizes, **batch), registry.op(op_name).scalars_of((kind,))
    x_dtype = registry.kernel(kernel).x_dtype
    return Case(op_name, name, (kind,), shape, drawn, drawn, Build.EXACT, layout, scalars, x_dtype)


def positions(evidence: Evidence) -> int:
    """How many output elements were compared; a verdict without any says nothing about a kernel's numbers."""
    return evidence.comparison.positions if evidence.comparison else 0


def found(evidence: Evidence) -> tuple[Verdict, int]:
    """The verdict and the positions that it rests on."""
    return evidence.verdict, positions(evidence)


def tokens(kernel: str) -> int:
    """Outputs of one row."""
    return BATCH if kernel.startswith("mul_mm") else 1


def npy(folder: Path, array: np.ndarray) -> tuple[FileStore, FromFile]:
    """A store that holds the array as a file, and the source that names it."""
    np.save(folder / "array.npy", array)
    store = FileStore(folder / "files")
    return store, FromFile(store.register(folder / "array.npy").sha256)
