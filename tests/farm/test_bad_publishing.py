"""Bad command lines of what publishes: one line with value and remedy, exit code 1 or 2, nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from farm.cli import main
from kernels.evidence import Verdict
from tests.farm.lines import case_of, database_with, line_of

CELL = "cpu-x86_64/host/matvec/block/Q4_0/exact"
GRAMMAR = "DEVICE/BACKEND/OP/KERNEL/KIND[/BUILD]"

BAD = [
    ("export --format xml", 2, "no format named 'xml'; there are csv, flashinfer-trace, html, json, md"),
    ("export --format flashinfer-trace", 2, "flashinfer-trace is a folder of files; name one"),
    ("export --format flashinfer-trace --output plain.md", 1, "plain.md is there and isn't empty; name"),
    ("export --rows ffn/nothing", 2, "no rows fit 'ffn/nothing'; there are add_rmsnorm/fused"),
    ("export --rows color:red", 2, "no filter named 'color'; there are verdict, op, kernel"),
    ("export --rows verdict:good", 2, "no verdict named 'good'; there are never, bad, fail"),
    ("export --rows kind:", 2, "filter kind: without a value; write kind:Q4_K"),
    ("export --columns rtx-9000", 2, "no columns fit 'rtx-9000'; there are a10"),
    ("export --columns sm:new", 2, "filter sm:new is no number; write sm:86"),
    ("export --since soon", 2, "'soon' is no age and no day; write 30d"),
    ("export --since 99999d", 2, "'99999d' is no age and no day; write 30d, 9999d at the most"),
    ("export --rungs gold", 2, "no rung named 'gold'; there are twin, host, builds"),
    ("export --rungs timed", 1, "leave out --rungs"),
    ("export --device h900", 2, "no device matches 'h900'; there are a10"),
    ("export --build fast", 2, "'fast' is not one of 'exact', 'default', 'check', 'declared'"),
    ("export --output no/such/file.md", 1, "can't write no/such/file.md: No such file or directory"),
    ("docs", 2, "Usage: farm docs"),
    ("docs paint a.md", 2, "No such command 'paint'"),
    ("docs check", 2, "Missing argument 'FILE...'"),
    ("docs check none.md", 1, "none.md: No such file or directory"),
    ("docs check plain.md", 2, "plain.md has no region; mark one: <!-- farm:matrix"),
    ("docs write open.md", 2, "open.md:2: farm:matrix without an end; put <!-- farm:end --> behind it"),
    ("docs write unseen.md", 2, "unseen.md:1: no device matches 'h900'; there are a10"),
    ("docs check good.md --max-age 0", 2, "0 is not in the range 1<=x<=9999"),
    ("docs check good.md --evidence none.jsonl", 1, "none.jsonl"),
    ("docs check good.md --evidence plain.md", 1, "plain.md"),
    ("diff 1", 2, "Missing argument 'B'"),
    ("diff 1 2", 2, "no campaign 1; there are none"),
    ("diff cpu-x86_64 h900", 2, "no device matches 'h900'; there are a10"),
    ("diff plain.json cpu-x86_64", 1, "plain.json is no JSON export"),
    ("diff cpu-x86_64 cpu-x86_64 --factor one", 2, "'one' is not a valid float"),
    ("diff cpu-x86_64 cpu-x86_64 --fail-on weather", 2, "'weather' is not one of 'regression', 'change'"),
    ("coverage --kind Q9_Z", 2, "no kind named 'Q9_Z'; there are"),
    ("coverage --kernel matvec/blok", 2, "matvec/blok"),
    ("coverage --tier huge", 2, "'huge' is not one of 'quick', 'full', 'models', 'limits'"),
    (f"repro {CELL}", 2, "Missing option '--output'"),
    ("repro matvec/block --output case.py", 2, f"cell 'matvec/block' is not written {GRAMMAR}, for example"),
    ("repro 7 --output case.py", 2, "no job 7 in this database; farm status lists the campaigns"),
    ("repro cpu-x86_64/host/matvec/block/Q6_K/exact --output case.py", 1, "was never run; farm submit"),
    ("repro cpu-x86_64/host/matvec/block/Q8_0/exact --output case.py", 2, "that is SKIP, a reason for SKIP"),
]  # fmt: skip
FILES = {
    "plain.md": "# Plain\n",
    "plain.json": "{}",
    "open.md": "\n<!-- farm:matrix device=cpu-* -->\n",
    "unseen.md": "<!-- farm:matrix device=h900 --><!-- farm:end -->\n",
    "good.md": f"<!-- farm:cell {CELL} --><!-- farm:end -->\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a database of two cells and the files that the lines name."""
    made = tmp_path_factory.mktemp("publishing")
    database_with(made, [line_of(), line_of(Verdict.SKIP, case_of("Q8_0"))])
    for name, text in FILES.items():
        (made / name).write_text(text, encoding="utf8")
    return made


@pytest.mark.parametrize(("words", "code", "says"), BAD, ids=[words for words, _, _ in BAD])
def test_a_bad_command_line_is_one_line_and_writes_nothing(
    words: str, code: int, says: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(main, words.split(), env={"FARM_DB": "sqlite:///farm.db"})
    assert (result.exit_code, result.stdout) == (code, "")
    assert says in result.stderr
    if not result.stderr.startswith("Usage"):  # a group alone prints what its commands are
        assert result.stderr.startswith("farm: ")
        assert result.stderr.count("\n") == 1
    assert {path.name for path in folder.glob("*.*") if path.name in FILES} == set(FILES)
    assert all((folder / name).read_text(encoding="utf8") == text for name, text in FILES.items())
    assert not (folder / "case.py").exists()


def test_there_are_forty_of_them() -> None:
    assert len({words for words, _, _ in BAD}) >= 40
