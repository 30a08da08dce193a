"""What the disassembly of compiled texts shows, kept by their code and read for several texts at a time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernels import codec
from workers.nvrtc import cubin, disassembler, sass
from workers.nvrtc.cubin import BadCubin
from workers.nvrtc.disassembler import Unreadable
from workers.nvrtc.library import Compiled
from workers.nvrtc.sass import Reading
from workers.nvrtc.store import Store, key_of

MEANING = "instructions a product"  # of what is kept: another word where a reading says something else


@dataclass(frozen=True)
class Code:
    """One entry of a cubin. A third of the architectures get another one's code: that is read once."""

    cubin: bytes
    entry: str

    @classmethod
    def of(cls, made: Compiled, entry: str) -> Code:
        """`entry` as the launch names it; a template's instance has another name in the code."""
        return cls(made.cubin, made.lowered or entry)

    def key(self) -> str:
        """Under which its reading is kept."""
        return key_of(cubin.digest(self.cubin), self.entry, disassembler.label(), MEANING)


def reading(store: Store, code: Code, arch: str, others: Iterable[Code] = ()) -> tuple[Reading, str]:
    """What a code shows, and who read it, or why nobody did.

    Where it has to be read, the others are read by the same start of the disassembler. One that is refused
    takes nothing from the first: it is read alone then.
    """
    if not disassembler.label():
        return Reading(None), disassembler.LACKING
    key = code.key()
    refused = key_of(key, arch)
    if not store.has(key) and not store.has(refused):
        try:
            _read(store, [code, *others], arch)
        except (Unreadable, BadCubin):
            _read_alone(store, code, arch, refused)
    if store.has(key):
        return codec.decode(Reading, json.loads(store.text(key))), disassembler.label()
    return Reading(None), store.text(refused)


def _read_alone(store: Store, code: Code, arch: str, refused: str) -> None:
    try:
        _read(store, [code], arch)
    except (Unreadable, BadCubin) as why:
        store.keep(refused, str(why))


def _read(store: Store, codes: Sequence[Code], arch: str) -> None:
    listings = disassembler.listings([cubin.code(code.cubin, code.entry) for code in codes], arch)
    for code, listing in zip(codes, listings, strict=True):
        store.keep(code.key(), json.dumps(codec.encode(sass.read(listing))))
