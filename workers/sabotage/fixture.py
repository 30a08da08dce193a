"""Makes the cases that mutants are judged by, once: inputs in guarded memory, truth and the twin's output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kernels import catalog, dtypes, judge, registry
from kernels.compare import Compared, Place, compare, never_written, relative_ratio
from kernels.dtypes import bits, canonical, rounded, values
from kernels.model import Buffer, BufferArg, Case, Launch, Options, Plan, Role
from kernels.op import JudgedOp, Truth
from workers.backend import POISONS, filled
from workers.files import FileStore
from workers.host.check import Checker
from workers.host.memory import Arena, alignment
from workers.host.module import Argument, Module
from workers.image_cache import ImageCache

TURNS = 2  # lanes, warps and blocks ascending, then descending, each with a poison of its own
Program = Sequence[tuple[Module, str]]  # of every launch: where it is compiled, and what it is called there


@dataclass(frozen=True)
class Usual:
    """What the usual rules see in an output."""

    relative: bool  # the relative rule against the twin
    nmse: bool  # NMSE against the oracle


NMSE_LIMIT = 5e-4  # as llama.cpp's op tests have it


@dataclass(frozen=True)
class Placed:
    """Where a case's buffers are, and what its launches are called with there."""

    arena: Arena
    launches: tuple[tuple[Launch, tuple[Argument, ...]], ...]

    def launch(self, program: Program, order: int, checker: Checker | None = None) -> None:
        """All launches, or up to the first that the checker finds fault with."""
        for (launch, args), (module, entry) in zip(self.launches, program, strict=True):
            size = launch.grid, launch.block, launch.dynamic_shared_bytes
            module.launch(entry, *size, args, order, checker=checker)
            if checker and checker.findings:
                return


@dataclass(frozen=True)
class Fixture:
    """One case, ready to run any texts with the signatures of the kernel's launches."""

    label: str  # shape and family
    flush: Placed  # against inaccessible pages, for the first turn
    apart: Placed  # as a GPU's allocator has them, for the second and the check build
    open: tuple[Buffer, ...]  # what is written: filled again before every run
    given: Mapping[str, np.ndarray]  # what an INOUT buffer of these holds then
    out: Buffer
    truth: Truth
    twin: np.ndarray | None  # None for a catalog's kernel without one
    place: Place
    options: Options  # of the compiler
    deterministic: bool = True
    exact: bool = False  # whether the right kernel gives the twin's bits
    deaf: Usual = Usual(relative=False, nmse=False)  # the rules that find the right kernel wrong here

    def run(self, program: Program, turn: int) -> np.ndarray:
        """The output after all launches; raises what a launch raises."""
        placed = self.apart if turn % TURNS else self.flush
        self._fill(placed, turn)
        placed.launch(program, turn % TURNS)
        return self.out.view(placed.arena.buffers[self.out.name].view).copy()

    def findings(self, program: Program) -> list[str]:
        """What one run of the check build finds wrong: in either order the same races."""
        self._fill(self.apart, 0)
        checker, known = Checker(), {buffer.name for buffer in self.open if _is_known(buffer)}
        for buffer in self.apart.arena.buffers.values():
            checker.watch(buffer, buffer.read_only, buffer.name in known)
        self.apart.launch(program, 0, checker)
        return checker.findings

    def _fill(self, placed: Placed, turn: int) -> None:
        for buffer in self.open:
            given = self.given.get(buffer.name)
            placed.arena.buffers[buffer.name].view[:] = filled(buffer, turn) if given is None else given

    def broken(self) -> list[str]:
        """Guard bands that were written to; inputs are sealed with theirs."""
        arenas = dict.fromkeys((self.flush.arena, self.apart.arena))  # the same where nothing has an offset
        return [line for arena in arenas for one in self.open for line in arena.buffers[one.name].broken()]

    def compared(self, got: np.ndarray, turn: int) -> Compared:
        """A turn's output against truth and twin."""
        return compare(got, self.twin, self.truth, self.place, self._poison(turn))

    def _poison(self, turn: int) -> int | None:
        return None if _is_known(self.out) else POISONS[turn]

    def usual(self, got: np.ndarray) -> Usual:
        """What the usual rules see; an element nobody wrote is the zero that a fresh buffer holds.

        Where the right kernel itself is outside one of them, as sums in float16 of products that cancel are
        outside NMSE, that rule sees nothing.
        """
        filled = np.where(never_written(got, self._poison(0)), np.float32(0), values(got))
        with np.errstate(all="ignore"):
            right = self.truth.want.astype(np.float32) if self.twin is None else values(self.twin)
            if self.twin is None:  # what only a twin could judge is judged by nobody
                filled = np.where(self.truth.by_twin, right, filled)
            odd = not np.array_equal(np.isnan(filled), np.isnan(right))
            off = relative_ratio(filled, right) > 1
            far = self._outside_nmse(filled) and not self._outside_nmse(right)
        return Usual((odd or off) and not self.deaf.relative, (odd or far) and not self.deaf.nmse)

    def _outside_nmse(self, out: np.ndarray) -> bool:
        error = out.astype(np.float64) - self.truth.want
        counted = np.isfinite(error) & ~self.truth.by_twin
        squared = float(np.sum(np.square(error[counted])))
        return squared > NMSE_LIMIT * float(np.sum(np.square(self.truth.want[counted])))


def _is_known(buffer: Buffer) -> bool:
    """Whether a kernel may read what is in it before it writes."""
    return buffer.role is Role.INOUT or buffer.fill is not None


def same(first: np.ndarray, second: np.ndarray) -> bool:
    """Equal bit for bit, as the runner compares repeats."""
    return bool(np.array_equal(bits(canonical(first)), bits(canonical(second))))


def fixtures(kernel_id: str, kind_name: str) -> list[Fixture]:
    """What judges a kernel's mutants, in the catalog's order."""
    cache = ImageCache(FileStore())
    return [fixture(case, cache) for case in catalog.quick_cases(kernel_id, kind_name)]


def fixture(case: Case, cache: ImageCache) -> Fixture:
    """One case, whether or not it is among the quick ones.

    A catalog's kernel is launched and judged as a whole. Of one of the farm's own it is the last launch; what
    others make for that one is made by their twins.
    """
    kernel, op = registry.launch_kernel(f"{case.op}/{case.kernel}"), registry.op(case.op)
    assert isinstance(op, JudgedOp)  # kernels of one launch belong to such ops
    plan, whole = kernel.plan(case), registry.self_contained(kernel.id) is not None
    given = cache.images(case, plan).by_name
    launches = plan.launches if whole else plan.launches[-1:]
    (judged,) = plan.checks if whole else launches
    assert judged.kernel == kernel.id
    alone = whole or len(plan.launches) == 1
    images = _before(plan, given) if alone else judge.twin_outputs(plan, given)
    step, out = judge.step_of(judged, plan, images, case.family), plan.buffer(judged.buffers["out"])
    with np.errstate(all="ignore"):
        truth, twin = kernel.truth(op, step), kernel.twin(step)
    written = tuple(buffer for buffer in plan.buffers if buffer.role is not Role.IN) if whole else (out,)
    names = {buffer.name for buffer in written}
    flush = _placed(launches, plan, images, names, as_allocated=False)
    apart = _placed(launches, plan, images, names, True) if any(b.offset for b in plan.buffers) else flush
    return Fixture(
        label=f"{case.shape} {case.family}",
        flush=flush,
        apart=apart,
        open=written,
        given={buffer.name: given[buffer.name] for buffer in written if buffer.role is Role.INOUT},
        out=out,
        truth=truth,
        twin=None if twin is None else rounded(twin, dtypes.dtype(out.dtype)),
        place=Place(0, judged.kernel, out.name, case.family, -1 if judged.kind else 0),
        options=plan.options,
        deterministic=plan.deterministic,
    )


def _before(plan: Plan, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every buffer's image before a run; zeros for what is filled later."""
    return {b.name: given[b.name] if b.given else np.zeros(b.nbytes, np.uint8) for b in plan.buffers}


def _placed(
    launches: Sequence[Launch],
    plan: Plan,
    images: Mapping[str, np.ndarray],
    written: set[str],
    as_allocated: bool,
) -> Placed:
    """What the launches read copied and sealed for good, the rest open."""
    arena = Arena()
    for buffer in plan.buffers:
        placed = arena.place(buffer.name, images[buffer.name], alignment(buffer, as_allocated))
        if buffer.name not in written:
            placed.seal()
    return Placed(arena, tuple((launch, _arguments(launch, plan, arena)) for launch in launches))


def _arguments(launch: Launch, plan: Plan, arena: Arena) -> tuple[Argument, ...]:
    args: list[Argument] = []
    for arg in launch.args:
        if isinstance(arg, BufferArg):
            args.append(arena.buffers[arg.buffer].address + plan.buffer(arg.buffer).offset)
        else:
            args.append(float(arg.value) if arg.dtype.startswith("f") else int(arg.value))
    return tuple(args)
