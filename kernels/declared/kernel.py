"""A declared kernel: the same contract as a built-in one, made of a declaration and the files of its pack."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from kernels import registry, source
from kernels.compare import U
from kernels.declared import activations, buffers, twin, units
from kernels.declared.cubin import arch
from kernels.declared.declaration import DTYPES, Argument, ComputesOn, Declaration, EntryPoint, Range, StepOf
from kernels.declared.limits import demand_launch
from kernels.declared.mistake import Misdeclared
from kernels.declared.pack import CUBIN, Pack
from kernels.declared.scope import CONSTANTS
from kernels.declared.units import Unit
from kernels.errors import FarmError
from kernels.model import (
    Arg,
    Buffer,
    BufferArg,
    Build,
    Case,
    Device,
    Grid,
    Launch,
    Layout,
    Options,
    Plan,
    ScalarArg,
)
from kernels.op import JudgedOp, Matrix, SelfContained, Step, Truth
from kernels.tensor_scale import ABSENT

ONE: Grid = (1, 1, 1)


class DeclaredKernel(SelfContained):
    """Its `id` is op/name, as that of any kernel; everything else comes from the declaration."""

    builds = (Build.EXACT, Build.DEFAULT, Build.DECLARED)

    def __init__(self, declaration: Declaration, pack: Pack) -> None:
        self.declaration = declaration
        self.pack = pack
        self.op, self.name = declaration.op, declaration.name
        self.x_dtype, self.out_dtype = declaration.x_dtype, declaration.output.dtype
        self.packing, self.arithmetic = declaration.layout, declaration.arithmetic
        rounds = any(how is not ComputesOn.X for how in declaration.computes_on.values())
        self.own_truth = rounds or declaration.tolerance is not None
        self._units: dict[tuple[str, str], Unit] = {}
        self._twin: Callable[[Step], Any] | None = None

    @property
    def judged_op(self) -> JudgedOp:
        op = registry.op(self.op)
        assert isinstance(op, JudgedOp)  # no other op can be declared
        return op

    def twinless(self) -> DeclaredKernel:
        """The same kernel as the oracle alone judges it."""
        return DeclaredKernel(replace(self.declaration, twin=None), self.pack)

    def undeclared(self) -> DeclaredKernel:
        """The same kernel, allowed what the farm allows where a declaration says nothing, without a twin."""
        silent = replace(self.declaration, twin=None, tolerance=None, accumulates=None)
        return DeclaredKernel(silent, self.pack)

    def serves(self, kinds: tuple[str, ...]) -> bool:
        return not kinds or all(kind in self.declaration.kinds for kind in kinds)

    def parts(self, kinds: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
        return ((self.id, kinds[0] if kinds else ""),)

    def refuses(self, case: Case) -> str:
        try:
            given = buffers.inputs(self.declaration, self.judged_op, case)
            sizes = self.sizes(case, given)
        except Misdeclared:  # the plan says so
            return ""
        for name, wanted in self.declaration.constraints.sizes.items():
            if reason := _out_of_range(name, sizes[name], wanted):
                return reason
        return self._misaligned(given)

    def _misaligned(self, given: tuple[Buffer, ...]) -> str:
        for buffer in given:
            operand = buffer.packing.matrix if buffer.packing else buffer.name
            align = self.declaration.constraints.align.get(operand, 1)
            pitch = buffer.strides[0] if len(buffer.shape) > 1 and buffer.shape[0] > 1 else 0
            for what, value in (("offset", buffer.offset), ("row pitch", pitch)):
                if value % align:
                    return (
                        f"{what} of {buffer.name}: got {value} bytes, want a multiple of {align}, as declared"
                    )
        return ""

    def refuses_device(self, device: Device, executes: bool) -> str:
        sm = dict(device.fingerprint).get("sm", "")
        least = self.declaration.constraints.sm
        if sm and int(sm.removeprefix("sm_")) < least:
            return f"{self.id} is declared for sm_{least} and newer, this device is {sm}"
        for step in self.declaration.steps:
            for entry in step.entry_points.values():
                if entry.is_cubin and (reason := self._refuses_cubin(entry, sm, executes, device)):
                    return reason
        return ""

    def _refuses_cubin(self, entry: EntryPoint, sm: str, executes: bool, device: Device) -> str:
        built_for = arch(self.pack.by_path[entry.file])
        what = f"{entry.place}: {entry.file} is a cubin for {built_for}"
        if not executes:
            return f"{what}: there is nothing to compile, it needs a device"
        if not sm:
            return f"{what}: it needs a device, this is {device.name}"
        return f"{what}, this device is {sm}; build it for {sm}" if sm != built_for else ""

    def sizes(self, case: Case, given: tuple[Buffer, ...]) -> dict[str, int]:
        """What expressions may read, for one case; Misdeclared where a derived size can't be computed."""
        sizes = dict(case.shape.axes) | CONSTANTS
        for operand in self.judged_op.operands(case):
            if isinstance(operand, Matrix):
                sizes |= _of_matrix(operand, case.layout) | {"batch": _batch(given), **dict(case.shape.axes)}
                break
        for name, formula in self.declaration.axes:
            sizes[name] = formula.value(sizes)
        return sizes

    def plan(self, case: Case) -> Plan:
        """Misdeclared, with file and line, where a size can't be computed or no device launches it."""
        given = buffers.inputs(self.declaration, self.judged_op, case)
        sizes = self.sizes(case, given)
        memory = buffers.with_output(self.declaration, self.judged_op, case, given)
        own = tuple(buffers.scratch(one, sizes) for one in self.declaration.scratch)
        scalars, kind = dict(case.scalars), case.kinds[0] if case.kinds else ""
        build = self.declaration.build
        return Plan(
            (*memory, *own),
            tuple(self._launch(step, kind, sizes, scalars) for step in self.declaration.steps),
            case.build,
            judged_as=(self._judged_as(kind, given, sizes, scalars),),
            setup=self.declaration.setup,
            deterministic=self.declaration.output.deterministic,
            options=Options(build.std, build.flags if case.build == Build.DECLARED else ()),
        )

    def _launch(self, step: StepOf, kind: str, sizes: dict[str, int], scalars: dict[str, float]) -> Launch:
        entry = step.entry_point(kind)
        assert entry is not None  # a declaration has one for each of its kinds
        launch = Launch(
            self.id,
            kind,
            units.filled(entry.symbol, registry.kind(kind) if kind else None),
            tuple(self._argument(one, sizes, scalars) for one in step.args),
            _three([side.value(sizes) for side in step.grid]),
            _three([side.value(sizes) for side in step.block]),
            step.shared.value(sizes) if step.shared else 0,
            unit=entry.file,
        )
        demand_launch(launch, step)
        return launch

    def _argument(self, argument: Argument, sizes: dict[str, int], scalars: dict[str, float]) -> Arg:
        if argument.buffer:
            return BufferArg(argument.buffer, self._buffer(argument.buffer))
        dtype = DTYPES[argument.dtype]
        if argument.scalar:
            return ScalarArg(argument.scalar, dtype, scalars.get(argument.scalar, ABSENT))
        if isinstance(argument.value, float):
            return ScalarArg("value", dtype, argument.value)
        assert argument.value is not None  # one of the four
        return ScalarArg(argument.value.text, dtype, argument.value.value(sizes))

    def _buffer(self, role: str) -> str:
        """The buffer of a role: the output may be an input's."""
        return self.declaration.output.inout or role if role == "out" else role

    def _judged_as(
        self, kind: str, given: tuple[Buffer, ...], sizes: dict[str, int], scalars: dict[str, float]
    ) -> Launch:
        """The op as one launch; sizes are among its scalars, for `chain` and the twin."""
        pointers = tuple(BufferArg(buffer.name, buffer.name) for buffer in given)
        numbers = tuple(ScalarArg(name, "f4", value) for name, value in scalars.items())
        whole = tuple(ScalarArg(name, "i8", value) for name, value in sizes.items() if name not in scalars)
        out = BufferArg("out", self._buffer("out"))
        return Launch(self.id, kind, "", (*pointers, out, *numbers, *whole), ONE, ONE)

    def chain(self, step: Step) -> int:
        """As declared, else the longest that can be: one addition after another."""
        if (formula := self.declaration.accumulates) is None:
            return max(int(array.shape[-1]) for array in step.arrays.values() if array.dtype.kind == "f")
        return max(1, formula.value({name: int(value) for name, value in step.scalars.items()}))

    def truth(self, op: JudgedOp, step: Step) -> Truth:
        """The op's truth over the activations as the kernel rounds them, with the limit that is declared."""
        changed = {name: how for name, how in self.declaration.computes_on.items() if how is not ComputesOn.X}
        truth = self._over(op, step, changed) if changed else op.truth(self, step)
        return self._allowed(self._whole(truth) if self._multiplies_sums else truth)

    @property
    def _multiplies_sums(self) -> bool:
        """Whether scales may meet sums instead of single products."""
        q8_1 = ComputesOn.Q8_1 in self.declaration.computes_on.values()
        return q8_1 or (self.arithmetic == "factored" and bool(self.judged_op.matrices))

    def _whole(self, truth: Truth) -> Truth:
        """A twin, or nobody, judges what is no number: Inf times 0, term by term, may be Inf times a sum."""
        odd = ~np.isfinite(truth.want)
        return replace(
            truth,
            want=np.where(odd, 0.0, truth.want),
            limit=np.where(odd, 0.0, truth.limit),
            by_twin=truth.by_twin | odd,
        )

    def _over(self, op: JudgedOp, step: Step, changed: Mapping[str, ComputesOn]) -> Truth:
        """The truth over rounded activations; what left their type's range is the twin's."""
        given = {name: activations.rounded(step.arrays[name], how) for name, how in changed.items()}
        arrays: dict[str, np.ndarray] = {}
        arrays |= {name: np.where(one.lost[..., None], 0.0, one.x) for name, one in given.items()}
        truth = op.truth(self, replace(step, arrays={**step.arrays, **arrays}))
        whole = ComputesOn.Q8_1 in changed.values()
        by_twin = truth.by_twin
        for one in given.values():
            by_twin = by_twin | one.lost[..., None]
        open_ = activations.left_open(step, given["x"]) if whole else 0.0
        return replace(
            truth,
            want=np.where(np.isfinite(truth.want) | ~by_twin, truth.want, 0.0),
            limit=np.where(by_twin, 0.0, truth.limit + open_),
            by_twin=by_twin,
        )

    def _allowed(self, truth: Truth) -> Truth:
        """The limit of a declared tolerance in place of the op's."""
        tolerance = self.declaration.tolerance
        if tolerance is None:
            return truth
        if tolerance.units is None:
            limit = tolerance.absolute + tolerance.relative * np.abs(truth.want)
        elif truth.scale is None:
            raise FarmError(f"{self.op} says no S, so units mean nothing; declare relative and absolute")
        else:
            limit = tolerance.units * U * truth.scale
        return replace(truth, limit=np.where(np.isfinite(limit), limit, 0.0))

    def twin(self, step: Step) -> np.ndarray | None:
        """What the declared twin gives; None where there is none. FarmError outside the isolated child."""
        if (declared := self.declaration.twin) is None:
            return None
        if self._twin is None:
            text = units.decoded(self.pack, declared.file)
            self._twin = twin.load(text, declared.file, declared.function)
        return twin.output(self._twin, step, declared.file)

    def unit(self, kind: str, file: str) -> Unit:
        """The translation unit of one of its files; Misdeclared where an include leads nowhere."""
        if (kind, file) not in self._units:
            of = registry.kind(kind) if kind else None
            self._units[kind, file] = units.unit(self.pack, file, self.declaration.build, of)
        return self._units[kind, file]

    def files(self, kind: str) -> tuple[str, ...]:
        """The files whose entries a case of this kind launches, each once."""
        entries = [step.entry_point(kind) for step in self.declaration.steps]
        return tuple(dict.fromkeys(entry.file for entry in entries if entry))

    def entries(self, kind: str) -> Mapping[str, tuple[str, ...]]:
        """Without cubins, which have no text."""
        found: dict[str, dict[str, None]] = {}
        of = registry.kind(kind) if kind else None
        for step in self.declaration.steps:
            entry = step.entry_point(kind)
            if entry and not entry.is_cubin:
                found.setdefault(entry.file, {})[units.filled(entry.symbol, of)] = None
        return {file: tuple(symbols) for file, symbols in found.items()}

    def cubins(self, kind: str) -> tuple[str, ...]:
        """The cubins that a case of this kind launches."""
        return tuple(file for file in self.files(kind) if file not in self.entries(kind))

    def built(self, unit: str) -> bytes:
        return self.pack.by_path[unit] if unit.endswith(CUBIN) else b""

    def text(self, kind: str, unit: str = "") -> str:
        return "\n".join(self._text(kind, file) for file in ([unit] if unit else self.files(kind)))

    def _text(self, kind: str, file: str) -> str:
        if file.endswith(CUBIN):
            content = self.pack.by_path[file]
            return f"// {file}: a cubin for {arch(content)}, SHA-256 {hashlib.sha256(content).hexdigest()}\n"
        return self.unit(kind, file).text

    def digest(self, kinds: tuple[str, ...], build: Build) -> str:
        texts = [self.text(kind) for _, kind in self.parts(kinds)]
        return _digest(self.frame_digest(kinds, build), *texts)

    def frame_digest(self, kinds: tuple[str, ...], build: Build) -> str:
        declaration = self.declaration
        flags = declaration.build.flags if build == Build.DECLARED else ()
        own = units.decoded(self.pack, declaration.twin.file) if declaration.twin else ""
        return _digest(source.BUILD_MEANS[build], *flags, declaration.told, own, *kinds)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _out_of_range(name: str, value: int, wanted: Range) -> str:
    if wanted.multiple_of and value % wanted.multiple_of:
        return f"{name} {value} is not a multiple of {wanted.multiple_of}, as declared"
    if wanted.least is not None and value < wanted.least:
        return f"{name} {value} is less than {wanted.least}, as declared"
    if wanted.most is not None and value > wanted.most:
        return f"{name} {value} is more than {wanted.most}, as declared"
    return ""


def _of_matrix(matrix: Matrix, layout: Layout) -> dict[str, int]:
    return {
        "block_bytes": matrix.kind.block_bytes,
        "block_elements": matrix.kind.elements,
        "row_bytes": matrix.kind.row_bytes(matrix.cols) + layout.row_padding,
        "row_padding": layout.row_padding,
        "blocks": matrix.cols // matrix.kind.elements,
    }


def _batch(given: tuple[Buffer, ...]) -> int:
    """Activation vectors of the case."""
    x = next((buffer for buffer in given if buffer.name == "x"), None)
    return math.prod(x.shape[:-1]) if x else 1


def _three(sides: list[int]) -> Grid:
    x, y, z = (*sides, 1, 1)[:3]
    return x, y, z
