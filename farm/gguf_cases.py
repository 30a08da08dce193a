"""Makes cases from the weights of a GGUF file, and says of every tensor without one why it has none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kernels import catalog, registry, tensor_scale
from kernels.inputs import FIXTURE_VERSION
from kernels.model import Build, Case, FromFile, Seeded, Shape
from kernels.op import Op
from workers import files
from workers.files import Held
from workers.gguf_file import SCALE, Tensor, scale_name

DEFAULT_ROWS = 512
TOP_K = 2  # experts that a token takes where the file doesn't say
DOWN = "ffn_down_exps"  # reads what gate and up gave: an x of its own for every slot


@dataclass(frozen=True)
class Choice:
    """What is wanted of a file's tensors."""

    kernels: tuple[str, ...]  # ids; those of ops that no tensor fits make no case
    kinds: tuple[str, ...]  # in capitals
    builds: tuple[Build, ...]
    families: tuple[str, ...] = ("ordinary",)  # of the activations
    seed: int = 1
    rows: int = DEFAULT_ROWS  # a matrix with more rows is sampled
    batch: int = 0  # tokens of mul_mm, gemm and mul_mat_id; 0 makes cases of the last alone, for one


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
    """matvec, mul_mm and the like for matrices of a wanted kind, ffn and multi_matvec for layers of such."""
    wanted = [tensor for tensor in held.tensors if not _why_not(held, tensor, choice.kinds)]
    found = [case for tensor in wanted for case in _matrix_cases(held, tensor, choice)]
    for layer in layers(held.tensors):
        if not _layer_why_not(held, layer, choice.kinds):
            found += _layer_cases(held, layer, choice)
    return tuple(found)


def listed(held: Held, kinds: Iterable[str]) -> tuple[Listed, ...]:
    """Every tensor and every layer that no kernel of `kinds` can take, with the reason."""
    names = tuple(kinds)
    tensors = [Listed(t.name, reason) for t in held.tensors if (reason := _why_not(held, t, names))]
    found = [
        Listed(layer.name, reason)
        for layer in layers(held.tensors)
        if (reason := _layer_why_not(held, layer, names))
    ]
    return (*tensors, *found)


def _why_not(held: Held, tensor: Tensor, kinds: tuple[str, ...]) -> str:
    """A tensor's reason: unknown, a scale itself, no kernels, no matrix, or with a scale that none takes."""
    if tensor.unknown:
        return tensor.unknown
    if weights := _scaled_by(held, tensor):
        return f"the scale of {weights}, an argument of its kernels"
    if tensor.kind not in kinds:
        return f"no kernels for {tensor.kind}"
    if tensor.dims == 1:
        return "one dimension: norm weights or a bias, not a matrix"
    scale = files.scale_tensor(held, tensor.name) if _has_scale(tensor.kind) else None
    return files.scale_fault(scale) if scale else ""


def _scaled_by(held: Held, tensor: Tensor) -> str:
    """The weights whose scale this tensor is; empty if it is none, or one that their kind doesn't take."""
    if not tensor.name.endswith(SCALE):
        return ""
    named = (other for other in held.tensors if scale_name(other.name) == tensor.name)
    return next((other.name for other in named if _has_scale(other.kind)), "")


def _has_scale(kind: str) -> bool:
    return kind in registry.kinds() and registry.kind(kind).tensor_scale


def _layer_why_not(held: Held, layer: Layer, kinds: tuple[str, ...]) -> str:
    """A layer's reason: its tensors' first one, or its own."""
    reasons = (_why_not(held, tensor, kinds) for tensor in layer.tensors)
    return next(filter(None, reasons), "") or layer.why_not(kinds)


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


def _matrix_cases(held: Held, tensor: Tensor, choice: Choice) -> Iterator[Case]:
    rows = min(choice.rows, tensor.rows) if choice.rows else tensor.rows
    weights = FromFile(held.sha256, (tensor.name,), rows if rows < tensor.rows else 0)
    yield from _cases("matvec", held, (tensor,), Shape.of(rows=rows, cols=tensor.cols), weights, choice)
    if choice.batch:
        shape = Shape.of(rows=rows, cols=tensor.cols, batch=choice.batch)
        for op in ("mul_mm", "gemm"):
            yield from _cases(op, held, (tensor,), shape, weights, choice)
    if tensor.experts > 1:
        rows = max(1, choice.rows // tensor.experts) if choice.rows else 0
        shape, weights = experts_of(tensor, held.sha256, rows, choice.batch or 1)
        yield from _cases("mul_mat_id", held, (tensor,), shape, weights, choice)


def experts_of(tensor: Tensor, sha256: str, rows: int, tokens: int) -> tuple[Shape, FromFile]:
    """A mixture's shape and weights with `rows` rows of every expert, evenly spaced; 0 takes all."""
    every = tensor.rows // tensor.experts
    taken = min(rows or every, every)
    top_k = min(tensor.experts, tensor.top_k or TOP_K)
    shape = Shape.of(
        rows=taken, cols=tensor.cols, experts=tensor.experts, top_k=top_k, tokens=tokens,
        x_rows=top_k if DOWN in tensor.name else 1,
    )  # fmt: skip
    return shape, FromFile(sha256, (tensor.name,), taken * tensor.experts if taken < every else 0)


def _layer_cases(held: Held, layer: Layer, choice: Choice) -> Iterator[Case]:
    assert layer.shape is not None  # callers have asked why_not
    weights = FromFile(held.sha256, tuple(tensor.name for tensor in layer.tensors))
    yield from _cases(layer.op.name, held, layer.tensors, layer.shape, weights, choice)


def scalars(op_name: str, held: Held, tensors: Sequence[Tensor]) -> tuple[tuple[str, float], ...]:
    """The op's scalars over these matrices, the scales of whole tensors as the file has them."""
    scales = [
        files.tensor_scale(held, tensor.name) if _has_scale(tensor.kind) else tensor_scale.ABSENT
        for tensor in tensors
    ]
    kinds = tuple(tensor.kind for tensor in tensors)
    return tensor_scale.given(registry.op(op_name), kinds, scales)


def _cases(
    op: str, held: Held, tensors: tuple[Tensor, ...], shape: Shape, weights: FromFile, choice: Choice
) -> Iterator[Case]:
    kinds = tuple(tensor.kind for tensor in tensors)
    for kernel_id in choice.kernels:
        kernel = registry.kernel(kernel_id)
        if kernel.op != op or not kernel.serves(kinds):
            continue
        for family in choice.families:
            x = Seeded(family, choice.seed, FIXTURE_VERSION)
            for build in catalog.builds_of(kernel, choice.builds):
                yield Case(
                    op, kernel.name, kinds, shape, weights, x, build,
                    scalars=scalars(op, held, tensors),
                    x_dtype=kernel.x_dtype, out_dtype=kernel.out_dtype, packing=kernel.packing,
                )  # fmt: skip
