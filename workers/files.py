"""Knows the files that this machine holds by their SHA-256, and reads weights and activations from them."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from kernels import codec
from kernels.model import FromFile
from kernels.tensor_scale import ABSENT
from workers.backend import CannotRun
from workers.gguf_file import BadFile, Tensor, read_gguf, read_rows, scale_name
from workers.state import state_folder

NPY_MAGIC = b"\x93NUMPY"


class FileNotHere(CannotRun):
    """A case wants a file that this machine doesn't hold (SKIP)."""


@dataclass(frozen=True)
class Held:
    """A file as it was when it was registered."""

    sha256: str
    path: str
    nbytes: int
    mtime_ns: int
    tensors: tuple[Tensor, ...] = ()  # of a GGUF file; empty for .npy

    def is_current(self) -> bool:
        """Whether the file is still the one that was hashed, as far as size and time tell."""
        try:
            now = os.stat(self.path)
        except OSError:
            return False
        return (now.st_size, now.st_mtime_ns) == (self.nbytes, self.mtime_ns)


class FileStore:
    """One JSON file per held file, in the state folder: a large file is hashed once, not in every process."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or state_folder() / "files"

    def register(self, path: Path) -> Held:
        """Checks and hashes a GGUF or .npy file, if that wasn't done before; BadFile says what is wrong."""
        path = path.absolute()
        known = next((held for held in self._all() if held.path == str(path) and held.is_current()), None)
        if known:
            return known
        tensors = _tensors(path)
        before = path.stat()
        held = Held(_sha256(path), str(path), before.st_size, before.st_mtime_ns, tensors)
        if not held.is_current():
            raise BadFile(f"{path}: changed while it was read; try again when it is written")
        self._write(held)
        return held

    def digests(self) -> tuple[str, ...]:
        """Those of the files that are as they were."""
        return tuple(held.sha256 for held in self._all() if held.is_current())

    def held(self, sha256: str) -> Held:
        """The file with that content; FileNotHere where there is none, or it has changed."""
        try:
            held = _read(str(self._entry(sha256)))
        except OSError:
            raise FileNotHere(f"file not here: {sha256[:12]}") from None
        if not held.is_current():
            raise FileNotHere(f"file not here: {sha256[:12]} was {held.path}, which is gone or has changed")
        return held

    def weights(self, source: FromFile, matrix: int) -> np.ndarray:
        """(rows, packed row bytes) uint8 of the case's weight operand number `matrix`."""
        held = self.held(source.sha256)
        if not source.tensors:
            blocks = load_npy(Path(held.path), np.uint8, ndims=(2, 3))
            rows = blocks.reshape(len(blocks), -1)
            return np.array(rows[sample_rows(len(rows), source.rows)])
        tensor = held_tensor(held, source.tensors[matrix])
        return read_rows(Path(held.path), tensor, sample_rows(tensor.rows, source.rows))

    def activations(self, source: FromFile) -> np.ndarray:
        """The whole array of a .npy file, float32."""
        return load_npy(Path(self.held(source.sha256).path), np.float32, ndims=(1, 2))

    def _entry(self, sha256: str) -> Path:
        return self._folder / f"{sha256}.json"

    def _all(self) -> Iterator[Held]:
        for entry in sorted(self._folder.glob("*.json")):
            yield _read(str(entry))

    def _write(self, held: Held) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=self._folder)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(codec.canonical(held))
        os.replace(name, self._entry(held.sha256))
        _read.cache_clear()


@lru_cache(maxsize=64)
def _read(entry: str) -> Held:
    return codec.decode(Held, json.loads(Path(entry).read_text(encoding="ascii")))


def sample_rows(total: int, wanted: int) -> np.ndarray:
    """Numbers of `wanted` rows of `total`, evenly spaced, first and last included; all of them for 0."""
    if wanted <= 0 or wanted >= total:
        return np.arange(total)
    if wanted == 1:
        return np.zeros(1, np.int64)
    return np.arange(wanted) * (total - 1) // (wanted - 1)


def held_tensor(held: Held, name: str) -> Tensor:
    found = next((tensor for tensor in held.tensors if tensor.name == name), None)
    if found is None:
        raise BadFile(f"{held.path}: no tensor {name!r}; it has {len(held.tensors)} others")
    if found.unknown:
        raise BadFile(f"{held.path}: tensor {name}: {found.unknown}")
    return found


def scale_tensor(held: Held, weights: str) -> Tensor | None:
    """The tensor with the scale of a whole weight tensor, where the file has one."""
    return next((tensor for tensor in held.tensors if tensor.name == scale_name(weights)), None)


def tensor_scale(held: Held, weights: str) -> float:
    """What a whole weight tensor is multiplied by; BadFile where that isn't one float32."""
    tensor = scale_tensor(held, weights)
    if tensor is None:
        return ABSENT
    if fault := scale_fault(tensor):
        raise BadFile(f"{held.path}: {fault}")
    (value,) = read_rows(Path(held.path), tensor, np.arange(1)).view("<f4")[0]
    return float(value)


def scale_fault(tensor: Tensor) -> str:
    """Why a scale can't be the argument of a launch; empty if it can."""
    values = tensor.rows * tensor.cols
    if (tensor.kind, values) == ("F32", 1):
        return ""
    return f"{tensor.name} is {values} {tensor.kind}, want one F32: kernels take one scale for a tensor"


def load_npy(path: Path, dtype: Any, ndims: tuple[int, ...]) -> np.ndarray:
    """The array of a .npy file, of that dtype and number of dimensions; BadFile says what it has instead."""
    try:
        array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise BadFile(f"{path}: not a readable .npy file: {error}") from None
    if array.dtype != np.dtype(dtype) or array.ndim not in ndims or not array.size:
        want = f"{np.dtype(dtype)} of {' or '.join(map(str, ndims))} dimensions"
        raise BadFile(f"{path}: got {array.dtype} {array.shape}, want {want}")
    return array


def _tensors(path: Path) -> tuple[Tensor, ...]:
    """What a GGUF file holds; nothing for a .npy file, whose header says it all."""
    try:
        with path.open("rb") as file:
            magic = file.read(len(NPY_MAGIC))
    except OSError as error:
        raise BadFile(f"{path}: {error.strerror or error}") from None
    return () if magic == NPY_MAGIC else read_gguf(path)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
