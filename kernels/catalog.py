"""Expands a selection to cases, in an order that keeps cases of equal inputs together."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain, product

from kernels import registry, source
from kernels.errors import UnknownName, UsageError
from kernels.families import FAMILIES
from kernels.inputs import FIXTURE_VERSION
from kernels.kind import Kind
from kernels.model import Build, Case, Seeded, Shape, kind_label
from kernels.op import Kernel, Op, Workload
from kernels.tiers import Tier, workloads

DEFAULT_BUILDS = (Build.EXACT, Build.DEFAULT)
DEFAULT_SEEDS = (0,)
LONGEST_SIZE = 18  # digits: what fits a database's integers; kernels refuse much smaller sizes themselves
NO_KIND = kind_label(())  # the label of ops without kinds


@dataclass(frozen=True)
class Use:
    """A shape that something uses, and how often."""

    op: str
    shape: Shape
    count: int = 1


@dataclass(frozen=True)
class Selection:
    """What to run; an empty field stands for everything, or for the default tier."""

    ops: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()  # op/name, or a name for every op that has it
    kinds: tuple[
        str, ...
    ] = ()  # a kind: pure cells and mixes with it; a mix joined by +; F32: ops without kinds
    shapes: tuple[str, ...] = ()  # with the op in front, or without where one op is left
    families: tuple[str, ...] = ()
    seeds: tuple[int, ...] = DEFAULT_SEEDS
    builds: tuple[Build, ...] = ()  # empty: those that each kernel runs in unless others are named
    tiers: tuple[Tier, ...] = ()  # quick where none is named
    uses: tuple[Use, ...] = ()  # in place of tiers; cases of what is used most come first


@dataclass(frozen=True)
class Planned:
    """A case and how often it runs, each time with different poison."""

    case: Case
    repeats: int


@dataclass(frozen=True)
class CellName:
    """A row of the matrix, on any device."""

    op: str
    kernel: str
    kind: str
    build: Build


def expand(selection: Selection) -> tuple[Planned, ...]:
    """The cases of a selection; those of one inputs_key follow one another."""
    _demand_known("family", selection.families, FAMILIES)
    chosen = _kernels(selection)
    shapes = _shapes(selection.shapes, list(chosen))
    for use in selection.uses:
        shapes.setdefault(use.op, []).append(use.shape)
    found: dict[Case, Planned] = {}
    for op_name, kernels in chosen.items():
        for kinds in _kind_tuples(registry.op(op_name), selection.kinds):
            for one in _cases(registry.op(op_name), kernels, kinds, shapes.get(op_name), selection):
                if one.case not in found or found[one.case].repeats < one.repeats:  # tiers overlap
                    found[one.case] = one
    counts = {(use.op, use.shape): -use.count for use in selection.uses}
    return tuple(sorted(found.values(), key=lambda one: counts.get((one.case.op, one.case.shape), 0)))


def _cases(
    op: Op, kernels: list[Kernel], kinds: tuple[str, ...], shapes: list[Shape] | None, selection: Selection
) -> Iterator[Planned]:
    # Those that read the same bytes follow one another.
    by_inputs = sorted(kernels, key=lambda kernel: (kernel.packing, kernel.x_dtype))
    serving = [kernel for kernel in by_inputs if kernel.serves(kinds)]
    if selection.shapes or selection.uses:
        for shape, family in product(shapes or [], selection.families or ("ordinary",)):
            yield from _planned(serving, kinds, Workload(shape), family, selection)
        return
    held, tiers = tuple(registry.kind(kind) for kind in kinds), selection.tiers or (Tier.QUICK,)
    for workload in chain(*(workloads(op, tier, held) for tier in tiers)):
        for family in _chosen(workload, selection):
            running = [kernel for kernel in serving if family in kernel.families(workload, kinds)]
            yield from _planned(running, kinds, workload, family, selection)
    if {Tier.QUICK, Tier.FULL} & set(tiers):
        for workload, having in _own_workloads(serving, held).items():
            for family in _chosen(workload, selection):
                yield from _planned(having, kinds, workload, family, selection)


def _own_workloads(kernels: list[Kernel], kinds: tuple[Kind, ...]) -> dict[Workload, list[Kernel]]:
    """What single kernels add to the op's quick tier, and which of them do."""
    having: dict[Workload, list[Kernel]] = {}
    for kernel in kernels:
        for workload in kernel.quick(kinds):
            having.setdefault(workload, []).append(kernel)
    return having


def _chosen(workload: Workload, selection: Selection) -> Iterator[str]:
    return (one for one in workload.families if not selection.families or one in selection.families)


def _planned(
    kernels: list[Kernel], kinds: tuple[str, ...], workload: Workload, family: str, selection: Selection
) -> Iterator[Planned]:
    for seed, kernel in product(selection.seeds, kernels):
        drawn = Seeded(family, seed, FIXTURE_VERSION)
        for build in builds_of(kernel, selection.builds):
            yield Planned(case_of(kernel, kinds, workload, drawn, build), workload.repeats)


def case_of(kernel: Kernel, kinds: tuple[str, ...], workload: Workload, drawn: Seeded, build: Build) -> Case:
    """The case of a workload with seeded inputs."""
    scalars = dict(registry.op(kernel.op).scalars_of(kinds)) | dict(workload.scalars)
    return Case(
        op=kernel.op,
        kernel=kernel.name,
        kinds=kinds,
        shape=workload.shape,
        weights=drawn,
        x=drawn,
        build=build,
        layout=workload.layout,
        scalars=tuple(sorted(scalars.items())),
        x_dtype=kernel.x_dtype,
        out_dtype=kernel.out_dtype,
        packing=kernel.packing,
    )


def quick_cases(kernel_id: str, kind_name: str) -> list[Case]:
    """A kernel's own quick cases of a kind that it can run, all families, exact where it has that build."""
    kernel = registry.launch_kernel(kernel_id)
    builds = builds_of(kernel, (Build.EXACT,)) or kernel.builds[:1]
    selection = Selection(kernels=(kernel_id,), kinds=(kind_name or NO_KIND,), builds=builds)
    cases = [planned.case for planned in expand(selection)]
    return [case for case in cases if not (registry.op(case.op).refuses(case) or kernel.refuses(case))]


def builds_of(kernel: Kernel, named: Iterable[Build] = ()) -> tuple[Build, ...]:
    """The builds that are named, or its own; none that the kernel lacks."""
    wanted = tuple(named) or kernel.builds
    return tuple(build for build in wanted if build not in kernel.lacks or build in kernel.builds)


def cells(builds: Iterable[Build] = ()) -> tuple[CellName, ...]:
    """Every cell that a device can fill, in the matrix' order; in every kernel's own builds unless named."""
    named, found = tuple(builds), list(_kernels_by_kinds())
    return tuple(
        CellName(kernel.op, kernel.name, kind_label(kinds), build)
        for build in named or (*DEFAULT_BUILDS, Build.DECLARED)
        for kernel, kinds in found
        if build in builds_of(kernel, named)
    )


def digest() -> str:
    """SHA-256 over the source digests of every cell in the default builds: what a worker's checkout has.

    Of the farm's own kernels alone: users' catalogs travel with their campaigns.
    """
    with registry.searching({}):
        return _digest()


@cache
def _digest() -> str:
    sha = hashlib.sha256()
    for build in DEFAULT_BUILDS:
        for kernel, kinds in _kernels_by_kinds():
            sha.update(f"{kernel.id} {kind_label(kinds)} {source.digest(kernel.id, kinds, build)}\n".encode())
    return sha.hexdigest()


def kernels_of(selection: Selection) -> tuple[Kernel, ...]:
    """The kernels that a selection names by op and name, whatever else it says."""
    return tuple(kernel for kernels in _kernels(selection).values() for kernel in kernels)


def _kernels_by_kinds() -> Iterator[tuple[Kernel, tuple[str, ...]]]:
    for op_name, kernels in _kernels(Selection()).items():
        for kernel, kinds in product(kernels, _kind_tuples(registry.op(op_name), ())):
            if kernel.serves(kinds):
                yield kernel, kinds


def _kernels(selection: Selection) -> dict[str, list[Kernel]]:
    """Op name to its chosen kernels; every name must be known, alone and together."""
    every = registry.all_kernels().values()
    _demand_known("op", selection.ops, registry.ops())
    _demand_known(
        "kernel", selection.kernels, [name for kernel in every for name in (kernel.id, kernel.name)]
    )
    chosen: dict[str, list[Kernel]] = {}
    for kernel in every:
        by_op = not selection.ops or kernel.op in selection.ops
        by_name = not selection.kernels or {kernel.id, kernel.name} & set(selection.kernels)
        if by_op and by_name:
            chosen.setdefault(kernel.op, []).append(kernel)
    return chosen


def _demand_known(noun: str, names: Iterable[str], known: Iterable[str]) -> None:
    known = list(dict.fromkeys(known))
    for name in names:
        if name not in known:
            raise UnknownName(noun, name, known)


def _kind_tuples(op: Op, names: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The kinds of the op's matrices that a selection asks for; a mix need not be one of the op's own."""
    wanted = [tuple(_kind_name(part) for part in name.split("+")) for name in names]
    pure = [(kind,) * len(op.matrices) for kind in registry.kinds()] if op.matrices else [()]
    asked = [kinds for kinds in wanted if len(kinds) > 1 and len(kinds) == len(op.matrices)]
    every = list(dict.fromkeys((*pure, *op.mixes, *asked)))
    if not names:
        return every
    return [kinds for kinds in every if _selected(kinds, wanted)]


def _selected(kinds: tuple[str, ...], wanted: list[tuple[str, ...]]) -> bool:
    contained = [name for names in wanted if len(names) == 1 for name in names]
    return kinds in wanted or any(kind in contained for kind in kinds or (NO_KIND,))


def _kind_name(name: str) -> str:
    return NO_KIND if name.upper() == NO_KIND else registry.kind(name).name


def _shapes(texts: tuple[str, ...], ops: list[str]) -> dict[str, list[Shape]]:
    """Op name to the shapes that name it; without a prefix the selection must leave one op."""
    shapes: dict[str, list[Shape]] = {}
    for text in texts:
        prefix = text.partition(":")[0] if ":" in text else ""
        if not prefix and len(ops) != 1:
            raise UsageError(
                f"shape {text!r} fits {len(ops)} of the ops chosen; write OP:{text} or name a kernel"
            )
        op_name = prefix or ops[0]
        shapes.setdefault(op_name, []).append(parse_shape(text, registry.op(op_name)))
        if op_name not in ops:
            raise UsageError(
                f"shape {text!r} is for an op that isn't chosen; chosen are {', '.join(ops) or 'none'}"
            )
    return shapes


def parse_shape(text: str, op: Op) -> Shape:
    """`matvec:64x256` or `64x256` as the op's axes have it; axes with a default may be missing at the end."""
    prefix, _, sizes = text.rpartition(":")
    numbers = sizes.lower().split("x")
    fewest = sum(axis.default is None for axis in op.axes)
    right = fewest <= len(numbers) <= len(op.axes) and all(n.isascii() and n.isdigit() for n in numbers)
    if prefix not in ("", op.name) or not right:
        raise UsageError(f"shape {text!r} is not one of {op.name}'s: write {grammar(op)} in whole numbers")
    if too_long := [number for number in numbers if len(number) > LONGEST_SIZE]:
        digits = len(too_long[0])
        raise UsageError(f"a shape of {op.name} with a size of {digits} digits; {LONGEST_SIZE} are the most")
    given = [int(number) for number in numbers]
    defaults = [axis.default or 0 for axis in op.axes[len(given) :]]
    return Shape(tuple(zip((axis.name for axis in op.axes), given + defaults, strict=True)))


def grammar(op: Op) -> str:
    """How a shape of the op is written: mul_mm:ROWSxCOLSxBATCH, rmsnorm:N[xROWS]."""
    words = [axis.name.upper() for axis in op.axes]
    optional = [axis.default is not None for axis in op.axes]
    joined = words[0] + "".join(
        f"[x{word}]" if may_lack else f"x{word}"
        for word, may_lack in zip(words[1:], optional[1:], strict=True)
    )
    return f"{op.name}:{joined}"


def check(case: Case) -> None:
    """Refuses a case that isn't in this catalog's words, as one typed by hand may be (UsageError)."""
    op, kernel = registry.op(case.op), registry.kernel(f"{case.op}/{case.kernel}")
    for kind in case.kinds:
        if registry.kind(kind).name != kind:
            raise UsageError(f"kind {kind!r} of a case is written {registry.kind(kind).name!r}")
    _demand_same(f"kinds of {kernel.id}", len(case.kinds), len(op.matrices))
    _demand_same(f"axes of {op.name}", [name for name, _ in case.shape.axes], [axis.name for axis in op.axes])
    if case.build not in builds_of(kernel, (case.build,)):
        has = ", ".join(kernel.builds)
        raise UsageError(f"{kernel.id} has no build {str(case.build)!r}, it has {has}; name that")
    if not kernel.serves(case.kinds):
        raise UsageError(
            f"{kernel.id} doesn't exist for {case.kind}; `farm kernels {kernel.id}` lists its kinds"
        )
    wanted = [name for name, _ in op.scalars_of(case.kinds)]
    _demand_same(f"scalars of {op.name}", [name for name, _ in case.scalars], wanted)
    for noun, got, want in (("x", case.x_dtype, kernel.x_dtype), ("out", case.out_dtype, kernel.out_dtype)):
        _demand_same(f"{noun} dtype of {kernel.id}", got, want)
    _demand_same(f"packing of {kernel.id}", case.packing, kernel.packing)
    if case.build not in builds_of(kernel, (case.build,)):
        raise UsageError(
            f"{kernel.id} declares no flags of its own: there is no build {str(case.build)!r} of it"
        )
    drawn = [part.family for part in (case.weights, case.x) if isinstance(part, Seeded)]
    _demand_known("family", drawn, FAMILIES)


def _demand_same(what: str, got: object, want: object) -> None:
    if got != want:
        raise UsageError(f"{what}: got {got}, want {want}")
