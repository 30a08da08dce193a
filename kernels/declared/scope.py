"""The names that a declaration may use: buffers, scalars and sizes of its op and its own."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from kernels import packing, registry, tensor_scale
from kernels.declared.declaration import VALUE_DTYPES
from kernels.declared.expression import FUNCTIONS, names
from kernels.declared.mistake import Place, no_such
from kernels.declared.table import Formula, Table
from kernels.kind import WARP
from kernels.model import Build, Case, Seeded
from kernels.op import JudgedOp, Matrix, Operand, Vector

CONSTANTS = {"warp": WARP}
OF_KINDS = ("block_bytes", "block_elements")  # of the kind, as GGML packs it
# Bytes from row to row, those of them behind a row's last block, blocks in a row, activation vectors.
OF_MATRICES = ("row_bytes", "row_padding", "blocks", "batch")


class Scope:
    """Filled while a declaration is read, in its order."""

    def __init__(self, op: JudgedOp, kinds: tuple[str, ...], layout: str) -> None:
        self.op = op
        self.kinds = kinds
        self.layout = layout
        self.scratch: list[str] = []
        self.replaced = ""  # the input whose place the output takes
        matrices = (*OF_KINDS, *OF_MATRICES) if op.matrices else ()
        axes = [axis.name for axis in op.axes]
        self.sizes: list[str] = list(dict.fromkeys((*axes, *matrices, *CONSTANTS)))

    @property
    def _any_kinds(self) -> tuple[str, ...]:
        """One of the kernel's kinds for every matrix; any where none of those it names is known."""
        return (self.kinds or tuple(registry.kinds()))[:1] * len(self.op.matrices)

    @cached_property
    def _operands(self) -> tuple[Operand, ...]:
        """Of any case of the op: names and what they are don't depend on the shape."""
        kinds = self._any_kinds
        workload = self.op.quick(tuple(map(registry.kind, kinds)))[0]
        drawn = Seeded("ordinary", 0, 1)
        scalars = dict(self.op.scalars_of(kinds)) | dict(workload.scalars)
        return self.op.operands(
            Case(
                self.op.name,
                "",
                kinds,
                workload.shape,
                drawn,
                drawn,
                Build.EXACT,
                scalars=tuple(scalars.items()),
            )
        )

    @property
    def inputs(self) -> list[str]:
        """The op's operands by name."""
        return [operand.name for operand in self._operands]

    @property
    def activations(self) -> list[str]:
        return [part.name for part in self._operands if isinstance(part, Vector) and not part.weights]

    @property
    def output_dtypes(self) -> tuple[str, ...]:
        """The types that an output may have, the usual one first: numbers, or what a quantizer writes."""
        written = {kernel.out_dtype for kernel in registry.built_in().values() if kernel.op == self.op.name}
        return VALUE_DTYPES if written & set(VALUE_DTYPES) or not written else tuple(sorted(written))

    @property
    def weights(self) -> list[str]:
        """Buffers of matrices and norm weights: what set-up steps may read."""
        vectors = [part.name for part in self._operands if isinstance(part, Vector) and part.weights]
        return [*self.matrices, *vectors]

    @property
    def matrices(self) -> list[str]:
        """The buffers of quantized matrices, part by part where they are in a layout."""
        found = [part.name for part in self._operands if isinstance(part, Matrix)]
        if not self.layout:
            return found
        parts = registry.layout(self.layout).parts
        return [packing.part_name(name, part.name) for name in found for part in parts]

    @property
    def buffers(self) -> list[str]:
        """What an argument may point at."""
        others = [part.name for part in self._operands if not isinstance(part, Matrix)]
        return [*self.matrices, *others, "out", *self.scratch]

    @property
    def scalars(self) -> list[str]:
        """Of the op and, where it has matrices, their tensors' scales: 1 for kinds without one."""
        of_op = [name for name, _ in self.op.scalars_of(self._any_kinds)]
        return list(dict.fromkeys((*of_op, *map(tensor_scale.name_of, self.op.matrices))))

    @property
    def is_linear(self) -> bool:
        """Whether the op is one matrix times activations and nothing else."""
        return [type(part) for part in self._operands] == [Matrix, Vector]

    def knows(self, name: str) -> bool:
        """Whether a name is taken."""
        return name in (*self.buffers, *self.inputs, *self.scalars, *self.sizes, *FUNCTIONS)

    def checked(self, table: Table, formula: Formula | None) -> Formula | None:
        """The formula if every name in it is a size; else None, with a mistake for each that isn't."""
        if formula is None:
            return None
        unknown = [name for name in names(formula.tree) if name.name not in self.sizes]
        for name in unknown:
            at = Place(formula.place.file, formula.place.line, name.column)
            table.mistakes.add(at, f"in {formula.text!r}: {self.no_size(name.name)}")
        return None if unknown else formula

    def no_size(self, name: str, more: Iterable[str] = ()) -> str:
        return no_such("size", name, [*self.sizes, *more])
