"""Mutants of a catalog's kernels: files of their own, launched and judged as a whole."""

from __future__ import annotations

from collections import Counter

import pytest

from kernels import mutants, registry
from kernels.declared.catalog import Catalog
from kernels.mutants import Mutant
from tests.workers.catalogs import edited, written
from tests.workers.test_catalogs import ADDS, IN_PLACE, NORM, PREPARE, SETUP, SILU, SILU_CU, TWIN
from workers import packs
from workers.backend import Unavailable
from workers.host import compiler
from workers.sabotage import Fate, Job, Judgement, Report
from workers.sabotage.__main__ import serve
from workers.sabotage.text import Text


@pytest.fixture(autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        compiler.find()
    except Unavailable as reason:
        pytest.skip(str(reason))
    monkeypatch.setenv("FARM_STATE", str(tmp_path_factory.getbasetemp() / "sabotage"))


def made(mine: Catalog, kind: str) -> tuple[Mutant, ...]:
    (kernel,) = mine.kernels
    with registry.searching(mine.kernels):
        return mutants.mutants(kernel, kind)


def told(mine: Catalog, kind: str, *only: str) -> tuple[dict[str, Judgement], Report]:
    """What is said of the catalog's one kernel: of these mutants, or of all."""
    packs.keep(mine.pack, packs.store())
    (kernel,) = mine.kernels
    job = Job(kernel, kind, only, mine.pack.address, str(packs.store()))
    *judgements, report = serve(job)
    assert isinstance(report, Report)
    return {one.mutant: one for one in judgements if isinstance(one, Judgement)}, report


def fates(mine: Catalog, kind: str, *only: str) -> dict[str, Fate]:
    found, report = told(mine, kind, *only)
    assert (report.failure, bool(report.cases)) == ("", True)
    return {name: one.fate for name, one in found.items()}


def of(mine: Catalog, kind: str, *edits: tuple[str, str]) -> list[str]:
    """The names of the mutants that change a line with the first word into one with the second."""
    (kernel,) = mine.kernels.values()
    names = []
    for old, new in edits:
        fitting = [
            one.name
            for one in made(mine, kind)
            if old in kernel.text(kind, one.unit).splitlines()[one.line - 1]
            and new in one.apply(kernel.text(kind, one.unit)).splitlines()[one.line - 1]
        ]
        assert len(fitting) == 1, (old, new, fitting)
        names += fitting
    return names


def test_a_plain_kernel_is_mutated_and_each_mutant_meets_its_rule() -> None:
    mine = edited("walk")
    names = of(
        mine, "Q8_0", ("p[0] | p[1] << 8", "p[0] | p[1] << 9"), ("row >= rows", "if (row > rows)"),
        ("step > 0", "step >= 0"), ("fraction = bits & 1023u", "bits & 0x7ffu"),
    )  # fmt: skip
    wanted = (Fate.BOUND, Fate.CRASH, Fate.TIMEOUT, Fate.SURVIVED)
    assert fates(mine, "Q8_0", *names) == dict(zip(names, wanted, strict=True))


def test_a_block_of_another_size_is_a_mutant() -> None:
    mine = edited("walk")
    (name,) = of(mine, "Q8_0", ("int8_t q[32]", "q[31]"))
    assert fates(mine, "Q8_0", name)[name].killed


def test_templates_in_a_namespace_with_includes_and_scratch_are_mutated() -> None:
    mine = edited("engine")
    names = of(
        mine, "Q4_0", (") - 8", ") - 7"), ("most / 127.0f", "most * 127.0f"),
        ("dot += from", "dot -= from"), ("x[b].q[i]", "dot = from"), ("block < blocks", "block <= blocks"),
    )  # fmt: skip
    found = fates(mine, "Q4_0", *names)
    assert [found[name] for name in names[:4]] == [Fate.BOUND] * 4
    assert found[names[4]] in (Fate.CRASH, Fate.GUARDS)  # by the case: it reads and writes a block too many


def test_what_another_kind_reads_is_the_same_code() -> None:
    mine = edited("engine")
    names = of(mine, "Q8_0", (") - 8", ") - 7"))
    assert fates(mine, "Q8_0", *names) == {names[0]: Fate.SAME}


def test_files_are_mutated_one_by_one_and_the_right_ones_run_beside() -> None:
    mine = written(k_toml=SETUP, a_cu=PREPARE, b_cu=NORM)
    names = of(mine, "", ("return 2.0f * x", "2.0f + x"), ("return 0.5f * x", "0.5f + x"))
    assert [name.split(":")[0] for name in names] == ["a.cu", "b.cu"]
    assert fates(mine, "", *names) == dict.fromkeys(names, Fate.BOUND)


GUARDED = """
#ifndef MINE_H
#define MINE_H
#include <cmath>
#define HALF (1 << 5)
extern "C" {
static __device__ float e(float x) { return expf(-x); }
}
#endif
"""


def test_include_guards_macros_and_c_linkage_do_not_stop_a_batch() -> None:
    text = '#include "mine.h"\nextern "C" ' + SILU_CU.strip().replace("expf(-gate[i])", "e(gate[i])")
    mine = written(k_toml=SILU, k_cu=text, mine_h=GUARDED)
    every = made(mine, "")
    found = fates(mine, "")
    assert len(found) == len(every) >= 15
    assert Counter(found.values())[Fate.SURVIVED] == 0
    (kernel,) = mine.kernels.values()
    joined = Text(kernel.text("", "k.cu"), "k.cu", "k.cu", ("mine",)).joined(every[:2])
    assert (joined.count("#include <cmath>"), joined.count("#undef MINE_H"), joined.count('extern "C"')) == (
        1,
        2,
        0,
    )


def test_a_text_that_stands_in_no_namespace_is_judged_mutant_by_mutant() -> None:
    mine = written(
        k_toml=SILU, k_cu="namespace std { struct mine {}; }\nstd::mine unused; ::std::mine u;" + SILU_CU
    )
    names = of(mine, "", ("* up[i]", "+ up[i]"), ("i < n", "i <= n"))
    assert fates(mine, "", *names) == dict(zip(names, (Fate.BOUND, Fate.GUARDS), strict=True))


def test_a_declared_twin_judges_too() -> None:
    toml = SILU.replace("[[step]]", 'twin = "t.py::silu"\n[[step]]')
    mine = written(k_toml=toml, k_cu=SILU_CU, t_py=TWIN)
    names = of(mine, "", ("* up[i]", "+ up[i]"))
    assert fates(mine, "", *names) == {names[0]: Fate.BOUND}
    wrong = written(k_toml=toml, k_cu=SILU_CU, t_py=TWIN.replace("len(gate)", "0"))
    assert told(wrong, "")[1].failure == "t.py:7: the twin failed with AssertionError"


@pytest.mark.parametrize(
    ("edits", "text", "alive"),
    [
        ((('"up", "out"', '"out"'), ("[[step]]", '[outputs.out]\ninout = "up"\n[[step]]')), IN_PLACE, []),
        ((("[[step]]", '[outputs.out]\nfill = "zero"\n[[step]]'),), ADDS, ["overwrite"]),
        ((("[[step]]", "[outputs.out]\ndeterministic = false\n[[step]]"),), SILU_CU, []),
    ],
)
def test_an_output_holds_what_it_is_declared_to_before_every_run(
    edits: tuple[tuple[str, str], ...], text: str, alive: list[str]
) -> None:
    """What is added to zeros may as well take their place."""
    toml = SILU
    for edit in edits:
        toml = toml.replace(*edit)
    mine = written(k_toml=toml, k_cu=text)
    found = fates(mine, "")
    assert len(found) >= 15
    assert [name.split(":")[-1] for name, fate in found.items() if fate is Fate.SURVIVED] == alive


ROUNDS = """
__device__ float half(float x) { return x * 1.0001f; }
""" + SILU_CU.replace("* up[i]", "* half(up[i])")


def test_a_usual_rule_that_the_right_kernel_breaks_is_not_asked() -> None:
    """Off by 1e-4 of itself, as declared: the relative rule can't tell it from a wrong one."""
    toml = SILU.replace("[[step]]", '[tolerance]\nreason = "rounds"\nrelative = 1e-3\n[[step]]')
    mine = written(k_toml=toml, k_cu=ROUNDS)
    names = of(mine, "", ("* half(up[i])", "+ half(up[i])"))
    found, report = told(mine, "", *names)
    assert (report.failure, found[names[0]].fate) == ("", Fate.BOUND)


def test_a_kernel_that_is_wrong_itself_is_not_mutated() -> None:
    failure = told(edited("walk", {"rows.cu": (("step = 16", "step = 8"),)}), "Q8_0")[1].failure
    assert failure.startswith("the right kernel itself is killed by case "), failure
    refused = told(edited("walk", {"rows.cu": (("float sum", "flaot sum"),)}), "Q8_0")[1].failure
    assert refused == "the right text itself doesn't compile in the exact build"
