"""Makes a case's inputs again from its seeds, the same bits everywhere: integer arithmetic, exact scaling."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Protocol

import numpy as np

from kernels import packing
from kernels.dtypes import rounded
from kernels.errors import FarmError, UnknownName
from kernels.families import FAMILIES, Drawing, Family, normal, routed, unit_of
from kernels.model import Buffer, Case, FromFile, Plan, Seeded
from kernels.op import Ids, Matrix, Operand, Vector
from kernels.ops._linear import Sizes, refuses_buffers

FIXTURE_VERSION = 1  # raised by whatever changes one byte of any image

BEFORE = 0x7F  # bytes before an offset: NaN as float16, 3.4e38 as float32
BEHIND = 0xFF  # bytes behind rows and activations: NaN as float16 and float32

CHUNK = 1 << 14  # words made at a time: 128 KiB, so that the passes stay in the cache
WORD = (1 << 64) - 1
# The increment and the two multipliers of the splitmix64 generator (Steele, Lea, Flood 2014).
STEP = 0x9E3779B97F4A7C15
MULTIPLIERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


class Unfit(FarmError):
    """A file doesn't hold what the case's shape needs (SKIP); the message says got and want."""


class Files(Protocol):
    """Where file sources are read from: a worker that holds the files."""

    def weights(self, source: FromFile, matrix: int) -> np.ndarray:
        """(rows, packed row bytes) uint8 of the case's weight operand number `matrix`."""

    def activations(self, source: FromFile) -> np.ndarray:
        """float32; where a case reads several arrays, they follow one another."""


def images(
    case: Case, plan: Plan, operands: tuple[Operand, ...], files: Files | None = None
) -> dict[str, np.ndarray]:
    """The memory image of every IN and INOUT buffer, (nbytes,) uint8; equal for cases of equal inputs_key.

    A matrix in a weight layout is drawn, or read, as GGML blocks and then packed.
    Activations are made in float32 and rounded to their buffer's type.
    """
    result = {buffer.name: _blank(buffer) for buffer in plan.buffers if buffer.given}
    arrays = {name: plan.buffer(name).view(image) for name, image in result.items()}
    blocks = packing.blank(plan)
    _fill_weights(case, operands, arrays | blocks, files)
    packing.pack(plan, blocks, arrays)
    _fill_activations(case, operands, arrays, files)
    _fill_ids(case, operands, arrays)
    return result


def digest(inputs: Mapping[str, np.ndarray]) -> str:
    """SHA-256 (hex) over name, size and bytes of every image, in the order of the names."""
    sha = hashlib.sha256()
    for name in sorted(inputs):
        sha.update(f"{name} {inputs[name].nbytes}\n".encode())
        sha.update(np.ascontiguousarray(inputs[name]).data)
    return sha.hexdigest()


def _blank(buffer: Buffer) -> np.ndarray:
    image = np.full(buffer.nbytes, BEHIND, np.uint8)
    image[: buffer.offset] = BEFORE
    return image


def _fill_weights(
    case: Case, operands: tuple[Operand, ...], arrays: dict[str, np.ndarray], files: Files | None
) -> None:
    """Matrices and norm weights, in the operands' order."""
    matrices = _matrices(operands)
    chosen = [
        part for part in operands if isinstance(part, Matrix) or (isinstance(part, Vector) and part.weights)
    ]
    for number, operand in enumerate(chosen):
        into = arrays[operand.name]
        if isinstance(case.weights, FromFile):
            into[...] = _weights_from_file(case.weights, number, operand, files)
        elif isinstance(operand, Matrix):
            _seeded_blocks(case.weights, operand, matrices, into)
        else:
            draws = words(_key(case.weights, operand.name), into.size).reshape(into.shape)
            into[...] = 1 + normal(draws) * np.float32(2.0**-4)


def _fill_activations(
    case: Case, operands: tuple[Operand, ...], arrays: dict[str, np.ndarray], files: Files | None
) -> None:
    vectors = [operand for operand in operands if isinstance(operand, Vector) and not operand.weights]
    if isinstance(case.x, FromFile):
        for vector, values in _activations_from_file(case.x, vectors, _matrices(operands), files):
            arrays[vector.name][...] = rounded(values, arrays[vector.name].dtype)
        return
    matrices = _matrices(operands)
    for vector in vectors:
        arrays[vector.name][...] = rounded(
            _seeded_vector(case.x, vector, matrices), arrays[vector.name].dtype
        )


def _fill_ids(case: Case, operands: tuple[Operand, ...], arrays: dict[str, np.ndarray]) -> None:
    """Of the activations' seed; beside activations from a file, of seed 0."""
    drawn = case.x if isinstance(case.x, Seeded) else Seeded("ordinary", 0, FIXTURE_VERSION)
    for ids in operands:
        if isinstance(ids, Ids):
            draws = words(_key(drawn, ids.name), math.prod(ids.shape)).reshape(ids.shape)
            arrays[ids.name][...] = routed(draws, ids.below)


def _matrices(operands: tuple[Operand, ...]) -> tuple[Matrix, ...]:
    return tuple(operand for operand in operands if isinstance(operand, Matrix))


def _seeded_blocks(source: Seeded, matrix: Matrix, matrices: tuple[Matrix, ...], into: np.ndarray) -> None:
    """Random bytes, made finite by the kind, then what the family wants, into (rows, row bytes) uint8.

    Made in place where rows are packed. Rows that the family leaves out are zeroed and not drawn.
    """
    family = _family(source)
    drawn = into[-family.last_rows :]
    into[: len(into) - len(drawn)] = 0
    packed = drawn if drawn.flags.c_contiguous else np.empty(drawn.shape, np.uint8)
    fill(_key(source, matrix.name), packed.reshape(-1))
    blocks = packed.reshape(-1).view(matrix.kind.block)
    matrix.kind.pin(blocks)
    draws = words(_key(source, f"{matrix.name}/rows"), len(drawn))
    family.weights(blocks.reshape(len(drawn), -1), matrix, matrices, draws)
    if packed is not drawn:
        drawn[...] = packed


def _seeded_vector(source: Seeded, vector: Vector, matrices: tuple[Matrix, ...]) -> np.ndarray:
    length = vector.shape[-1]
    count = math.prod(vector.shape)
    draws = words(_key(source, vector.name), count).reshape(-1, length)
    drawing = Drawing(vector, matrices, unit_of(length, matrices), source.seed)
    return _family(source).x(draws, drawing).reshape(vector.shape)


def _family(source: Seeded) -> Family:
    try:
        return FAMILIES[source.family]
    except KeyError:
        raise UnknownName("family", source.family, list(FAMILIES)) from None


def _key(source: Seeded, stream: str) -> int:
    """The generator's start: every seed and every stream has one of its own."""
    if source.fixture_version != FIXTURE_VERSION:
        raise FarmError(
            f"the case's fixture version is {source.fixture_version}, this farm makes {FIXTURE_VERSION}; "
            "run it with the farm version that made the case"
        )
    text = f"{FIXTURE_VERSION}/{source.seed}/{stream}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def words(key: int, count: int) -> np.ndarray:
    """(count,) uint64 of the stream that `key` starts."""
    result = np.empty(count, np.uint64)
    for first, part in _chunks(result):
        _mix(key, first, part)
    return result


def fill(key: int, into: np.ndarray) -> None:
    """Random bytes into contiguous (n,) uint8: the stream's words, low byte first."""
    scratch = np.empty(CHUNK, np.uint64)
    for first in range(0, len(into), 8 * CHUNK):
        part = into[first : first + 8 * CHUNK]
        made = scratch[: -(-len(part) // 8)]
        _mix(key, first // 8, made)
        part[:] = made.astype("<u8", copy=False).view(np.uint8)[: len(part)]


def _chunks(array: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    for first in range(0, len(array), CHUNK):
        yield first, array[first : first + CHUNK]


@cache
def _steps() -> np.ndarray:
    return np.arange(1, CHUNK + 1, dtype=np.uint64) * np.uint64(STEP)


def _mix(key: int, first: int, into: np.ndarray) -> None:
    """The stream's words from number `first` on, at most CHUNK of them: a counter whose bits are mixed."""
    np.add(_steps()[: len(into)], np.uint64((key + first * STEP) & WORD), out=into)
    shifted = np.empty_like(into)
    for shift, multiplier in zip((30, 27), MULTIPLIERS, strict=True):
        np.right_shift(into, np.uint64(shift), out=shifted)
        into ^= shifted
        into *= multiplier
    np.right_shift(into, np.uint64(31), out=shifted)
    into ^= shifted


def _weights_from_file(source: FromFile, number: int, operand: Operand, files: Files | None) -> np.ndarray:
    rows = _held(source, files).weights(source, number)
    _demand(rows.dtype, "uint8", operand.name, source)
    if isinstance(operand, Matrix):
        sizes = Sizes(row_bytes=rows.shape[-1], weights=rows.size, x=operand.cols)
        _fit(refuses_buffers(operand.kind, operand.rows, operand.cols, 1, sizes), source)
        return rows[: operand.rows]
    if rows.size < 4 * operand.shape[-1]:
        _fit(f"{operand.name} too small: got {rows.size} bytes, want {4 * operand.shape[-1]}", source)
    return np.ascontiguousarray(rows).view("<f4").reshape(-1)[: operand.shape[-1]].reshape(operand.shape)


def _activations_from_file(
    source: FromFile, vectors: list[Vector], matrices: tuple[Matrix, ...], files: Files | None
) -> Iterator[tuple[Vector, np.ndarray]]:
    values = _held(source, files).activations(source)
    names = " then ".join(vector.name for vector in vectors)
    _demand(values.dtype, "float32", names, source)
    if values.ndim > 1 and values.shape[-1] != vectors[0].shape[-1]:
        _fit(f"{names}: got rows of {values.shape[-1]}, want {vectors[0].shape[-1]}", source)
    sizes = [math.prod(vector.shape) for vector in vectors]
    if matrices:
        kind, rows, cols = matrices[0].kind, matrices[0].rows, matrices[0].cols
        held = Sizes(kind.row_bytes(cols), rows * kind.row_bytes(cols), values.size)
        _fit(refuses_buffers(kind, rows, cols, sizes[0] // cols, held), source)
    elif values.size < sum(sizes):
        _fit(f"{names} too small: got {values.size} float32, want {sum(sizes)}", source)
    parts = np.split(values.reshape(-1)[: sum(sizes)], np.cumsum(sizes)[:-1])
    for vector, part in zip(vectors, parts, strict=True):
        yield vector, part.reshape(vector.shape)


def _held(source: FromFile, files: Files | None) -> Files:
    if files is None:
        raise FarmError(f"file {source.sha256[:12]} is not here; run the case where a worker holds it")
    return files


def _demand(got: np.dtype[Any], dtype: str, what: str, source: FromFile) -> None:
    if got != np.dtype(dtype):
        raise Unfit(f"{what} from file {source.sha256[:12]}: got {got}, want {dtype}; save it as that")


def _fit(reason: str, source: FromFile) -> None:
    """What is too small is refused, never padded; of what is larger the front is taken."""
    if reason:
        raise Unfit(f"file {source.sha256[:12]}: {reason}")


__all__ = ["FIXTURE_VERSION", "Files", "Unfit", "digest", "images"]
