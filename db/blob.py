"""Source texts by what is in them, and which texts a source digest stands for.

put(s, text) -> sha256            get(s, sha256) -> str
put_source(s, source_digest, (SourceText(kernel, kind, text), …))
source_texts(s, source_digest) -> tuple[SourceText, ...]      # empty where none was stored
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import sqlalchemy as sa

from db.session import Session, insert_new
from db.tables import blob, source
from kernels.errors import FarmError


@dataclass(frozen=True)
class SourceText:
    """One translation unit of a case, as it ran."""

    kernel: str  # op/name of the kernel launched
    kind: str  # empty for none
    text: str


def put(s: Session, text: str) -> str:
    """Stores a text once, however often it is put; returns its SHA-256."""
    content = text.encode()
    sha256 = hashlib.sha256(content).hexdigest()
    insert_new(s, blob, [{"sha256": sha256, "content": content}])
    return sha256


def get(s: Session, sha256: str) -> str:
    """The text of that digest; FarmError where it isn't here or isn't what it was."""
    content = s.execute(sa.select(blob.c.content).where(blob.c.sha256 == sha256)).scalar()
    if content is None:
        raise FarmError(f"no blob {sha256} in this database; import it from where it was made")
    if hashlib.sha256(content).hexdigest() != sha256:
        raise FarmError(f"blob {sha256} is damaged in this database; restore it from a backup")
    return bytes(content).decode()


def put_source(s: Session, source_digest: str, texts: tuple[SourceText, ...]) -> None:
    """Notes the texts of a source digest, in the order a case launches them."""
    rows = [
        {
            "source_digest": source_digest,
            "part": part,
            "kernel": t.kernel,
            "kind": t.kind,
            "sha256": put(s, t.text),
        }
        for part, t in enumerate(texts)
    ]
    insert_new(s, source, rows)


def source_texts(s: Session, source_digest: str) -> tuple[SourceText, ...]:
    """What ran under a source digest; empty where this database never had the texts."""
    query = (
        sa.select(source.c.kernel, source.c.kind, source.c.sha256)
        .where(source.c.source_digest == source_digest)
        .order_by(source.c.part)
    )
    return tuple(SourceText(kernel, kind, get(s, sha256)) for kernel, kind, sha256 in s.execute(query).all())
