"""From the words of `farm run` to one case: a kernel and a shape, arrays, a file's tensors, or JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from farm import gguf_cases
from kernels import catalog, codec, registry, tensor_scale
from kernels.errors import UsageError
from kernels.inputs import FIXTURE_VERSION
from kernels.kind import Kind
from kernels.model import Build, Case, FromFile, Seeded, Shape, Source
from kernels.op import Kernel, Op, Vector
from workers.files import FileStore, Held, held_tensor, load_npy, sample_rows
from workers.gguf_file import Tensor


@dataclass(frozen=True)
class Words:
    """What the command line said; empty where it said nothing."""

    kernel: str
    rest: tuple[str, ...] = ()  # KIND SHAPE, KIND, SHAPE or nothing
    build: Build = Build.EXACT
    family: str = "ordinary"
    seed: int = 0
    weights: str = ""  # .npy of blocks
    x: str = ""  # .npy of activations
    gguf: str = ""
    tensors: tuple[str, ...] = ()
    rows: int = 0  # sampled of a file's tensor; 0 takes all
    batch: int = 0  # tokens, where the op has a batch; 0 takes those of x, else one


def from_json(text: str) -> Case:
    """The case that `farm show` printed."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--case is no JSON: {error}") from None
    try:
        case = codec.decode(Case, data)
    except codec.CodecError as error:
        raise UsageError(f"--case is no case: {error}") from None
    catalog.check(case)
    return case


def from_words(words: Words, store: FileStore) -> Case:
    """The case of KERNEL and what stands beside it; files are registered, so that a child finds them."""
    kernel = registry.kernel(words.kernel)
    op = registry.op(kernel.op)
    if words.gguf:
        return _from_gguf(words, kernel, op, store)
    if words.weights:
        return _from_blocks(words, kernel, op, store)
    kinds, shape = _kinds_and_shape(words, op)
    return _case(words, kernel, kinds, shape, _seeded(words), op.scalars_of(kinds), store)


def _kinds_and_shape(words: Words, op: Op) -> tuple[tuple[str, ...], Shape]:
    want = f"{op.name} takes {'KIND SHAPE' if op.matrices else 'SHAPE'}, a shape being {catalog.grammar(op)}"
    if len(words.rest) != (2 if op.matrices else 1):
        raise UsageError(f"got {' '.join(words.rest) or 'nothing'} behind {words.kernel}; {want}")
    kinds = _kinds(words.rest[0], op) if op.matrices else ()
    return kinds, catalog.parse_shape(words.rest[-1], op)


def _kinds(text: str, op: Op) -> tuple[str, ...]:
    """Q4_K for every matrix, or one kind each: Q4_K+Q4_K+Q6_K."""
    kinds = tuple(registry.kind(part).name for part in text.split("+"))
    if len(kinds) == 1:
        return kinds * len(op.matrices)
    if len(kinds) != len(op.matrices):
        raise UsageError(
            f"{text} are {len(kinds)} kinds; {op.name} has {len(op.matrices)}: {', '.join(op.matrices)}"
        )
    return kinds


def _from_blocks(words: Words, kernel: Kernel, op: Op, store: FileStore) -> Case:
    if len(op.matrices) != 1 or len(words.rest) != 1:
        got = " ".join((words.kernel, *words.rest))
        raise UsageError(f"--weights goes with KERNEL KIND of an op with one matrix; got {got}")
    kind = registry.kind(words.rest[0])
    blocks = load_npy(Path(words.weights), np.uint8, ndims=(2, 3))
    rows, cols = _size(blocks, kind, words.weights)
    weights = FromFile(store.register(Path(words.weights)).sha256)
    scalars = tensor_scale.given(op, (kind.name,), (tensor_scale.ABSENT,))
    return _case(words, kernel, (kind.name,), _shape(op, words, rows, cols), weights, scalars, store)


def _size(blocks: np.ndarray, kind: Kind, path: str) -> tuple[int, int]:
    """Rows and columns of (rows, blocks, block bytes) or (rows, row bytes)."""
    row_bytes = int(np.prod(blocks.shape[1:]))
    wrong = blocks.ndim == 3 and blocks.shape[2] != kind.block_bytes
    if wrong or row_bytes % kind.block_bytes:
        raise UsageError(
            f"{path}: got uint8 {blocks.shape}, want (rows, blocks, {kind.block_bytes}) for {kind.name}"
        )
    return len(blocks), row_bytes // kind.block_bytes * kind.elements


def _from_gguf(words: Words, kernel: Kernel, op: Op, store: FileStore) -> Case:
    if words.rest or len(words.tensors) != len(op.matrices) or not op.matrices:
        need = (
            f"one --tensor for each of {', '.join(op.matrices)}"
            if op.matrices
            else "a kernel that reads a matrix"
        )
        raise UsageError(f"--gguf takes {words.kernel} alone and {need}")
    held = store.register(Path(words.gguf))
    tensors = [held_tensor(held, name) for name in words.tensors]
    kinds = tuple(registry.kind(tensor.kind).name for tensor in tensors)
    shape, weights = _of_tensors(words, op, held, tensors)
    return _case(words, kernel, kinds, shape, weights, gguf_cases.scalars(op.name, held, tensors), store)


def _of_tensors(words: Words, op: Op, held: Held, tensors: list[Tensor]) -> tuple[Shape, FromFile]:
    """A layer's matrices whole; one alone, or each of its experts, sampled as wanted."""
    if len(tensors) > 1:
        return _layer_shape(op, tensors), FromFile(held.sha256, words.tensors)
    if any(axis.name == "experts" for axis in op.axes):
        return gguf_cases.experts_of(tensors[0], held.sha256, words.rows, _batch(words))
    rows = len(sample_rows(tensors[0].rows, words.rows))
    return _shape(op, words, rows, tensors[0].cols), FromFile(held.sha256, words.tensors, words.rows)


def _layer_shape(op: Op, tensors: list[Tensor]) -> Shape:
    shape = op.shape_of(tuple((tensor.rows, tensor.cols) for tensor in tensors))
    if shape is None:
        sizes = ", ".join(f"{tensor.name} {tensor.rows}x{tensor.cols}" for tensor in tensors)
        raise UsageError(f"no shape of {op.name} has these as {', '.join(op.matrices)}: {sizes}")
    return shape


def _shape(op: Op, words: Words, rows: int, cols: int) -> Shape:
    """rows, cols and, where the op has it, the batch."""
    sizes = {"rows": rows, "cols": cols, "batch": _batch(words)}
    if lacking := [axis.name for axis in op.axes if axis.name not in sizes]:
        raise UsageError(f"a matrix alone has no {lacking[0]}, which {op.name} needs: {catalog.grammar(op)}")
    return Shape(tuple((axis.name, sizes[axis.name]) for axis in op.axes))


def _batch(words: Words) -> int:
    if words.batch or not words.x:
        return words.batch or 1
    x = load_npy(Path(words.x), np.float32, ndims=(1, 2))
    return len(x) if x.ndim == 2 else 1


def _seeded(words: Words) -> Seeded:
    return Seeded(words.family, words.seed, FIXTURE_VERSION)


def _case(
    words: Words, kernel: Kernel, kinds: tuple[str, ...], shape: Shape, weights: Source,
    scalars: tuple[tuple[str, float], ...], store: FileStore,
) -> Case:  # fmt: skip
    x: Source = FromFile(store.register(Path(words.x)).sha256) if words.x else _seeded(words)
    case = Case(
        kernel.op, kernel.name, kinds, shape, weights, x, words.build,
        scalars=scalars, x_dtype=kernel.x_dtype, out_dtype=kernel.out_dtype, packing=kernel.packing,
    )  # fmt: skip
    catalog.check(case)
    if words.x and not registry.op(case.op).refuses(case):
        _demand_activations(words.x, case)
    return case


def _demand_activations(path: str, case: Case) -> None:
    """UsageError where the file's array isn't as large as what the case reads."""
    read = [v for v in registry.op(case.op).operands(case) if isinstance(v, Vector) and not v.weights]
    got = load_npy(Path(path), np.float32, ndims=(1, 2))
    if got.size != sum(prod(vector.shape) for vector in read):
        want = " then ".join(f"{vector.name} {vector.shape}" for vector in read)
        raise UsageError(f"{path}: got float32 {got.shape}, want {want}")
