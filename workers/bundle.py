"""The one format of evidence on disk, for spools and bundles: JSON lines, each chained to the one before."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from kernels import codec
from kernels.declared.pack import Pack
from kernels.errors import FarmError
from kernels.evidence import Evidence
from workers import packs

FORMAT = "kernel-farm evidence"
VERSION = 1
PACK = "catalog"  # of a line that carries a user's catalog: its address
START = "0" * 64  # what the header line is chained to
MOST_LINE_BYTES = 128 << 20  # the largest catalog there may be, in base64, and room


class DamagedBundle(FarmError):
    """A bundle that can't be trusted; the message names file, line and damage."""


@dataclass(frozen=True)
class Bundle:
    """What a file holds."""

    evidence: tuple[Evidence, ...]
    packs: tuple[Pack, ...]  # users' catalogs that the evidence's kernels are in
    chain: str  # SHA-256 of the last whole line, hex
    nbytes: int  # of the header and the whole lines
    torn: str = ""  # what was dropped at the end; empty if nothing was


def header() -> dict[str, Any]:
    return {"format": FORMAT, "version": VERSION}


def line(body: Any, chain: str) -> tuple[str, str]:
    """One line of the file, and the SHA-256 that the next one is chained to."""
    text = codec.canonical(body)
    digest = link(text, chain)
    return _framed(text, digest) + "\n", digest


def _framed(text: str, digest: str) -> str:
    return f'{{"body":{text},"sha256":"{digest}"}}'


def link(text: str, chain: str) -> str:
    """SHA-256 (hex) over the digest of the line before and this line's body, as canonical JSON."""
    return hashlib.sha256(f"{chain}\n{text}".encode("ascii")).hexdigest()


def lines(evidence: Iterable[Evidence]) -> Iterator[str]:
    """The lines of a whole file, header first."""
    text, chain = line(header(), START)
    yield text
    for item in evidence:
        text, chain = line(item, chain)
        yield text


def read(path: Path) -> Bundle:
    """Everything in the file; a torn last line is dropped and reported, other damage raises DamagedBundle."""
    chain, nbytes, torn = "", 0, ""
    found: list[Evidence] = []
    carried: list[Pack] = []
    for number, text in enumerate(_texts(path), 1):
        if len(text) > MOST_LINE_BYTES:
            raise DamagedBundle(
                f"{path}: line {number}: more than {MOST_LINE_BYTES:,} bytes, the most that a line may have; "
                "the file is refused"
            )
        if not text.endswith(b"\n"):
            torn = f"{path}: line {number}: torn after {len(text)} bytes, dropped"
            break
        nbytes += len(text)
        if number == 1:
            chain = _check_header(path, text[:-1])
            continue
        body, chain = _unchained(path, number, text[:-1], chain)
        if isinstance(body, dict) and set(body) == {PACK, "content"}:
            carried.append(_pack(path, number, body))
        else:
            found.append(_evidence(path, number, body))
    if not chain:
        raise DamagedBundle(f"{path}: line 1: {'no whole line' if torn else 'an empty file'}, want a header")
    return Bundle(tuple(found), tuple(carried), chain, nbytes, torn)


def _texts(path: Path) -> Iterator[bytes]:
    """The file's lines with their ends, one at a time; of one that is too long no more than shows it."""
    try:
        with path.open("rb") as file:
            while text := file.readline(MOST_LINE_BYTES + 1):
                yield text
    except OSError as error:
        raise FarmError(f"{path}: {error.strerror or error}") from None


def _check_header(path: Path, text: bytes) -> str:
    body, chain = _unchained(path, 1, text, START)
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        raise DamagedBundle(f"{path}: line 1: not a {FORMAT} file")
    if body != header():
        version = str(body.get("version"))[:24]
        raise DamagedBundle(f"{path}: line 1: version {version}, want {VERSION}; update the farm")
    return chain


def _unchained(path: Path, number: int, text: bytes, chain: str) -> tuple[Any, str]:
    """A line's body and digest, once it is known to follow the line before."""
    try:
        said = json.loads(text)
        body, digest = said["body"], said["sha256"]
        canonical = codec.canonical(body)
        wanted = link(canonical, chain)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise DamagedBundle(f"{path}: line {number}: not a line of evidence; the file is refused") from None
    # The text too: a float's last digits may be changed without another value.
    if digest != wanted or text != _framed(canonical, digest).encode("ascii"):
        told = digest[:12] if isinstance(digest, str) else "of another type"
        raise DamagedBundle(
            f"{path}: line {number}: digest {told}, want {wanted[:12]}: this line was "
            "changed, or one before it is missing; the file is refused"
        )
    return body, wanted


def _evidence(path: Path, number: int, body: Any) -> Evidence:
    try:
        evidence = codec.decode(Evidence, body)
    except codec.CodecError as error:
        raise DamagedBundle(f"{path}: line {number}: {error}; the file is refused") from None
    if evidence.case.id != evidence.case_id:
        raise DamagedBundle(f"{path}: line {number}: case id {evidence.case_id[:12]} is not its case's")
    return evidence


def _pack(path: Path, number: int, body: dict[str, Any]) -> Pack:
    try:
        return Pack.from_bytes(packs.received(str(body["content"])), str(body[PACK]))
    except FarmError as error:
        raise DamagedBundle(f"{path}: line {number}: {error}; the file is refused") from None


def sync_folder(folder: Path) -> None:
    """Puts a file's name on disk, as fsync does its content."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _opened(path: Path) -> IO[bytes]:
    """The file open for writing, made if it isn't there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        return path.open("r+b")
    except OSError as error:
        raise FarmError(f"{path}: {error.strerror or error}") from None


class Writer:
    """Appends to a file that it has locked."""

    def __init__(self, path: Path) -> None:
        """Opens or makes the file; a torn last line is cut off, and `found` says what is there."""
        self._file = _opened(path)
        try:
            self._lock(path)
            begun = next(_texts(path), b"").endswith(b"\n")  # a torn header is a file that never began
            self.found = read(path) if begun else Bundle((), (), START, 0)
        except FarmError:
            self._file.close()
            raise
        self._chain = self.found.chain
        self._file.truncate(self.found.nbytes)
        self._file.seek(self.found.nbytes)
        if not begun:
            self._write(header())
            self.sync()
            sync_folder(path.parent)

    def append(self, evidence: Evidence) -> None:
        """Writes one line, which outlives this process; sync() makes it outlive the machine."""
        self._write(evidence)

    def carry(self, pack: Pack) -> None:
        """Writes a user's catalog, unless the file has it: whoever imports the evidence needs it."""
        if pack not in self.found.packs:
            self._write({PACK: pack.address, "content": packs.shipped(pack.to_bytes())})

    def sync(self) -> None:
        """Returns when all that was appended is on disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self.sync()
        self._file.close()

    def _lock(self, path: Path) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise FarmError(f"{path}: another process writes to it; stop it first") from None

    def _write(self, body: Any) -> None:
        text, self._chain = line(body, self._chain)
        self._file.write(text.encode("ascii"))
        self._file.flush()
