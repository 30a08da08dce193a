"""Catalogs on disk: a user's folder read as a pack, packs kept under their address, and loaded again."""

from __future__ import annotations

import base64
import os
import shutil
import stat
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from kernels import equivalents, registry
from kernels.declared import catalog, twin
from kernels.declared.catalog import Catalog
from kernels.declared.pack import MOST_STREAM_BYTES, SUFFIXES, Pack, refuses_size, refuses_whole
from kernels.errors import FarmError, UsageError
from workers.state import state_folder

KEPT = 8  # catalogs that a process holds: one child serves many campaigns
NOT_OURS = ("__pycache__", equivalents.NAME)


def store() -> Path:
    """Where packs lie unpacked, each in a folder named by its address."""
    return state_folder() / "packs"


def read(folder: Path) -> Pack:
    """The files of a folder that a catalog is made of; UsageError for links, and for more than a pack holds.

    Hidden files and files of other sorts are no part of a catalog.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder; name one with a .toml declaration per kernel")
    files: dict[str, bytes] = {}
    nbytes = 0
    for path in _files(folder):
        name = path.relative_to(folder).as_posix()
        size = path.stat().st_size
        nbytes += size
        if reason := refuses_size(name, size) or refuses_whole(len(files) + 1, nbytes):
            raise UsageError(f"{folder}: {reason}")
        files[name] = path.read_bytes()
    return Pack.of(files)


def _files(folder: Path) -> Iterator[Path]:
    """The regular files of a catalog, in order."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        path = Path(entry.path)
        if entry.name.startswith(".") or entry.name in NOT_OURS:
            continue
        if entry.is_symlink():
            raise UsageError(f"{path} is a symbolic link; copy what it points at into the catalog")
        if entry.is_dir():
            yield from _files(path)
        elif path.suffix in SUFFIXES:
            if not stat.S_ISREG(entry.stat().st_mode):
                raise UsageError(f"{path} is no regular file; take it out of the catalog")
            yield path


def keep(pack: Pack, into: Path) -> Path:
    """The folder of a pack below `into`, written whole or not at all; what is there already is left alone."""
    target = into / pack.address
    if target.is_dir():
        return target
    into.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=into, prefix=".draft-"))
    try:
        for name, content in pack.files:
            path = draft / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        try:
            draft.rename(target)
        except OSError:  # another process was faster
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return target


def is_kept(address: str) -> bool:
    return (store() / address).is_dir()


def shipped(content: bytes) -> str:
    """A pack's content as it crosses in a message."""
    return base64.b64encode(zlib.compress(content)).decode("ascii")


def received(text: str) -> bytes:
    """The content of a message; FarmError for what is none, or would unpack to more than a pack may hold."""
    try:
        unpacking = zlib.decompressobj()
        content = unpacking.decompress(base64.b64decode(text, validate=True), MOST_STREAM_BYTES)
    except (ValueError, zlib.error) as error:
        raise FarmError(f"the catalog that came is damaged: {error}") from None
    if unpacking.unconsumed_tail or not unpacking.eof:
        raise FarmError(f"the catalog that came is cut short or has more than {MOST_STREAM_BYTES:,} bytes")
    return content


def load(address: str, below: Path) -> Catalog:
    """The catalog kept under an address; FarmError where it isn't there, or isn't what it was."""
    return _load(address, str(below))


@lru_cache(maxsize=KEPT)
def _load(address: str, below: str) -> Catalog:
    folder = Path(below) / address
    if not folder.is_dir():
        raise FarmError(f"catalog {address[:12]} is not here; it is looked for in {below}")
    pack = read(folder)
    if pack.address != address:
        raise FarmError(f"{folder} is not catalog {address[:12]} any more but {pack.address[:12]}; remove it")
    return catalog.load(pack)


@contextmanager
def searching(folder: str | None) -> Iterator[Catalog | None]:
    """While in it, the kernels of a catalog's folder are found beside the farm's own; without one, nothing.

    UsageError, with the first mistake's file and line, where anything in it is wrong.
    """
    if not folder:
        yield None
        return
    found = catalog.load(read(Path(folder)))
    with registry.searching(found.kernels):
        yield found


class Asks(Protocol):
    """What a child process is asked to do with a kernel that may be in a catalog."""

    @property
    def pack(self) -> str:
        """The catalog's address; empty for the farm's own kernels."""

    @property
    def packs(self) -> str:
        """The folder that packs lie in, each under its address."""


@contextmanager
def searched(asked: Asks) -> Iterator[None]:
    """While in it, the catalog asked for is searched and its twins may run: for isolated children alone."""
    with ExitStack() as stack:
        if asked.pack:
            found = load(asked.pack, Path(asked.packs))
            stack.enter_context(registry.searching(found.kernels))
            stack.enter_context(twin.allowed())
        yield
