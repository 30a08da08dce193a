"""From names to jobs, from judgements to scores, and what the command says and exits with."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from farm.cli import main
from farm.reader import kinds_of
from farm.sabotage import Outcome, Tally, jobs, outcome
from kernels import catalog, equivalents, registry, source
from kernels.equivalents import Equivalent, changed_line
from kernels.errors import UsageError
from kernels.mutants import mutants
from workers.backend import Unavailable
from workers.host import compiler
from workers.sabotage import Fate, Job, Judgement, Report

JOB = Job("silu_mul/flat", "")
MADE = mutants(JOB.kernel, JOB.kind)
PLANTED = MADE[0]
ARGUED = Equivalent(
    (JOB.kernel,), ("*",), PLANTED.name, changed_line(source.text(JOB.kernel, ""), PLANTED), "an argument"
)


def judged(alive: tuple[str, ...] = (), refused: tuple[str, ...] = ()) -> Tally:
    """A job whose mutants are all killed by the bound, but for those named."""
    tally = Tally(JOB)
    for mutant in MADE:
        fate = (
            Fate.SURVIVED if mutant.name in alive else Fate.COMPILE if mutant.name in refused else Fate.BOUND
        )
        tally.take(Judgement(mutant.name, fate, "", "", fate.killed, False))
    tally.take(Report(20, 1.0))
    return tally


def found(tally: Tally, *entries: Equivalent) -> Outcome:
    return outcome(tally, 7, entries)


def test_all_is_every_text_once() -> None:
    chosen = jobs([], True, [])
    launched = {
        (part, kind)
        for cell in catalog.cells()
        for part, kind in registry.kernel(f"{cell.op}/{cell.kernel}").parts(kinds_of(cell.op, cell.kind))
    }
    assert len(chosen) == len(set(chosen))
    assert {(job.kernel, job.kind) for job in chosen} == launched
    assert {("matvec/block", "Q4_0"), ("rmsnorm/block", "")} <= launched


def test_kinds_narrow_the_choice() -> None:
    assert jobs(["matvec/block"], False, ["q4_k"]) == [Job("matvec/block", "Q4_K")]
    assert jobs(["matvec/block"], False, ["F32"]) == [Job("matvec/block", "F32")]
    assert {job.kind for job in jobs([], True, ["F32"])} == {"F32", ""}


@pytest.mark.parametrize(
    ("names", "every", "kinds", "said"),
    [
        ([], False, [], "name kernels"),
        (["matvec/block"], True, [], "name kernels"),
        (["matvec/none"], False, [], "no kernel named 'matvec/none'"),
        (["ffn/block"], False, [], "ffn/block has no text of its own"),
        (["rmsnorm/block"], False, ["Q4_0"], "rmsnorm/block has no text of its own for these kinds"),
        (["matvec/block"], False, ["Q9_Z"], "no kind named 'Q9_Z'"),
    ],
)
def test_a_choice_of_nothing_is_refused(names: list[str], every: bool, kinds: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        jobs(names, every, kinds)


def test_a_planted_survivor_is_detected_and_shown() -> None:
    one = found(judged(alive=(PLANTED.name,)))
    (survivor,) = one.survivors
    assert (survivor.mutant, survivor.line) == (PLANTED.name, PLANTED.line)
    assert survivor.was != survivor.now == ARGUED.now
    assert one.score.survivors == (PLANTED.name,)
    assert one.score.score == (len(MADE) - 1) / len(MADE)


def test_a_survivor_with_an_argument_is_counted_and_no_fault() -> None:
    one = found(judged(alive=(PLANTED.name,)), ARGUED)
    assert (one.survivors, one.faults, one.score.equivalents, one.score.score) == ((), (), 1, 1.0)


def test_an_argument_for_a_killed_mutant_is_a_fault() -> None:
    (line,) = found(judged(), ARGUED).faults
    assert "a rule kills it now" in line


def test_an_argument_about_another_kernel_is_none_here() -> None:
    assert found(judged(), replace(ARGUED, kernels=("rmsnorm/block",))).faults == ()


def test_too_many_arguments_are_a_fault() -> None:
    names = tuple(mutant.name for mutant in MADE[:3])
    text = source.text(JOB.kernel, "")
    entries = [replace(ARGUED, mutant=m.name, now=changed_line(text, m)) for m in MADE[:3]]
    (line,) = found(judged(alive=names), *entries).faults
    assert "3 of 19 mutants are entered as equivalent; the most is 10%" in line


def test_what_does_not_compile_is_not_counted() -> None:
    score = found(judged(refused=(PLANTED.name,))).score
    assert (score.mutants, score.compiled, dict(score.killed)["bound"]) == (19, 18, 18)
    assert (score.by_relative, score.by_nmse, score.score) == (18, 0, 1.0)


# ---- the command, with one small kernel ----


@pytest.fixture
def farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    try:
        compiler.find()
    except Unavailable as reason:
        pytest.skip(str(reason))
    monkeypatch.setenv("FARM_STATE", str(tmp_path))
    url = f"sqlite:///{tmp_path}/farm.db"
    return lambda *args: CliRunner().invoke(main, [*args, "--db", url])


def test_the_command_judges_stores_and_exports(farm: Callable[..., Result]) -> None:
    result = farm("sabotage", "silu_mul/flat", "--json", "--processes", "1")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    (score,) = document["sabotage"]
    assert (score["kernel"], score["kind"], score["mutants"], score["score"]) == (
        "silu_mul/flat",
        "F32",
        19,
        1.0,
    )
    assert len(document["judgements"]) == 19
    exported = json.loads(farm("export", "--format", "json").stdout)["sabotage"]
    assert [(row["kernel"], row["score"], row["stale"]) for row in exported] == [
        ("silu_mul/flat", 1.0, False)
    ]
    assert "| silu_mul/flat | F32 | 19 | 19 |" in farm("export").stdout


def test_without_a_compiler_one_line_says_so(
    farm: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    result = farm("sabotage", "--all")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert "no-such-compiler" in result.stderr


def test_a_survivor_in_the_end_is_a_diff_and_3(
    farm: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What matvec/block leaves alive for MXFP4 is argued for: without the arguments it is shown."""
    argued = [entry for entry in equivalents.equivalents() if entry.is_about("matvec/block", "MXFP4")]
    monkeypatch.setattr(equivalents, "equivalents", lambda: ())
    result = farm("sabotage", "matvec/block", "--kind", "MXFP4", "--processes", "1")
    assert result.exit_code == 3
    shown = re.findall(r"nothing kills (\S+);", result.stdout)
    assert sorted(shown) == sorted(entry.mutant for entry in argued)
    assert all(f"\n+ {entry.now}\n" in result.stdout for entry in argued)


@pytest.mark.parametrize("words", [(), ("--all", "silu_mul/flat"), ("ffn/block",)])
def test_a_wrong_command_line_is_one_line_and_2(farm: Callable[..., Result], words: tuple[str, ...]) -> None:
    result = farm("sabotage", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
