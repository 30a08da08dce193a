"""The filter line: what each word lets through, and what it says about words that it doesn't know."""

from __future__ import annotations

from dataclasses import replace

import pytest

from farm.matrix import Cell, Column
from farm.web.query import DAY_US, KEYS, parse, with_words
from kernels.errors import UsageError
from kernels.evidence import Verdict

NOW_US = 1000 * DAY_US
COLUMN = Column("rtx-3060", "rtx-3060-ab", "NVIDIA GeForce RTX 3060", "GPU-ab12", "cuda", "sm_86")
CELL = Cell(
    "rtx-3060", "rtx-3060-ab", "cuda", "ffn", "coalesced", "Q4_K+Q4_K+Q6_K", "exact", Verdict.FAIL,
    ("stale",), ("twin", "host"), 3, 99, 1.5, 1.5, 0.1, False, "d" * 64, NOW_US - 10 * DAY_US, "wrong",
)  # fmt: skip
NEVER = replace(CELL, verdict=None, flags=(), rungs=(), bound_ratio=None, last_run_us=None)


def fits(line: str, cell: Cell = CELL) -> bool:
    return parse(line).fits(cell, COLUMN, NOW_US)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("verdict:fail", "verdict:pass"),
        ("verdict:BAD", "verdict:never"),
        ("kind:q6_k", "kind:Q5_K"),
        ("kind:q4_k+q4_k+q6_k", "kind:Q4"),
        ("op:ffn", "op:matvec"),
        ("kernel:coal*", "kernel:coal"),
        ("build:exact", "build:default"),
        ("backend:cuda", "backend:host"),
        ("device:rtx-30*", "device:rtx-40*"),
        ("device:GPU-AB12", "device:GPU-cd"),
        ("sm:86", "sm:80"),
        ("sm:>=86", "sm:>86"),
        ("sm:<sm_90", "sm:<=75"),
        ("since:30d", "since:9d"),
        ("before:9d", "before:30d"),
        ("flag:stale", "flag:flaky"),
        ("rung:host", "rung:exact"),
        ("margin:>1", "margin:<=1"),
        ("geforce", "radeon"),
        ("COALESCED", "block"),
    ],
)
def test_a_word_lets_its_own_through(right: str, wrong: str) -> None:
    assert fits(right)
    assert not fits(wrong)


def test_words_of_one_key_are_alternatives_and_keys_go_together() -> None:
    assert fits("verdict:pass verdict:fail op:ffn")
    assert not fits("verdict:pass verdict:fail op:matvec")
    assert not fits("coalesced radeon")
    assert fits("")


@pytest.mark.parametrize("line", ["verdict:never"])
def test_what_was_never_run(line: str) -> None:
    assert fits(line, NEVER)
    for other in ("since:999d", "before:1d", "margin:<9", "verdict:bad", "rung:twin"):
        assert not fits(other, NEVER)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("vedict:fail", "no filter named 'vedict'; did you mean 'verdict'|there are verdict, op"),
        ("verdict:failed", "no verdict named 'failed'"),
        ("flag:odd", "no flag named 'odd'"),
        ("rung:top", "no rung named 'top'"),
        ("sm:ampere", "filter sm:ampere is no number; write sm:86 or sm:>=86"),
        ("since:month", "filter since:month is no number of days; write since:30d"),
        ("kind:", "filter kind: without a value; write kind:Q4_K"),
        ("x" * 501, "a filter of 501 characters; 500 are the most"),
    ],
)
def test_a_wrong_word_is_named_with_what_there_is(line: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parse(line)


def test_every_key_has_an_example_that_parses() -> None:
    examples = [rule[1].split(",")[0].split(" ")[0] for rule in KEYS.values()]
    assert len(examples) == 14
    for example in examples:
        assert len(parse(example).tests) == 1


def test_a_chosen_value_replaces_its_keys_words() -> None:
    line = "coalesced kind:Q4_0 KIND:Q5_0 verdict:fail"
    assert with_words(line, {"kind": "Q6_K"}) == "coalesced verdict:fail kind:Q6_K"
    assert with_words(line, {"kind": "", "op": "ffn"}) == "coalesced verdict:fail op:ffn"
    assert parse(line).first == {"kind": "Q4_0", "verdict": "fail"}
    assert [parse(text).is_dated for text in ("since:3d", "op:ffn", "before:3d")] == [True, False, True]
