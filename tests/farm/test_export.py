"""farm export: from a database to a file, whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from farm.cli import main
from farm.cli.export import write_whole
from kernels.errors import FarmError
from kernels.evidence import Verdict
from tests.farm.lines import case_of, database_with, line_of


def export(url: str, *args: str) -> Result:
    return CliRunner().invoke(main, ["export", "--db", url, *args])


@pytest.fixture
def url(tmp_path: Path) -> str:
    failed = line_of(Verdict.FAIL, case_of("Q4_K"))
    old = line_of(Verdict.PASS, case_of("Q8_0"), source="0" * 64)
    return database_with(tmp_path, [line_of(), failed, old])


def test_json_has_what_ran_what_is_stale_and_null_for_the_rest(url: str) -> None:
    document = json.loads(export(url, "--format", "json").stdout)
    host = [cell for cell in document["cells"] if cell["backend"] == "host"]
    shown = {
        cell["kind"]: (cell["verdict"], cell["flags"])
        for cell in host
        if (cell["op"], cell["kernel"], cell["build"]) == ("matvec", "block", "exact")
    }
    assert shown["Q4_0"] == ("PASS", [])
    assert shown["Q4_K"] == ("FAIL", [])
    assert shown["Q8_0"] == ("PASS", ["stale"])
    assert shown["Q6_K"] == (None, [])
    gpus = [cell for cell in document["cells"] if cell["backend"] == "cuda"]
    assert gpus
    assert all(cell["verdict"] is None for cell in gpus)


def test_markdown_is_the_default_and_names_the_board(url: str) -> None:
    text = export(url).stdout
    assert text.startswith("# Capability matrix\n")
    assert "- cpu-x86_64: Test CPU (cpu-x86_64-aaaa)" in text


def test_device_and_build_select_cells(url: str) -> None:
    result = export(url, "--format", "json", "--device", "cpu-*", "--build", "default")
    cells = json.loads(result.stdout)["cells"]
    assert {(cell["device_class"], cell["build"]) for cell in cells} == {("cpu-x86_64", "default")}


def test_output_goes_to_the_file_alone(url: str, tmp_path: Path) -> None:
    (tmp_path / "matrix.md").write_text("old")
    result = export(url, "--output", str(tmp_path / "matrix.md"))
    assert (result.exit_code, result.stdout) == (0, "")
    assert (tmp_path / "matrix.md").read_text(encoding="utf8").startswith("# Capability matrix")
    assert not list(tmp_path.glob(".matrix*"))


def test_an_unknown_format_is_a_usage_error_that_names_those_there_are(url: str) -> None:
    result = export(url, "--format", "xml")
    assert (result.exit_code, result.stdout) == (2, "")
    assert (
        "no format named 'xml'; there are csv, flashinfer-trace, html, json, md, ops-csv, svg"
        in result.stderr
    )


def test_no_database_is_one_line_and_makes_none(tmp_path: Path) -> None:
    result = export(f"sqlite:///{tmp_path / 'none.db'}")
    assert result.exit_code == 1
    assert "no database at" in result.stderr
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_one_line(url: str, tmp_path: Path) -> None:
    result = export(url, "--output", str(tmp_path / "no" / "matrix.md"))
    assert result.exit_code == 1
    assert "can't write" in result.stderr
    assert "No such file or directory" in result.stderr


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "matrix.md"
    target.write_text("old")
    (tmp_path / f".matrix.md.{os.getpid()}.tmp").mkdir()  # where the new text would be written first
    with pytest.raises(FarmError, match=r"can't write .*matrix.md: Is a directory"):
        write_whole(target, "new")
    assert target.read_text() == "old"


def test_a_pipe_is_written_to_by_its_name() -> None:
    reader, writer = os.pipe()
    write_whole(Path(f"/dev/fd/{writer}"), "text")
    os.close(writer)
    with os.fdopen(reader) as file:
        assert file.read() == "text"
