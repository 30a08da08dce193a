"""A catalog as a value: its files by path, and the digests that stand for them."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

from kernels import codec
from kernels.errors import FarmError, UsageError

DECLARATION = ".toml"
CUBIN = ".cubin"
# What a pack holds: declarations, CUDA texts and what they include, cubins, twins.
SUFFIXES = (DECLARATION, ".cu", ".cuh", ".h", ".hpp", ".hh", ".inl", ".inc", ".def", CUBIN, ".py")
TOLD_APART = ("name", "author", "description")  # of a declaration: words that change no result

MOST_FILES = 1000
MOST_FILE_BYTES = 16 << 20
MOST_BYTES = 64 << 20
MOST_STREAM_BYTES = MOST_BYTES + MOST_FILES * 4096  # with the paths


@dataclass(frozen=True)
class Pack:
    """The files of a catalog; equal wherever the same files lie in a folder."""

    files: tuple[tuple[str, bytes], ...]  # by path, relative and with slashes, in order

    @classmethod
    def of(cls, files: Mapping[str, bytes]) -> Pack:
        """UsageError for a path that isn't inside, and for more than a pack may hold."""
        for path, content in files.items():
            if reason := refuses_path(path) or refuses_size(path, len(content)):
                raise UsageError(reason)
        if reason := refuses_whole(len(files), sum(map(len, files.values()))):
            raise UsageError(reason)
        return cls(tuple(sorted(files.items())))

    @cached_property
    def by_path(self) -> Mapping[str, bytes]:
        return dict(self.files)

    @property
    def declarations(self) -> tuple[str, ...]:
        """The paths of the declarations."""
        return tuple(path for path, _ in self.files if path.endswith(DECLARATION))

    @cached_property
    def address(self) -> str:
        """SHA-256 (hex) over every path and every byte: what a pack is stored, fetched and kept under.

        Packs that differ in a kernel's name alone have one digest, but a case of one is none of the other.
        """
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def to_bytes(self) -> bytes:
        """Every file behind a line of its path's length, its path and its own length."""
        return b"".join(
            f"{len(path.encode())} {path} {len(content)}\n".encode() + content for path, content in self.files
        )

    @classmethod
    def from_bytes(cls, data: bytes, address: str) -> Pack:
        """The pack of `to_bytes`; FarmError where it isn't the one of that address, or there is none."""
        if hashlib.sha256(data).hexdigest() != address:
            raise FarmError(f"what came is not catalog {address[:12]}; fetch it again")
        try:
            files = _files_in(data)
        except ValueError:
            files = {}
        pack = cls.of(files)
        if pack.to_bytes() != data:
            raise FarmError(f"what came as catalog {address[:12]} is no catalog; have it written again")
        return pack

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) over declarations, sources and includes, without names, authors and descriptions."""
        told = sorted(_told(self.by_path[path]) for path in self.declarations)
        others = [
            [path, hashlib.sha256(content).hexdigest()]
            for path, content in self.files
            if not path.endswith(DECLARATION)
        ]
        return codec.digest([told, others])


def _files_in(data: bytes) -> dict[str, bytes]:
    """The files that `to_bytes` wrote; ValueError or others than those where it wrote nothing of the kind."""
    files: dict[str, bytes] = {}
    at = 0
    while at < len(data):
        if reason := refuses_whole(len(files) + 1, 0):
            raise UsageError(reason)
        end = data.index(b"\n", at)
        length, _, rest = data[at:end].decode("utf8").partition(" ")
        path = rest.encode()[: int(length)].decode("utf8")
        size = int(rest[len(path) :])
        if size < 0:  # it would lead back to where it stands, again and again
            raise ValueError(f"a file of {size} bytes")
        files[path] = data[end + 1 : end + 1 + size]
        at = end + 1 + size
    return files


def _told(content: bytes) -> str:
    """What a declaration says that may change a result, whatever its comments and its order of keys."""
    try:
        told = tomllib.loads(content.decode("utf8"))
        return codec.canonical({key: value for key, value in told.items() if key not in TOLD_APART})
    except (ValueError, TypeError, RecursionError):  # no TOML, or one with dates: it is what it is
        return hashlib.sha256(content).hexdigest()


def refuses_path(path: str) -> str:
    """Why a path isn't one of a file inside a pack; empty if it is."""
    parts = PurePosixPath(path).parts
    inside = path and not path.startswith("/") and ".." not in parts and "\\" not in path and ":" not in path
    if inside and path.isprintable() and str(PurePosixPath(path)) == path:
        return ""
    return f"{path!r} is no file inside the catalog; write a path below it, as src/kernel.cu"


def refuses_size(path: str, nbytes: int) -> str:
    if nbytes <= MOST_FILE_BYTES:
        return ""
    return (
        f"{path} has {nbytes:,} bytes, the most for a file of a catalog are {MOST_FILE_BYTES:,}; move it out"
    )


def refuses_whole(files: int, nbytes: int) -> str:
    remedy = "give the kernels a folder of their own"
    if files > MOST_FILES:
        return f"a catalog of {files:,} files, the most are {MOST_FILES:,}; {remedy}"
    if nbytes > MOST_BYTES:
        return f"a catalog of {nbytes:,} bytes, the most are {MOST_BYTES:,}; {remedy}"
    return ""
