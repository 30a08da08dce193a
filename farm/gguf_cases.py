"""Makes cases from the weights of a GGUF file, and says of every tensor without one why it has none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kernels import registry
from kernels.inputs import FIXTURE_VERSION
from kernels.model import Build, Case, FromFile, Seeded, Shape
from workers.files import Held
from workers.gguf_file import Tensor

DEFAULT_ROWS = 512
FFN = ("gate", "up", "down")  # the order of the op's matrices
FFN_TENSOR = re.compile(rf"(?P<layer>.+)\.ffn_(?P<part>{'|'.join(FFN)})\.weight")


@dataclass(frozen=True)
class Choice:
    """What is wanted of a file's tensors."""

    kernels: tuple[str, ...]  # ids; those of other ops than matvec, mul_mm and ffn make no case
    kinds: tuple[str, ...]  # in capitals
    builds: tuple[Build, ...]
    families: tuple[str, ...] = ("ordinary",)  # of the activations
    seed: int = 1
    rows: int = DEFAULT_ROWS  # a matrix with more rows is sampled
    batch: int = 0  # tokens for mul_mm; 0 makes no mul_mm case


@dataclass(frozen=True)
class Listed:
    """A tensor, or a layer's ffn, that makes no case."""

    name: str
    reason: str


def cases(held: Held, choice: Choice) -> tuple[Case, ...]:
    """matvec and mul_mm for every matrix of a wanted kind, ffn for every layer whose three matrices are."""
    wanted = [tensor for tensor in held.tensors if not _why_not(tensor, choice.kinds)]
    found = [case for tensor in wanted for case in _matrix_cases(held.sha256, tensor, choice)]
    for layer in _layers(held.tensors):
        if not _layer_why_not(layer, choice.kinds):
            found += _ffn_cases(held.sha256, layer, choice)
    return tuple(found)


def listed(held: Held, kinds: Iterable[str]) -> tuple[Listed, ...]:
    """Every tensor and every ffn layer that no kernel of `kinds` can take, with the reason."""
    names = tuple(kinds)
    tensors = [Listed(t.name, reason) for t in held.tensors if (reason := _why_not(t, names))]
    layers = [
        Listed(_layer_name(layer), reason)
        for layer in _layers(held.tensors)
        if (reason := _layer_why_not(layer, names))
    ]
    return (*tensors, *layers)


def _why_not(tensor: Tensor, kinds: tuple[str, ...]) -> str:
    return "" if tensor.kind in kinds else f"no kernels for {tensor.kind}"


def _layer_why_not(layer: tuple[Tensor, ...], kinds: tuple[str, ...]) -> str:
    """An ffn's reason: its first kind without kernels, or sizes that don't fit one another."""
    if missing := [tensor.kind for tensor in layer if tensor.kind not in kinds]:
        return f"no kernels for {missing[0]}"
    gate, up, down = layer
    if (gate.rows, gate.cols) == (up.rows, up.cols) == (down.cols, down.rows):
        return ""
    sizes = ", ".join(f"{part} {t.rows}x{t.cols}" for part, t in zip(FFN, layer, strict=True))
    return f"sizes don't fit: {sizes}; gate and up must be alike and down the other way round"


def _layers(tensors: Iterable[Tensor]) -> Iterator[tuple[Tensor, ...]]:
    """Gate, up and down of every layer that has all three, in the file's order."""
    found: dict[str, dict[str, Tensor]] = {}
    for tensor in tensors:
        if match := FFN_TENSOR.fullmatch(tensor.name):
            found.setdefault(match["layer"], {})[match["part"]] = tensor
    for parts in found.values():
        if len(parts) == len(FFN):
            yield tuple(parts[part] for part in FFN)


def _layer_name(layer: tuple[Tensor, ...]) -> str:
    return layer[0].name.replace("_gate.weight", "")


def _matrix_cases(sha256: str, tensor: Tensor, choice: Choice) -> Iterator[Case]:
    rows = min(choice.rows, tensor.rows) if choice.rows else tensor.rows
    weights = FromFile(sha256, (tensor.name,), rows if rows < tensor.rows else 0)
    yield from _cases("matvec", (tensor.kind,), Shape.of(rows=rows, cols=tensor.cols), weights, choice)
    if choice.batch:
        shape = Shape.of(rows=rows, cols=tensor.cols, batch=choice.batch)
        yield from _cases("mul_mm", (tensor.kind,), shape, weights, choice)


def _ffn_cases(sha256: str, layer: tuple[Tensor, ...], choice: Choice) -> Iterator[Case]:
    shape = Shape.of(hidden=layer[0].cols, inner=layer[0].rows)
    weights = FromFile(sha256, tuple(tensor.name for tensor in layer))
    yield from _cases("ffn", tuple(tensor.kind for tensor in layer), shape, weights, choice)


def _cases(
    op: str, kinds: tuple[str, ...], shape: Shape, weights: FromFile, choice: Choice
) -> Iterator[Case]:
    for kernel_id in choice.kernels:
        kernel = registry.kernel(kernel_id)
        if kernel.op != op or not kernel.serves(kinds):
            continue
        for family in choice.families:
            x = Seeded(family, choice.seed, FIXTURE_VERSION)
            for build in choice.builds:
                yield Case(
                    op, kernel.name, kinds, shape, weights, x, build,
                    scalars=registry.op(op).scalars_of(kinds),
                    x_dtype=kernel.x_dtype, out_dtype=kernel.out_dtype, packing=kernel.packing,
                )  # fmt: skip
