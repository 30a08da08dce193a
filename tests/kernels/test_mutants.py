"""Operators: each makes the mutants that it should, and nothing that equals the original."""

from __future__ import annotations

from functools import cache

import pytest

from kernels import ctext, mutants, registry, source
from kernels.mutants import of_text
from kernels.source import texts
from tests.workers.catalogs import written
from tests.workers.test_catalogs import NORM, PREPARE, SETUP

mutants_of = cache(mutants.mutants)


def kernel(statement: str, before: str = "") -> str:
    head = f"#define SIZE 4\n#define AT_D 0\n{before}"
    return f'{head}\nextern "C" __global__ void ENTRY(int *o) {{ {statement} }}'


def made(statement: str, operator: str, before: str = "") -> list[str]:
    """What stands there instead, by every mutant of one operator."""
    return [m.new for m in of_text(kernel(statement, before)) if m.operator == operator]


@pytest.mark.parametrize(
    ("statement", "operator", "new"),
    [
        ("o[i] = q >> 16;", "shift+1", ["17"]),
        ("o[i] = q >> 16;", "shift-1", ["15"]),
        ("o[i] = q >> n;", "operator", ["<<"]),
        ("o[i] = q & 0xFu;", "mask-narrow", ["0x7u"]),
        ("o[i] = q & 15;", "mask-wide", ["0x1f"]),
        ("o[i] = n + m;", "operator", ["-"]),
        ("o[i] = n + m * k;", "drop", ["", ""]),
        ("o[i] = 5;", "literal+1", ["6"]),
        ("o[i] = 0;", "literal-1", []),
        ("o[i] = 1.5f;", "float+1", ["(1.5f + 1.0f)"]),
        ("o[SIZE] = n;", "constant-1", ["(SIZE - 1)"]),
        ("__syncthreads();", "barrier", [""]),
        ("n = __shfl_down_sync(m, n, k);", "lanes", ["__shfl_up_sync"]),
        ("n = __shfl_xor_sync(m, n, k);", "lanes", ["__shfl_down_sync"]),
        ("n = __shfl_sync(m, n, k);", "lanes", ["__shfl_xor_sync"]),
        ("n = threadIdx.x;", "field", ["y"]),
        ("n = (signed char)m;", "sign", ["(unsigned char)"]),
        ("n = (int)m;", "sign", ["(unsigned int)"]),
        ("n = -m;", "sign-lost", [""]),
        ("n += m;", "assign", ["-="]),
        ("n += m;", "overwrite", ["="]),
        ("for (;; n += m) {}", "overwrite", []),
        ("for (;; ++i) {}", "step", ["i += 2"]),
        ("for (;; i++) {}", "step", ["i += 2"]),
        ("n = m[i++];", "step", []),
        ("for (int i = n; i < m; ++i) {}", "operator", ["<="]),
        ("if (n) m = k;", "if-always", ["(true)"]),
        ("if (n) m = k;", "if-never", ["(false)"]),
        ("n = m ? k : 2 * l;", "arms", ["2 * l : k"]),
        ("n = m ? k : l;", "arm-first", ["k : k"]),
        ("n = m && k;", "drop", [""]),
        ("__shared__ float s[SIZE];", "size", ["(SIZE) / 2"]),
        ("float s[SIZE];", "constant+1", []),
    ],
)
def test_operator_makes(statement: str, operator: str, new: list[str]) -> None:
    assert made(statement, operator) == new


@pytest.mark.parametrize("statement", ["o = p + AT_D;", "o = p - 0;"])
def test_a_zero_added_or_not_is_no_mutant(statement: str) -> None:
    assert made(statement, "drop") == made(statement, "operator") == []


def test_table_entries_are_one_off_and_stay_in_their_type() -> None:
    assert made("n = T[0];", "entry", "__device__ const signed char T[3] = {1, 127, -127};") == [
        "2",
        "126",
        "126",
    ]


def test_a_pointers_star_is_no_product() -> None:
    assert made("const unsigned char *p = *(const unsigned char **)q;", "operator") == []


def test_only_what_the_entry_reaches_is_mutated() -> None:
    unused = "__device__ int unused(int a) { return a + 1; }"
    assert of_text(kernel("o[0] = n;", unused)) == of_text(kernel("o[0] = n;", unused.replace("+", "-")))


def test_names_stay_when_comments_and_blanks_change() -> None:
    first = [m.name for m in of_text(kernel("o[0] = n + 1;"))]
    assert first == [m.name for m in of_text(kernel("o[0] =\n\n n  + /* one */ 1;"))]
    assert first[0] == "ENTRY:2:literal+1"


def test_apply_changes_the_place_that_line_and_column_name() -> None:
    text = kernel("o[0] = n + m;")
    (mutant,) = [m for m in of_text(text) if m.operator == "operator"]
    assert text.splitlines()[mutant.line - 1][mutant.column - 1] == "+"
    assert mutant.apply(text) == text.replace("n + m", "n - m")


@pytest.mark.parametrize(("kernel_id", "kind"), texts())
def test_no_mutant_equals_the_original_or_another(kernel_id: str, kind: str) -> None:
    text = source.text(kernel_id, kind)
    found = mutants_of(kernel_id, kind)
    most = 60 if len(text) < 20_000 else 6  # each is read again, which takes its time where tables are long
    some = found[:: max(7, len(found) // most)]
    words = {tuple(t.text for t in ctext.read(m.apply(text)).tokens) for m in some}
    assert len(words) == len(some) >= 3
    assert tuple(t.text for t in ctext.read(text).tokens) not in words


@pytest.mark.parametrize(("kernel_id", "kind"), texts())
def test_names_are_unique(kernel_id: str, kind: str) -> None:
    names = [m.name for m in mutants_of(kernel_id, kind)]
    assert len(names) == len(set(names)) > 10


def owners_of(name: str) -> dict[tuple[str, str], int]:
    """The texts that mutate the part of that name, and how many mutants of it they have."""
    counts = {text: sum(m.name.startswith(f"{name}:") for m in mutants_of(*text)) for text in texts()}
    return {text: count for text, count in counts.items() if count}


def test_a_helper_of_the_prelude_counts_once() -> None:
    (owner,) = owners_of("half_at")
    first = next(text for text in texts() if "half_at(block" in source.text(*text))
    assert owner == first


def test_a_long_table_counts_once_and_a_short_one_in_every_text() -> None:
    found = owners_of("GRID")
    assert found["matvec/block", "IQ2_XXS"] == 256
    assert found["matvec/block", "IQ1_M"] == 2048  # IQ1_S has the same one
    assert {kernel for kernel, _ in found} == {"matvec/block"}
    assert ("matvec/block", "IQ1_S") not in found
    assert len(found) == 6
    assert sum(kind == "MXFP4" for _, kind in owners_of("VALUES")) >= 3


def test_a_catalogs_mutants_are_those_of_each_of_its_files() -> None:
    mine = written(k_toml=SETUP, a_cu=PREPARE, b_cu=NORM)
    with registry.searching(mine.kernels):
        made = mutants.mutants("rmsnorm/mine", "")
    assert {m.unit for m in made} == {"a.cu", "b.cu"}
    assert all(m.name.startswith(f"{m.unit}:") for m in made)
    assert len({m.name for m in made}) == len(made) > 50
    assert {m.name.split(":")[1] for m in made} == {"helper", "prepare", "mine"}
