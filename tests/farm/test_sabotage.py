"""From names to jobs, from judgements to scores, and what the command says and exits with."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from farm import sabotage_record
from farm.cli import main
from farm.reader import kinds_of
from farm.sabotage import Outcome, Tally, jobs, outcome
from farm.sabotage_record import Recorded
from kernels import catalog, equivalents, registry, source
from kernels.declared.cubin import HEADER, MACHINE
from kernels.equivalents import Equivalent, changed_line
from kernels.errors import UsageError
from kernels.mutants import Mutant, mutants
from tests.workers.test_catalogs import ADDS, SILU
from workers import packs
from workers.backend import Unavailable
from workers.host import compiler
from workers.sabotage import Fate, Job, Judgement, Report

JOB = Job("silu_mul/flat", "")
KEY = (JOB.kernel, catalog.NO_KIND)
MADE = mutants(JOB.kernel, JOB.kind)
PLANTED = MADE[0]
ARGUED = Equivalent(
    (JOB.kernel,), ("*",), PLANTED.name, changed_line(source.text(JOB.kernel, ""), PLANTED), "an argument"
)


def judged(alive: tuple[str, ...] = (), refused: tuple[str, ...] = (), same: tuple[str, ...] = ()) -> Tally:
    """A job whose mutants are all killed by the bound, but for those named."""
    tally = Tally(JOB)
    named = dict.fromkeys(alive, Fate.SURVIVED) | dict.fromkeys(refused, Fate.COMPILE)
    named |= dict.fromkeys(same, Fate.SAME)
    for mutant in MADE:
        fate = named.get(mutant.name, Fate.BOUND)
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


def test_an_argument_for_what_this_compiler_finds_the_same_is_no_fault_and_not_counted() -> None:
    one = found(judged(same=(PLANTED.name,)), ARGUED)
    assert (one.faults, one.score.equivalents, one.score.same) == ((), 0, 1)


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


# ---- a user's catalog ----

CUBIN = HEADER.pack(b"\x7fELF\2\1\1\x33\7" + bytes(7), 2, MACHINE, 1, 0, 0, 0, 86)
ADDS_TOML = SILU.replace("[[step]]", '[outputs.out]\nfill = "zero"\n[[step]]')


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One kernel that adds to zeros: that it may as well overwrite them is the one mutant that survives."""
    found = tmp_path / "mine"
    found.mkdir()
    (found / "k.toml").write_text(ADDS_TOML)
    (found / "k.cu").write_text(ADDS)
    return found


def argue(folder: Path, survivor: dict[str, str], **fields: str) -> None:
    entry = {"mutant": survivor["mutant"], "now": survivor["now"], "why": "The output holds zeros."} | fields
    lines = [f"{name} = {json.dumps(value)}" for name, value in entry.items() if name != "kernels"]
    kernels = f"kernels = [{json.dumps(fields.get('kernels', 'silu_mul/mine'))}]"
    (folder / "equivalents.toml").write_text("\n".join(["[[equivalent]]", kernels, 'kinds = ["*"]', *lines]))


def test_a_catalog_is_mutated_and_its_file_of_equivalents_is_heard(
    farm: Callable[..., Result], folder: Path
) -> None:
    before = packs.read(folder).address
    first = farm("sabotage", "--catalog", str(folder), "--json")
    assert first.exit_code == 3, first.stderr
    (survivor,) = json.loads(first.stdout)["survivors"]
    assert (survivor["file"], survivor["line"]) == ("k.cu", 4)
    assert survivor["now"] == survivor["was"].replace("+=", "=", 1)
    shown = farm("sabotage", "--catalog", str(folder), "silu_mul/mine").stdout
    assert f"nothing kills {survivor['mutant']}\nk.cu:4\n- {survivor['was']}\n" in shown
    argue(folder, survivor)
    assert packs.read(folder).address == before  # it is no part of the catalog
    last = farm("sabotage", "--catalog", str(folder), "--all", "--json")
    assert last.exit_code == 0, last.stderr
    (score,) = json.loads(last.stdout)["sabotage"]
    assert (score["kernel"], score["equivalents"], score["score"]) == ("silu_mul/mine", 1, 1.0)
    exported = json.loads(farm("export", "--format", "json").stdout)["sabotage"]
    assert [(row["kernel"], row["source_digest"], row["stale"]) for row in exported] == [
        ("silu_mul/mine", score["source_digest"], False)
    ]
    assert "| silu_mul/mine | F32 | " in farm("export").stdout


def test_a_score_is_stale_when_another_source_of_the_kernel_came(
    farm: Callable[..., Result], folder: Path
) -> None:
    farm("sabotage", "--catalog", str(folder))
    (folder / "k.cu").write_text(ADDS.replace("* 64", "* 64 + 0"))
    submitted = farm("submit", "--catalog", str(folder), "--shape", "300", "--detach")
    assert submitted.exit_code == 0, submitted.stderr
    (row,) = json.loads(farm("export", "--format", "json").stdout)["sabotage"]
    assert row["stale"] is True


@pytest.mark.parametrize(
    ("fields", "code", "said"),
    [
        (
            {"kernels": "silu_mul/flat"},
            2,
            "equivalents.toml: entry 1 is about silu_mul/flat, the catalog has silu",
        ),
        ({"why": ""}, 1, "equivalents.toml: entry 1 has an empty why; every entry gives its argument"),
    ],
)
def test_a_wrong_argument_is_one_line_with_its_file(
    farm: Callable[..., Result], folder: Path, fields: dict[str, str], code: int, said: str
) -> None:
    argue(folder, {"mutant": "mine:1:drop", "now": "x"}, **fields)
    result = farm("sabotage", "--catalog", str(folder))
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (code, "", 1)
    assert said in result.stderr


def test_an_argument_about_no_mutant_is_a_fault_of_that_file(
    farm: Callable[..., Result], folder: Path
) -> None:
    argue(folder, {"mutant": "mine:1:drop", "now": "x"})
    result = farm("sabotage", "--catalog", str(folder))
    assert result.exit_code == 3
    assert f"{folder}/equivalents.toml: mine:1:drop: there is no such mutant any more" in result.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("matvec/block",), "no kernel of the catalog named 'matvec/block'; there are silu_mul/mine"),
        (("--all", "silu_mul/mine"), "name kernels, or say --all"),
        (("--kind", "Q4_0"), "no kernel named is declared for Q4_0"),
    ],
)
def test_words_that_do_not_fit_a_catalog(
    farm: Callable[..., Result], folder: Path, words: tuple[str, ...], said: str
) -> None:
    result = farm("sabotage", "--catalog", str(folder), *words)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert said in result.stderr


def test_a_cubin_has_no_text_to_mutate(farm: Callable[..., Result], folder: Path) -> None:
    (folder / "k.cubin").write_bytes(CUBIN)
    (folder / "k.toml").write_text(ADDS_TOML.replace("k.cu::", "k.cubin::"))
    result = farm("sabotage", "--catalog", str(folder))
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "silu_mul/mine F32 launches k.cubin, which no host runs; name the other kernels" in result.stderr


def test_a_kernel_that_fails_itself_is_not_scored(farm: Callable[..., Result], folder: Path) -> None:
    (folder / "k.cu").write_text(ADDS.replace("* up[i]", "+ up[i]"))
    result = farm("sabotage", "--catalog", str(folder))
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert (
        "silu_mul/mine F32 could not be judged: the right kernel itself is killed by case " in result.stderr
    )
    assert json.loads(farm("export", "--format", "json").stdout)["sabotage"] == []


def test_a_record_is_continued_and_only_what_changed_or_survived_is_judged_again(tmp_path: Path) -> None:
    path, url = tmp_path / "scores.jsonl", f"sqlite:///{tmp_path}/farm.db"
    words = ["sabotage", "silu_mul/flat", "--record", str(path), "--db", url]
    first = CliRunner().invoke(main, words)
    assert (first.exit_code, len(path.read_text().splitlines())) == (0, 1)
    again = CliRunner().invoke(main, words)
    assert again.exit_code == 0
    assert again.stderr == f"1 of 1 texts are in {path} as they are today\n"
    (one,) = sabotage_record.read(path).values()
    assert one.open is not None
    entries = equivalents.equivalents()
    fewer = replace(one, open=replace(one.open, cases=one.open.cases[1:]))
    for right in (one, replace(one, open=None), fewer):
        assert sabotage_record.left([JOB], {KEY: right}, entries) == []
    score, left = one.score, one.open
    for wrong in (
        replace(one, score=replace(score, source_digest="0" * 64)),
        replace(one, score=replace(score, survivors=("f:1:drop",))),
        replace(one, score=replace(score, mutants=score.mutants + 1)),
        replace(one, open=replace(left, cases=("0" * 12,))),
        replace(one, open=replace(left, argued=(*left.argued, "f:1:drop"))),
        Recorded(replace(score, cases=score.cases + 1)),
        Recorded(replace(score, equivalents=score.equivalents + 1)),
    ):
        assert sabotage_record.left([JOB], {KEY: wrong}, entries) == [JOB]
    path.write_text(path.read_text() + "{}\n")
    refused = CliRunner().invoke(main, words)
    assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1)
    assert f"{path}:2 is no score of farm sabotage --record" in refused.stderr
    assert "; delete that line" in refused.stderr


def test_arguments_about_recorded_texts_are_held_against_what_was_alive_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "scores.jsonl"
    judgement = found(judged(alive=(PLANTED.name,)), ARGUED)
    assert judgement.recorded.open is not None
    assert judgement.recorded.open.argued == (PLANTED.name,)
    sabotage_record.append(path, judgement.recorded)
    words = ["sabotage", JOB.kernel, "--record", str(path), "--db", f"sqlite:///{tmp_path}/farm.db"]
    entries = [ARGUED]
    monkeypatch.setattr("farm.cli.sabotage.equivalents.equivalents", lambda: tuple(entries))
    assert CliRunner().invoke(main, words).exit_code == 0
    entries += [replace(ARGUED, mutant=MADE[1].name, now=_now(MADE[1])), replace(ARGUED, mutant="f:9:drop")]
    said = CliRunner().invoke(main, words)
    assert said.exit_code == 3
    assert said.stderr.splitlines()[1:] == [
        f"silu_mul/flat F32: kernels/equivalents.toml: {MADE[1].name}: a rule kills it now, so it isn't "
        "equivalent",
        "silu_mul/flat F32: kernels/equivalents.toml: f:9:drop: there is no such mutant any more",
    ]


def _now(mutant: Mutant) -> str:
    return changed_line(source.text(JOB.kernel, ""), mutant)


def test_a_record_that_cannot_be_written_is_told_before_anything_is_judged(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    record = str(tmp_path / "file" / "record.jsonl")
    refused = CliRunner().invoke(main, ["sabotage", "silu_mul/flat", "--record", record])
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr == f"farm: can't write {record}: File exists; name another --record\n"
