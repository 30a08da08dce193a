"""Makes cases from the weights of a GGUF file, and says of every tensor without one why it has none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kernels import catalog, registry
from kernels.inputs import FIXTURE_VERSION
from kernels.model import Build, Case, FromFile, Seeded, Shape
from kernels.op import Op
from workers.files import Held
from workers.gguf_file import Tensor

DEFAULT_ROWS = 512


@dataclass(frozen=True)
class Choice:
    """What is wanted of a file's tensors."""

    kernels: tuple[str, ...]  # ids; those of ops that no tensor fits make no case
    kinds: tuple[str, ...]  # in capitals
    builds: tuple[Build, ...]
    families: tuple[str, ...] = ("ordinary",)  # of the activations
    seed: int = 1
    rows: int = DEFAULT_ROWS  # a matrix with more rows is sampled
    batch: int = 0  # tokens for mul_mm; 0 makes no mul_mm case


@dataclass(frozen=True)
class Listed:
    """A tensor, or a layer's ffn or multi_matvec, that makes no case."""

    name: str
    reason: str


@dataclass(frozen=True)
class Layer:
    """The tensors of one layer that an op takes together, in the order of its matrices."""

    prefix: str  # blk.7
    op: Op
    tensors: tuple[Tensor, ...]

    @property
    def name(self) -> str:
        return f"{self.prefix}.{self.op.name}"

    @property
    def shape(self) -> Shape | None:
        return self.op.shape_of(tuple((tensor.rows, tensor.cols) for tensor in self.tensors))

    def why_not(self, kinds: tuple[str, ...]) -> str:
        """Its first kind without kernels, or sizes that don't fit one another; empty if it makes cases."""
        if missing := [tensor.kind for tensor in self.tensors if tensor.kind not in kinds]:
            return f"no kernels for {missing[0]}"
        if self.shape:
            return ""
        named = zip(self.op.matrices, self.tensors, strict=True)
        return f"sizes don't fit one another: {', '.join(f'{name} {t.rows}x{t.cols}' for name, t in named)}"


def cases(held: Held, choice: Choice) -> tuple[Case, ...]:
    """matvec and mul_mm for every matrix of a wanted kind, ffn and multi_matvec for every layer of such."""
    wanted = [tensor for tensor in held.tensors if not _why_not(tensor, choice.kinds)]
    found = [case for tensor in wanted for case in _matrix_cases(held.sha256, tensor, choice)]
    for layer in layers(held.tensors):
        if not layer.why_not(choice.kinds):
            found += _layer_cases(held.sha256, layer, choice)
    return tuple(found)


def listed(held: Held, kinds: Iterable[str]) -> tuple[Listed, ...]:
    """Every tensor and every layer that no kernel of `kinds` can take, with the reason."""
    names = tuple(kinds)
    tensors = [Listed(t.name, reason) for t in held.tensors if (reason := _why_not(t, names))]
    found = [Listed(one.name, reason) for one in layers(held.tensors) if (reason := one.why_not(names))]
    return (*tensors, *found)


def _why_not(tensor: Tensor, kinds: tuple[str, ...]) -> str:
    return "" if tensor.kind in kinds else f"no kernels for {tensor.kind}"


def layers(tensors: Iterable[Tensor]) -> Iterator[Layer]:
    """For every op that takes a layer's tensors, the layers that have all of them, in the file's order."""
    by_name = {tensor.name: tensor for tensor in tensors}
    for op in registry.ops().values():
        endings = [f".{name}.weight" for name in op.layer]
        for name in by_name if endings else ():
            prefix = name.removesuffix(endings[0])
            parts = [by_name.get(prefix + ending) for ending in endings]
            if prefix != name and all(parts):
                yield Layer(prefix, op, tuple(part for part in parts if part))


def _matrix_cases(sha256: str, tensor: Tensor, choice: Choice) -> Iterator[Case]:
    rows = min(choice.rows, tensor.rows) if choice.rows else tensor.rows
    weights = FromFile(sha256, (tensor.name,), rows if rows < tensor.rows else 0)
    yield from _cases("matvec", (tensor.kind,), Shape.of(rows=rows, cols=tensor.cols), weights, choice)
    if choice.batch:
        shape = Shape.of(rows=rows, cols=tensor.cols, batch=choice.batch)
        yield from _cases("mul_mm", (tensor.kind,), shape, weights, choice)


def _layer_cases(sha256: str, layer: Layer, choice: Choice) -> Iterator[Case]:
    assert layer.shape is not None  # callers have asked why_not
    weights = FromFile(sha256, tuple(tensor.name for tensor in layer.tensors))
    kinds = tuple(tensor.kind for tensor in layer.tensors)
    yield from _cases(layer.op.name, kinds, layer.shape, weights, choice)


def _cases(
    op: str, kinds: tuple[str, ...], shape: Shape, weights: FromFile, choice: Choice
) -> Iterator[Case]:
    for kernel_id in choice.kernels:
        kernel = registry.kernel(kernel_id)
        if kernel.op != op or not kernel.serves(kinds):
            continue
        for family in choice.families:
            x = Seeded(family, choice.seed, FIXTURE_VERSION)
            for build in catalog.builds_of(kernel, choice.builds):
                yield Case(
                    op, kernel.name, kinds, shape, weights, x, build,
                    scalars=registry.op(op).scalars_of(kinds),
                    x_dtype=kernel.x_dtype, out_dtype=kernel.out_dtype, packing=kernel.packing,
                )  # fmt: skip
