"""The command group: finding commands, and one line with the right exit code for every error."""

import io
import os
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from farm.cli import Commands, first_sentence, main, names
from kernels.errors import FarmError, UsageError


def failing(error: BaseException) -> Commands:
    """A group whose every command raises `error`."""

    class Failing(Commands):
        def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
            def fail() -> None:
                raise error

            return click.Command(cmd_name, callback=fail)

    return Failing("farm")


def invoke(group: click.Command, *args: str) -> Result:
    return CliRunner().invoke(group, args)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (FarmError("disk full"), 1),
        (UsageError("no such thing"), 2),
        (click.UsageError("odd word"), 2),
        (KeyboardInterrupt(), 130),
        (click.Abort(), 130),
        (click.ClickException("broken"), 1),
        (FarmError("two\nlines"), 1),
        (PermissionError(13, "Permission denied", ".farm"), 1),
        (OSError("odd"), 1),
    ],
)
def test_an_error_is_one_line_and_its_exit_code(error: BaseException, code: int) -> None:
    result = invoke(failing(error), names()[0])
    assert result.exit_code == code
    assert result.stdout == ""
    assert result.stderr.lstrip("\n").startswith("farm: ")  # click ends the line of a ^C
    assert result.stderr.strip().count("\n") == 0


def test_an_error_of_the_system_names_its_file() -> None:
    result = invoke(failing(PermissionError(13, "Permission denied", ".farm/token")), names()[0])
    assert result.stderr == "farm: .farm/token: Permission denied\n"


def test_a_programming_error_leaves_its_traceback_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result = invoke(failing(ZeroDivisionError("by\nnought")), names()[0])
    (file,) = tmp_path.iterdir()
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert f"ZeroDivisionError: by nought; please report it with {file}" in result.stderr
    assert "raise error" in file.read_text()


def test_a_command_that_returns_a_number_ends_with_it() -> None:
    class Three(Commands):
        def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
            return click.Command(cmd_name, callback=lambda: 3)

    assert invoke(Three("farm"), names()[0]).exit_code == 3


def test_an_unknown_command_names_those_there_are() -> None:
    result = invoke(main, "sumbit")
    assert result.exit_code == 2
    assert "'sumbit'" in result.stderr
    assert names()[0] in result.stderr


@pytest.mark.parametrize("name", names())
def test_every_command_has_a_help_line_and_a_help_page(name: str) -> None:
    assert first_sentence(name).endswith(".")
    result = invoke(main, name, "--help")
    assert result.exit_code == 0
    assert f"farm {name}" in result.stdout


def test_help_lists_every_command_and_imports_none() -> None:
    code = """import sys, farm.cli
try:
    farm.cli.main(["--help"])
finally:
    print([m for m in sys.modules if m.startswith("farm.cli.") or m in ("numpy", "ray", "sqlalchemy")])
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *help_page, imported = ended.stdout.splitlines()
    assert imported == "[]"
    assert set(names()) <= {line.split()[0] for line in help_page if line.split()}


def test_no_arguments_shows_the_help_and_exits_2() -> None:
    result = invoke(main)
    assert result.exit_code == 2
    assert "Commands:" in result.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_no_fault_and_no_database_gets_its_number(closed: str, tmp_path: Path) -> None:
    held = "import os, farm.cli.kinds as k; k.COMMAND.callback = lambda **_: os.open('first', os.O_CREAT) < 3"
    code = f"{held}; from farm.cli import main; main()"
    ended = subprocess.run(
        ["sh", "-c", f'"$0" -c "$1" kinds {closed}', sys.executable, code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert (ended.returncode, list(tmp_path.iterdir())) == (0, [tmp_path / "first"])


@pytest.mark.parametrize("name", names())
def test_every_help_text_can_be_printed_in_latin_1(name: str) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")  # click mends ascii by itself
    with redirect_stdout(out), pytest.raises(SystemExit) as ended:
        main.main([name, "--help"])
    assert ended.value.code == 0
