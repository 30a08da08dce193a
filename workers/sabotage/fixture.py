"""Makes the cases that mutants are judged by, once: inputs in guarded memory, truth and the twin's output."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernels import catalog, dtypes, judge, registry
from kernels.compare import Compared, Place, compare, never_written, relative_ratio
from kernels.dtypes import bits, canonical, rounded, values
from kernels.model import Buffer, BufferArg, Build, Case, Launch, Plan
from kernels.op import JudgedOp, Truth
from workers.backend import POISONS, poisoned
from workers.files import FileStore
from workers.host.check import Checker
from workers.host.memory import Arena
from workers.host.module import Argument, Module
from workers.image_cache import ImageCache

TURNS = 2  # lanes, warps and blocks ascending, then descending, each with a poison of its own


@dataclass(frozen=True)
class Usual:
    """What the usual rules see in an output."""

    relative: bool  # the relative rule against the twin
    nmse: bool  # NMSE against the oracle


NMSE_LIMIT = 5e-4  # as llama.cpp's op tests have it


@dataclass(frozen=True)
class Fixture:
    """One case, ready to run any text with the signature of the kernel's own launch."""

    label: str  # shape and family
    launch: Launch
    arena: Arena
    args: tuple[Argument, ...]
    out: Buffer
    truth: Truth
    twin: np.ndarray
    place: Place

    def run(self, module: Module, entry: str, turn: int) -> np.ndarray:
        """The output after one launch; raises what the launch raises."""
        buffer = self.arena.buffers[self.out.name]
        buffer.view[:] = poisoned(self.out.nbytes, turn, self.out.dtype)
        launch = self.launch
        module.launch(entry, launch.grid, launch.block, launch.dynamic_shared_bytes, self.args, turn % TURNS)
        return self.out.view(buffer.view).copy()

    def findings(self, module: Module, entry: str) -> list[str]:
        """What one launch of the check build finds wrong: in either order the same races."""
        checker, launch = Checker(), self.launch
        for buffer in self.arena.buffers.values():
            checker.watch(buffer, buffer.read_only)
        size = launch.grid, launch.block, launch.dynamic_shared_bytes
        module.launch(entry, *size, self.args, checker=checker)
        return checker.findings

    def broken(self) -> list[str]:
        """Guard bands that were written to; inputs are sealed with theirs."""
        return self.arena.buffers[self.out.name].broken()

    def compared(self, got: np.ndarray) -> Compared:
        """Turn 0's output against truth and twin."""
        return compare(got, self.twin, self.truth, self.place, POISONS[0])

    def usual(self, got: np.ndarray) -> Usual:
        """What the usual rules see; an element nobody wrote is the zero that a fresh buffer holds.

        Where the right kernel itself is outside NMSE, as sums in float16 of products that cancel, that rule
        is taken to see nothing but NaNs.
        """
        filled = np.where(never_written(got, POISONS[0]), np.float32(0), values(got))
        with np.errstate(all="ignore"):
            twin = values(self.twin)
            odd = not np.array_equal(np.isnan(filled), np.isnan(twin))
            off = relative_ratio(filled, twin) > 1
            far = self._outside_nmse(filled) and not self._outside_nmse(twin)
        return Usual(odd or off, odd or far)

    def _outside_nmse(self, out: np.ndarray) -> bool:
        error = out.astype(np.float64) - self.truth.want
        counted = np.isfinite(error) & ~self.truth.by_twin
        squared = float(np.sum(np.square(error[counted])))
        return squared > NMSE_LIMIT * float(np.sum(np.square(self.truth.want[counted])))


def same(first: np.ndarray, second: np.ndarray) -> bool:
    """Equal bit for bit, as the runner compares repeats."""
    return bool(np.array_equal(bits(canonical(first)), bits(canonical(second))))


def fixtures(kernel_id: str, kind_name: str) -> list[Fixture]:
    """The kernel's own quick cases in the exact build, all families, the order of the catalog."""
    selection = catalog.Selection(
        kernels=(kernel_id,), kinds=(kind_name or catalog.NO_KIND,), builds=(Build.EXACT,)
    )
    cache = ImageCache(FileStore())
    cases = [planned.case for planned in catalog.expand(selection)]
    kernel = registry.launch_kernel(kernel_id)
    runnable = [case for case in cases if not (registry.op(case.op).refuses(case) or kernel.refuses(case))]
    return [fixture(case, cache) for case in runnable]


def fixture(case: Case, cache: ImageCache) -> Fixture:
    """One case, whether or not it is among the quick ones."""
    kernel, op = registry.launch_kernel(f"{case.op}/{case.kernel}"), registry.op(case.op)
    assert isinstance(op, JudgedOp)  # kernels of one launch belong to such ops
    plan = kernel.plan(case)
    launch = plan.launches[-1]  # its own; what others make for it is made by their twins
    assert launch.kernel == kernel.id
    images = judge.twin_outputs(plan, cache.images(case, plan).by_name)
    step = judge.step_of(launch, plan, images, case.family)
    with np.errstate(all="ignore"):
        out = plan.buffer(launch.buffers["out"])
        truth, twin = kernel.truth(op, step), kernel.twin(step)
    assert twin is not None  # the kernels that are mutated are the farm's own
    made = rounded(twin, dtypes.dtype(out.dtype))
    arena = _arena(plan, images, out.name)
    place = Place(0, launch.kernel, out.name, case.family, -1 if launch.kind else 0)
    label = f"{case.shape} {case.family}"
    return Fixture(label, launch, arena, _arguments(launch, plan, arena), out, truth, made, place)


def _arena(plan: Plan, images: dict[str, np.ndarray], out: str) -> Arena:
    """What the launch reads copied and sealed for good, its output open."""
    arena = Arena()
    for buffer in plan.buffers:
        placed = arena.place(buffer.name, images[buffer.name], buffer.align)
        if buffer.name != out:
            placed.seal()
    return arena


def _arguments(launch: Launch, plan: Plan, arena: Arena) -> tuple[Argument, ...]:
    args: list[Argument] = []
    for arg in launch.args:
        if isinstance(arg, BufferArg):
            args.append(arena.buffers[arg.buffer].address + plan.buffer(arg.buffer).offset)
        else:
            args.append(float(arg.value) if arg.dtype == "f4" else int(arg.value))
    return tuple(args)
