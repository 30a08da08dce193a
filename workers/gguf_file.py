"""Reads which tensors a GGUF file holds, and refuses a file whose data isn't all there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import metadata
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFReader

from kernels import registry
from kernels.errors import FarmError

SCALE = ".scale"  # how the names of scales end
EXPERTS = "_exps.weight"  # how the names of a mixture's tensors end


class BadFile(FarmError):
    """A file that can't be used; the message names the file, the tensor and the fault."""


@dataclass(frozen=True)
class Tensor:
    """A tensor of a GGUF file as a matrix; with more than two dimensions, all its rows one after another."""

    name: str
    kind: str  # as GGML writes it, F32 and I32 too; `type 99` where nobody here knows that id
    rows: int
    cols: int
    offset: int  # bytes from the start of the file
    nbytes: int  # of a type that nobody knows: up to the next tensor, padding included
    dims: int = 2  # dimensions, as the file has them
    unknown: str = ""  # why its bytes can't be read as rows; empty if they can
    experts: int = 1  # matrices of equal size whose rows those are
    top_k: int = 0  # experts that a token takes, by the file's metadata; 0 where it doesn't say

    @property
    def row_bytes(self) -> int:
        return self.nbytes // self.rows


# Ids of ggml's types that older gguf packages don't know; their sizes are those of the kinds.
LATER_TYPES = {41: "Q1_0", 42: "Q2_0"}


@dataclass(frozen=True)
class _Format:
    """How a type's rows are cut into blocks."""

    name: str
    elements: int
    block_bytes: int


class _Header(GGUFReader):
    """The library's reader, stopped before it slices tensor data: it would not name the tensor at fault."""

    infos: list[Any]

    def _build_tensors(self, start_offs: int, fields: list[Any]) -> None:
        self.infos = fields


def read_gguf(path: Path) -> tuple[Tensor, ...]:
    """Every tensor of the file, each checked to lie inside it; BadFile says what is wrong."""
    header = _header(path)
    tensors = tuple(_tensors(path, header))
    names = [tensor.name for tensor in tensors]
    for name in sorted(set(names)) if len(set(names)) < len(names) else ():
        if names.count(name) > 1:
            raise BadFile(f"{path}: tensor {name}: is there {names.count(name)} times")
    return tensors


def _header(path: Path) -> _Header:
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise BadFile(f"{path}: {error.strerror or error}") from None
    if magic != b"GGUF":
        raise BadFile(f"{path}: wrong magic {magic!r}, want b'GGUF': not a GGUF file")
    try:
        header = _Header(path)
    except (ValueError, IndexError, KeyError, OverflowError) as error:  # what numpy says about a cut header
        raise BadFile(
            f"{path}: the header can't be read in {size} bytes, truncated or damaged: {error}"
        ) from None
    if header.byte_order != "I":
        raise BadFile(f"{path}: is big-endian; only little-endian files are read")
    return header


def _tensors(path: Path, header: _Header) -> Iterator[Tensor]:
    size, start = path.stat().st_size, int(header.data_offset)
    offsets = sorted({start + int(info.parts[5][0]) for info in header.infos})
    used = _experts_used(header)
    for info in header.infos:
        _, _, _, dims, raw_type, raw_offset = info.parts
        where = f"{path}: tensor {info.name}"
        shape = [int(dim) for dim in dims]  # fastest dimension first
        if not shape or 0 in shape:
            raise BadFile(f"{where}: has no elements (dimensions {shape})")
        rows, offset = prod(shape[1:]), start + int(raw_offset[0])
        if int(raw_offset[0]) % int(header.alignment):
            raise BadFile(
                f"{where}: offset {raw_offset[0]} is not a multiple of the alignment {header.alignment}"
            )
        if offset > size:
            raise BadFile(f"{where}: starts at byte {offset}, past the end of the file at {size}")
        kind, unknown = f"type {raw_type[0]}", ""
        if known := _format(int(raw_type[0])):
            kind, nbytes = known.name, rows * _row_bytes(known, shape[0], where)
        else:
            unknown = (
                f"type id {raw_type[0]} is unknown to gguf {metadata.version('gguf')} and has no kind here"
            )
            nbytes = _up_to_next(offset, offsets, where, unknown)
        if offset + nbytes > size:
            raise BadFile(
                f"{where}: needs bytes {offset} to {offset + nbytes}, the file ends at {size}: truncated"
            )
        experts = shape[2] if len(shape) == 3 and info.name.endswith(EXPERTS) else 1
        found = Tensor(info.name, kind, rows, shape[0], offset, nbytes, len(shape), unknown)
        yield replace(found, experts=experts, top_k=used if experts > 1 else 0)


def _experts_used(header: _Header) -> int:
    """What `<architecture>.expert_used_count` says; 0 where it isn't there or is no number."""
    found = (field.contents() for name, field in header.fields.items() if name.endswith(".expert_used_count"))
    count = next(found, 0)
    return count if isinstance(count, int) and count > 0 else 0


def _format(type_id: int) -> _Format | None:
    """What the gguf package knows about a type, or else the kind of that id; None where neither does."""
    try:
        known = GGMLQuantizationType(type_id)
    except ValueError:
        name = LATER_TYPES.get(type_id)
        kind = registry.kind(name) if name else None
        return _Format(kind.name, kind.elements, kind.block_bytes) if kind else None
    return _Format(known.name, *GGML_QUANT_SIZES[known])


def _row_bytes(known: _Format, cols: int, where: str) -> int:
    if cols % known.elements:
        raise BadFile(f"{where}: rows of {cols} are not whole {known.name} blocks of {known.elements}")
    return cols // known.elements * known.block_bytes


def _up_to_next(offset: int, offsets: list[int], where: str, unknown: str) -> int:
    """Bytes between a tensor and the one that follows; BadFile for the last one, whose end nothing tells."""
    later = [other for other in offsets if other > offset]
    if not later:
        remedy = "install a gguf that knows it, or leave the tensor out of the file"
        raise BadFile(f"{where}: {unknown}; no tensor behind it tells its size; {remedy}")
    return later[0] - offset


def scale_name(weights: str) -> str:
    """The tensor that would hold the scale of a whole weight tensor: `<base>.scale` for `<base>.weight`."""
    return weights.removesuffix(".weight") + SCALE


def read_rows(path: Path, tensor: Tensor, rows: np.ndarray) -> np.ndarray:
    """(len(rows), row_bytes) uint8: the named rows of a tensor; only their pages are read."""
    data = np.memmap(path, np.uint8, "r", tensor.offset, (tensor.rows, tensor.row_bytes))
    return np.array(data[rows])
