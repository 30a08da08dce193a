"""The cubin's digest: what changes it, what doesn't, and what is no cubin."""

from __future__ import annotations

import pytest

from tests.workers.nvrtc.elf import NOTE, RELA, STRTAB, SYMTAB, Part, elf, relocation, strings, symbols
from workers.nvrtc import cubin
from workers.nvrtc.cubin import BadCubin

CODE = Part(".text.k", b"\x01" * 32)
BANK = Part(".nv.constant0.k", bytes(16))
TABLE = Part(".nv.global.init", b"\x07" * 8)


def digest(*parts: Part) -> str:
    return cubin.digest(elf(*parts))


def test_sections_have_their_names_and_bytes() -> None:
    found = {section.name: section.data for section in cubin.sections(elf(CODE, BANK))}
    assert found == {
        "": b"",
        ".text.k": b"\x01" * 32,
        ".nv.constant0.k": bytes(16),
        ".shstrtab": found[".shstrtab"],
    }


@pytest.mark.parametrize(
    "noise",
    [
        Part(".note.nv.tkinfo", b"release 13.5", NOTE),
        Part(".debug_frame", b"frame"),
        Part(".nv.info", b"facts", 0x70000000),
        Part(".rela.debug_frame", relocation(0, 0), RELA),
    ],
)
def test_digest_leaves_out_what_tools_write_about_themselves(noise: Part) -> None:
    assert digest(CODE, BANK, noise) == digest(CODE, BANK)


@pytest.mark.parametrize("order", [(BANK, CODE, TABLE), (TABLE, BANK, CODE)])
def test_digest_is_the_same_in_another_order(order: tuple[Part, ...]) -> None:
    assert digest(*order) == digest(CODE, BANK, TABLE)


@pytest.mark.parametrize(
    "changed",
    [
        (Part(".text.k", b"\x01" * 31 + b"\x02"), BANK, TABLE),
        (Part(".text.other", CODE.data), BANK, TABLE),
        (CODE, Part(".nv.constant0.k", b"\x01" + bytes(15)), TABLE),
        (CODE, Part(".nv.constant0.k", bytes(15)), TABLE),
        (CODE, BANK, Part(".nv.global.init", b"\x07" * 7 + b"\x08")),
        (CODE, BANK),
    ],
)
def test_digest_changes_with_code_constants_and_tables(changed: tuple[Part, ...]) -> None:
    assert digest(*changed) != digest(CODE, BANK, TABLE)


def related(names: tuple[str, ...], wanted: str, at: int = 8, addend: int = 0) -> str:
    """A cubin whose code refers to one of several symbols."""
    table = strings(*names)
    offsets = [table.find(name.encode()) for name in names]
    moved = relocation(at, names.index(wanted) + 1, addend=addend)
    return digest(CODE, Part(".rela.text.k", moved, RELA, 3), Part(".symtab", symbols(*offsets), SYMTAB, 4),
                  Part(".strtab", table, STRTAB))  # fmt: skip


def test_digest_counts_relocations_by_their_symbols_name() -> None:
    before = related(("kvalues", "other"), "kvalues")
    assert related(("other", "kvalues"), "kvalues") == before
    assert related(("kvalues", "other"), "other") != before
    assert related(("kvalues", "other"), "kvalues", at=16) != before
    assert related(("kvalues", "other"), "kvalues", addend=4) != before
    assert digest(CODE) != before


@pytest.mark.parametrize("content", [b"", b"PTX", b"\x7fELF\x01\x01" + bytes(60), b"\x7fELF\x02\x01"])
def test_other_bytes_are_refused_by_name(content: bytes) -> None:
    with pytest.raises(BadCubin, match="cubin"):
        cubin.sections(content)


@pytest.mark.parametrize("missing", [1, 64, 200])
def test_a_cubin_that_was_cut_short_is_refused(missing: int) -> None:
    with pytest.raises(BadCubin, match="ends too early"):
        cubin.digest(elf(CODE, BANK)[:-missing])
