"""The file of equivalents: read strictly, and an entry that no longer applies is an error."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kernels import equivalents, registry, source
from kernels.equivalents import Equivalent, changed_line, faults, parse
from kernels.errors import FarmError
from kernels.mutants import mutants
from kernels.source import texts

ENTRY = """
[[equivalent]]
kernels = ["matvec/block"]
kinds = ["*"]
mutant = "ENTRY:1:drop"
now = "a;"
why = "because"
"""
KERNEL = "silu_mul/flat"
TEXT, MADE = source.text(KERNEL, ""), mutants(KERNEL, "")
RIGHT = Equivalent((KERNEL,), ("*",), MADE[0].name, changed_line(TEXT, MADE[0]), "an argument")


def test_an_entry_is_read() -> None:
    assert parse(ENTRY) == (Equivalent(("matvec/block",), ("*",), "ENTRY:1:drop", "a;", "because"),)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('why = "because"', "", "entry 1 has kernels, kinds, mutant, now; want"),
        ('why = "because"', 'why = " "', "entry 1 has an empty why"),
        ('now = "a;"', 'now = "a;"\nextra = 1', "entry 1 has .*extra"),
        ("[[equivalent]]", "[[equivalent", "is no TOML"),
        ("[[equivalent]]", "[[equivalents]]", r"want \[\[equivalent\]\] and nothing else, got equivalents"),
        ("[[equivalent]]", "[equivalent]", r"want \[\[equivalent\]\] and nothing else"),
        ('["*"]', '"*"', r"entry 1 has kinds = '\*'; want a list of texts"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(old: str, new: str, said: str) -> None:
    with pytest.raises(FarmError, match=said):
        parse(ENTRY.replace(old, new))


@pytest.mark.parametrize(
    ("kernel", "kind", "about"), [("matvec/block", "Q4_0", True), ("mul_mm/reference", "Q4_0", False)]
)
def test_an_entry_is_about_its_kernels(kernel: str, kind: str, about: bool) -> None:
    assert parse(ENTRY)[0].is_about(kernel, kind) is about


def test_an_entry_is_about_its_kinds_only() -> None:
    (entry,) = parse(ENTRY.replace('["*"]', '["Q4_0"]'))
    assert entry.is_about("matvec/block", "Q4_0")
    assert not entry.is_about("matvec/block", "Q4_K")


def test_an_entry_whose_mutant_is_alive_applies() -> None:
    assert faults([RIGHT], {"": TEXT}, MADE, alive=[RIGHT.mutant]) == []


@pytest.mark.parametrize(
    ("entry", "alive", "said"),
    [
        (RIGHT, [], "a rule kills it now"),
        (replace(RIGHT, mutant="ENTRY:999:drop"), ["ENTRY:999:drop"], "no such mutant any more"),
        (replace(RIGHT, now="other;"), [RIGHT.mutant], "the entry argues about 'other;'"),
    ],
)
def test_an_entry_that_no_longer_applies_is_a_fault(entry: Equivalent, alive: list[str], said: str) -> None:
    (line,) = faults([entry], {"": TEXT}, MADE, alive)
    assert said in line


@pytest.mark.parametrize(("kernel", "kind"), texts())
def test_the_catalogs_entries_name_mutants_that_exist(kernel: str, kind: str) -> None:
    mine = [entry for entry in equivalents.equivalents() if entry.is_about(kernel, kind)]
    alive = {entry.mutant for entry in mine}
    assert faults(mine, {"": source.text(kernel, kind)}, mutants(kernel, kind), alive) == []


def test_the_catalogs_entries_name_kernels_and_kinds_that_exist_and_none_twice() -> None:
    seen = set()
    for entry in equivalents.equivalents():
        known = {kind for kernel, kind in texts() if kernel in entry.kernels}
        assert set(entry.kinds) <= known | {"*"}
        for kernel in entry.kernels:
            registry.launch_kernel(kernel)
            for kind in known if entry.kinds == ("*",) else entry.kinds:
                assert (kernel, kind, entry.mutant) not in seen
                seen.add((kernel, kind, entry.mutant))


def test_a_catalogs_file_may_be_missing_and_is_named_where_it_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / equivalents.NAME
    assert equivalents.read(path) == ()
    path.write_text(ENTRY)
    assert equivalents.read(path) == parse(ENTRY)
    path.write_bytes(b"\xff")
    with pytest.raises(FarmError, match=f"^{path}: byte 0 is no UTF-8"):
        equivalents.read(path)
    path.write_text("x = 1")
    with pytest.raises(FarmError, match=f"^{path}: want"):
        equivalents.read(path)
