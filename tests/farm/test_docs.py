"""farm docs: files written whole or not at all, the hook, the action, and this project's own page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from farm.claims import DAY_US
from farm.cli import main
from kernels.evidence import Verdict
from tests.farm.lines import case_of, database_with, line_of

ROOT = Path(__file__).resolve().parents[2]
EVIDENCE, PAGE = ROOT / "docs/evidence/host.jsonl", ROOT / "docs/CAPABILITIES.md"
NAME = "cpu-x86_64/host/matvec/block/Q4_0/exact"
MARKED = f"It is <!-- farm:cell {NAME} --><!-- farm:end -->.\n"

Docs = Callable[..., Result]


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Docs:
    """Runs farm docs in a folder with a database that has one PASS."""
    url = database_with(tmp_path, [line_of()])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.md").write_text(MARKED)
    (tmp_path / "plain.md").write_text("# Plain\n")
    return lambda *words: CliRunner().invoke(main, ["docs", *words, "--db", url])


def test_write_then_check_then_a_claim_too_many(docs: Docs, tmp_path: Path) -> None:
    assert docs("write", "a.md").exit_code == 0
    text = (tmp_path / "a.md").read_text()
    assert "-->PASS, 1 cases, rungs twin host exact, 1970-01-01<!--" in text
    assert docs("check", "a.md").exit_code == 0
    (tmp_path / "a.md").write_text(text.replace("1 cases", "2 cases"))
    wrong = docs("check", "a.md")
    assert (wrong.exit_code, wrong.stderr) == (3, "1 regions in 1 files, 1 claims without evidence\n")
    assert wrong.stdout.startswith(f"a.md:1: {NAME} says 'PASS, 2 cases")
    assert "2 cases" in (tmp_path / "a.md").read_text()


def test_findings_as_json(docs: Docs) -> None:
    found = json.loads(docs("check", "--json", "a.md").stdout)
    assert (found["schema"], found["regions"]) == (1, 1)
    assert [(one["file"], one["line"]) for one in found["findings"]] == [("a.md", 1)]


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("<!-- farm:matrix -->\n", 2, "b.md:1: farm:matrix without an end"),
        ("# Nothing\n", 2, "b.md has no region; mark one: <!-- farm:matrix"),
        ("\n<!-- farm:matrix device=h900 --><!-- farm:end -->", 2, "b.md:2: no device matches 'h900'"),
        ("\xff", 1, "b.md: byte 0 is no UTF-8"),
    ],
)
@pytest.mark.parametrize("word", ["write", "check"])
def test_one_wrong_file_leaves_all_of_them_alone(
    word: str, text: str, code: int, says: str, docs: Docs, tmp_path: Path
) -> None:
    (tmp_path / "b.md").write_bytes(text.encode("latin-1"))
    result = docs(word, "a.md", "b.md")
    assert (result.exit_code, result.stderr.count("\n")) == (code, 1)
    assert says in result.stderr
    assert (tmp_path / "a.md").read_text() == MARKED
    assert (tmp_path / "b.md").read_bytes() == text.encode("latin-1")


def test_a_plain_file_is_passed_over_when_told_so(docs: Docs, tmp_path: Path) -> None:
    assert docs("write", "--if-marked", "plain.md", "a.md").exit_code == 0
    assert (tmp_path / "plain.md").read_text() == "# Plain\n"
    assert docs("check", "--if-marked", "plain.md").stderr.startswith("0 regions in 0 files")


def test_a_file_keeps_its_mode(docs: Docs, tmp_path: Path) -> None:
    os.chmod(tmp_path / "a.md", 0o640)
    assert docs("write", "a.md").exit_code == 0
    assert (tmp_path / "a.md").stat().st_mode & 0o777 == 0o640


def test_a_verdict_that_got_worse_is_found(docs: Docs, tmp_path: Path) -> None:
    assert docs("write", "a.md").exit_code == 0
    (tmp_path / "later").mkdir()
    url = database_with(tmp_path / "later", [line_of(Verdict.FAIL)])
    result = CliRunner().invoke(main, ["docs", "check", "--db", url, "a.md"])
    assert result.exit_code == 3
    assert "the evidence says 'FAIL, 1 cases" in result.stdout


def test_an_old_case_is_found_behind_a_newer_one_and_behind_trouble(docs: Docs, tmp_path: Path) -> None:
    now_us = time.time_ns() // 1000
    made = [line_of(), line_of(case=case_of(rows=4)), line_of(Verdict.LOST)]
    ended = [now_us - 40 * DAY_US, now_us - DAY_US, now_us - DAY_US]
    (tmp_path / "aged").mkdir()
    lines = [replace(line, started_us=us - 9, finished_us=us) for line, us in zip(made, ended, strict=True)]
    url = database_with(tmp_path / "aged", lines)
    words = ["docs", "check", "a.md", "--db", url]
    assert CliRunner().invoke(main, ["docs", "write", "a.md", "--db", url]).exit_code == 0
    assert CliRunner().invoke(main, [*words, "--max-age", "41"]).exit_code == 0
    told = CliRunner().invoke(main, [*words, "--max-age", "39"])
    assert (told.exit_code, told.stdout.count("\n")) == (3, 1)
    assert f"a.md:1: {NAME} shows cpu-x86_64-aaaa/host/matvec/block/Q4_0/exact PASS; a case" in told.stdout


def test_this_projects_pages_claim_what_their_evidence_says(docs: Docs) -> None:
    result = docs("check", "--evidence", str(EVIDENCE), str(PAGE), str(ROOT / "README.md"))
    assert (result.exit_code, result.stdout) == (0, ""), result.stdout
    assert result.stderr == "4 regions in 2 files, 0 claims without evidence\n"


def test_this_projects_page_with_one_word_changed_is_found(docs: Docs, tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf8").replace("| PASS |", "| PASS (stale) |", 1)
    (tmp_path / "page.md").write_text(text, encoding="utf8")
    assert docs("check", "--evidence", str(EVIDENCE), "page.md").exit_code == 3


def test_evidence_that_was_changed_by_hand_is_refused(docs: Docs, tmp_path: Path) -> None:
    text = EVIDENCE.read_text().replace('"verdict":"PASS"', '"verdict":"FAIL"', 1)
    (tmp_path / "changed.jsonl").write_text(text)
    result = docs("check", "--evidence", "changed.jsonl", str(PAGE))
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "changed.jsonl" in result.stderr


def test_the_hooks_call_what_there_is(docs: Docs) -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert [hook["id"] for hook in hooks] == ["farm-docs-check", "farm-docs-write"]
    codes = []
    for hook in reversed(hooks):
        farm, command, *words = hook["entry"].split()
        assert (farm, command) == ("farm", "docs")
        codes.append(docs(*words, "a.md", "plain.md").exit_code)
    assert codes == [0, 0]


def test_the_action_fails_where_a_claim_has_no_evidence(docs: Docs, tmp_path: Path) -> None:
    """The step's own script, with the farm that is tested in place of an installed one."""
    action: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
    script = action["runs"]["steps"][1]
    assert set(script["env"]) == {"FILES", "EVIDENCE", "MAX_AGE", "FARM_DB"}
    assert "${{" not in script["run"]
    (tmp_path / "kernel-farm/bin").mkdir(parents=True)
    farm = tmp_path / "kernel-farm/bin/farm"
    farm.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m farm "$@"\n')
    farm.chmod(0o755)
    (tmp_path / "plain.md").unlink()
    bundle, database = {"EVIDENCE": str(EVIDENCE)}, {"FARM_DB": f"sqlite:///{tmp_path / 'farm.db'}"}
    assert docs("write", "a.md").exit_code == 0
    right = (tmp_path / "a.md").read_text()  # of 1970
    codes = []
    for text, given in (
        (PAGE.read_text(encoding="utf8"), bundle),
        (MARKED, bundle),
        (right, database),
        (right, database | {"MAX_AGE": "9999"}),
    ):
        (tmp_path / "a.md").write_text(text, encoding="utf8")
        inputs = {"FILES": "*.md", "EVIDENCE": "", "MAX_AGE": "", "RUNNER_TEMP": str(tmp_path)} | given
        ran = subprocess.run(
            ["bash", "-ec", script["run"]], env=os.environ | inputs, cwd=tmp_path, check=False
        )
        codes.append(ran.returncode)
    assert codes == [0, 3, 0, 3]
