"""A user's catalog: the kernels of a pack, everything that is wrong with them, and how much was looked at."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from kernels import registry
from kernels.catalog import Selection
from kernels.declared import reading, signature, units
from kernels.declared.cubin import arch
from kernels.declared.declaration import EntryPoint, StepOf
from kernels.declared.kernel import DeclaredKernel
from kernels.declared.mistake import Misdeclared, Mistake, Mistakes, Place, no_such
from kernels.declared.pack import Pack
from kernels.errors import UnknownName
from kernels.inputs import FIXTURE_VERSION
from kernels.model import Build, Case, Seeded


@dataclass(frozen=True)
class Checked:
    """How much of a catalog was looked at."""

    kernels: int
    steps: int
    shapes: int  # planned, over all kernels and kinds
    refused: int  # shapes that op or kernel refuse by name


@dataclass(frozen=True)
class Catalog:
    """The kernels of a pack by id."""

    pack: Pack
    kernels: Mapping[str, DeclaredKernel]

    @cached_property
    def digest(self) -> str:
        return self.pack.digest

    def selected(self, selection: Selection) -> Selection:
        """The selection among this catalog's kernels alone; UnknownName for a kernel that it hasn't."""
        known = {name: kernel for kernel in self.kernels.values() for name in (kernel.id, kernel.name)}
        for name in selection.kernels:
            if name not in known:
                raise UnknownName("kernel of the catalog", name, list(self.kernels))
        named = [known[name].id for name in selection.kernels or self.kernels]
        return replace(selection, kernels=tuple(dict.fromkeys(named)))


def load(pack: Pack) -> Catalog:
    """The kernels of a pack; Misdeclared with all that can be found wrong without planning every shape."""
    mistakes = Mistakes()
    kernels = _read(pack, mistakes)
    if len(mistakes):
        raise Misdeclared(mistakes.found)
    return Catalog(pack, kernels)


def check(pack: Pack) -> tuple[Checked, tuple[Mistake, ...]]:
    """Everything that can be found wrong without running or compiling, and what was looked at."""
    mistakes = Mistakes()
    kernels = _read(pack, mistakes)
    shapes = refused = 0
    for kernel in kernels.values():
        for case in quick_cases(kernel):
            planned = _plans(kernel, case, mistakes)
            shapes, refused = shapes + planned, refused + (not planned)
    steps = sum(len(kernel.declaration.steps) for kernel in kernels.values())
    return Checked(len(kernels), steps, shapes, refused), mistakes.found


def _read(pack: Pack, mistakes: Mistakes) -> dict[str, DeclaredKernel]:
    if not pack.declarations:
        mistakes.add(
            Place("."), "no declaration: a catalog has a .toml file per kernel; farm catalog new writes one"
        )
    kernels: dict[str, DeclaredKernel] = {}
    for file in pack.declarations:
        declaration = reading.read(pack, file, mistakes)
        if declaration is None:
            continue
        place, name = Place(file, declaration.place.line), declaration.id
        if name in registry.built_in():
            mistakes.add(
                place, f"name {declaration.name!r}: the farm has a kernel {name} of its own; choose another"
            )
        elif name in kernels:
            first = kernels[name].declaration.place
            mistakes.add(place, f"name {declaration.name!r}: {first} declares {name} already; choose another")
        else:
            kernels[name] = DeclaredKernel(declaration, pack)
            _look_into(kernels[name], mistakes)
    return kernels


def quick_cases(kernel: DeclaredKernel) -> Iterator[Case]:
    """Every shape and layout of the op's quick tier for every kind, once."""
    op = kernel.judged_op
    for kinds in [(kind,) * len(op.matrices) for kind in kernel.declaration.kinds] or [()]:
        for workload in op.quick(tuple(map(registry.kind, kinds))):
            drawn = Seeded(workload.families[0], 0, FIXTURE_VERSION)
            scalars = dict(op.scalars_of(kinds)) | dict(workload.scalars)
            yield Case(
                op.name, kernel.name, kinds, workload.shape, drawn, drawn, Build.EXACT, workload.layout,
                tuple(sorted(scalars.items())), kernel.x_dtype, kernel.out_dtype, kernel.packing,
            )  # fmt: skip


def _plans(kernel: DeclaredKernel, case: Case, mistakes: Mistakes) -> bool:
    """Whether a case is planned rather than refused; what goes wrong is a mistake, with its case."""
    with registry.searching({kernel.id: kernel}):
        if kernel.judged_op.refuses(case) or kernel.refuses(case):
            return False
    try:
        kernel.plan(case)
    except Misdeclared as error:
        known = {one.place for one in mistakes.found}
        for one in error.mistakes:
            if one.place not in known:
                mistakes.add(one.place, f"{one.text} (for {' '.join((*case.kinds[:1], str(case.shape)))})")
    return True


def _look_into(kernel: DeclaredKernel, mistakes: Mistakes) -> None:
    """Texts, entry points and the twin of one kernel, for all of its kinds."""
    for kind in kernel.declaration.kinds or ("",):
        for step in kernel.declaration.steps:
            entry = step.entry_point(kind)
            if entry is None:
                continue
            if entry.is_cubin:
                _look_into_cubin(kernel.pack, entry, mistakes)
            else:
                _look_into_text(kernel, kind, step, entry, mistakes)
    _look_into_twin(kernel, mistakes)


def _look_into_cubin(pack: Pack, entry: EntryPoint, mistakes: Mistakes) -> None:
    content = pack.by_path[entry.file]
    if not arch(content):
        mistakes.add(
            entry.place, f"{entry.file} is no cubin: it begins with {content[:4]!r}; nvcc -cubin makes one"
        )


def _look_into_text(
    kernel: DeclaredKernel, kind: str, step: StepOf, entry: EntryPoint, mistakes: Mistakes
) -> None:
    """Whether the entry is there and takes the arguments that the step gives."""
    try:
        text = kernel.unit(kind, entry.file).text
    except Misdeclared as error:
        for one in error.mistakes:
            mistakes.add(one.place, one.text)
        return
    found = signature.signatures(text)
    name = entry.symbol.partition("<")[0].rpartition("::")[2]
    named = [one for one in found if one.name == units.filled(name, registry.kind(kind) if kind else None)]
    if not named:
        if not signature.by_macro(text):
            known = [one.name for one in found]
            mistakes.add(entry.place, no_such(f"__global__ function in {entry.file}", name, known))
        return
    if not any(len(one.parameters) == len(step.args) for one in named):
        got, want = len(step.args), len(named[0].parameters)
        mistakes.add(step.args_place, f"args has {got}, {named[0]} takes {want}; name one for each parameter")
        return
    fitting = next(one for one in named if len(one.parameters) == len(step.args))
    for number, (argument, parameter) in enumerate(zip(step.args, fitting.parameters, strict=True)):
        if not parameter.takes(argument.dtype):
            given = f"a value of type {argument.dtype}" if argument.dtype else f"buffer {argument.buffer!r}"
            text = f"argument {number} is {given}, {fitting.name} takes {parameter.text!r}"
            mistakes.add(argument.place, f"{text}; give it a dtype of that size" if argument.dtype else text)


def _look_into_twin(kernel: DeclaredKernel, mistakes: Mistakes) -> None:
    """Whether the twin's file is Python and has its function; nothing of it is run."""
    if (twin := kernel.declaration.twin) is None:
        return
    try:
        tree = ast.parse(units.decoded(kernel.pack, twin.file))
    except SyntaxError as error:
        mistakes.add(Place(twin.file, error.lineno or 1, error.offset or 0), f"no Python: {error.msg}")
        return
    except Misdeclared as error:
        mistakes.add(error.mistakes[0].place, error.mistakes[0].text)
        return
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    if twin.function not in functions:
        mistakes.add(twin.place, no_such(f"function in {twin.file}", twin.function, functions))
    elif len(functions[twin.function].args.args) != 1:
        line = functions[twin.function].lineno
        mistakes.add(Place(twin.file, line), f"{twin.function} should take one argument, the step")
