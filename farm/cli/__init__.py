"""The command `farm`: finds its commands as files in this folder and turns every error into one line."""

from __future__ import annotations

import io
import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import click

from farm import own

INTERRUPTED = 130
FAULT_LENGTH = 200  # characters of an unforeseen error's own words
NOT_COMMANDS = ("__init__", "options")


def names() -> list[str]:
    """Every command's name: its file's, without the underscore that keeps `import_` from being a keyword."""
    files = sorted(path.stem for path in Path(__file__).parent.glob("*.py"))
    return [stem.rstrip("_") for stem in files if stem not in NOT_COMMANDS]


def module_name(name: str) -> str:
    """import -> farm.cli.import_"""
    stem = name if (Path(__file__).parent / f"{name}.py").exists() else f"{name}_"
    return f"{__name__}.{stem}"


def first_sentence(name: str) -> str:
    """A command's help line: its module's first sentence, read from the text so that nothing is imported."""
    path = Path(__file__).parent / f"{module_name(name).rpartition('.')[2]}.py"
    return " ".join(path.read_text(encoding="utf8").split('"""')[1].split())


class Commands(click.Group):
    """A group whose commands are the files beside this one, each with a constant COMMAND."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return names()

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in names():
            return None
        command: click.Command = import_module(module_name(cmd_name)).COMMAND
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in names():
            raise click.UsageError(f"no command named {args[0]!r}; there are {', '.join(names())}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, first_sentence(name)) for name in names()])

    def main(  # type: ignore[override]  # always ends the process: errors have exit codes of our own
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        open_what_was_closed()
        extra["standalone_mode"] = False
        sys.exit(self._exit_code(args, prog_name or "farm", extra))

    def _exit_code(self, args: Sequence[str] | None, prog_name: str, extra: dict[str, Any]) -> int:
        if fault := own.complaint():
            return say(fault)
        # Not at the top: before the line above, `kernels` may be a stranger's.
        from kernels.errors import FarmError

        try:
            code = super().main(args, prog_name, **extra)
        except FarmError as error:
            return say(str(error), error.exit_code)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
            return error.exit_code
        except click.ClickException as error:
            return say(_click_line(error), error.exit_code)
        except (KeyboardInterrupt, click.Abort):
            return say("interrupted", INTERRUPTED)
        except BrokenPipeError:
            sys.stdout = None  # or Python complains when it flushes at exit
            return 0
        except OSError as error:
            return say(_system_line(error))
        except Exception as error:  # noqa: BLE001 - a fault of ours: the user gets one line, we get the file
            return say(_fault_line(error))
        return code if isinstance(code, int) else 0


def open_what_was_closed() -> None:
    """Gives standard streams that the caller closed to nobody: else a database would get their numbers."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf8", closefd=False)
    if isinstance(sys.stdout, io.TextIOWrapper):  # help texts, too, have characters that not every locale has
        sys.stdout.reconfigure(errors="backslashreplace")


def say(line: str, code: int = 1) -> int:
    """Prints `farm: line` to stderr and gives the exit code back: one line, that steers no terminal."""
    told = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in " ".join(line.split()))
    click.echo(f"farm: {told}", err=True)
    return code


def _click_line(error: click.ClickException) -> str:
    ctx = getattr(error, "ctx", None)
    where = f"; see {ctx.command_path} --help" if ctx else ""
    return error.format_message().rstrip(".") + where


def _system_line(error: OSError) -> str:
    """FILE: what the system says about it."""
    names = [str(name) for name in (error.filename, error.filename2) if name is not None]
    return ": ".join((*names, error.strerror or str(error) or type(error).__name__))


def _fault_line(error: Exception) -> str:
    """One line about an error that nobody foresaw; its traceback goes to a file of its own."""
    with tempfile.NamedTemporaryFile(
        "w", prefix="farm-fault-", suffix=".txt", delete=False, encoding="utf8", errors="backslashreplace"
    ) as file:
        traceback.print_exception(error, file=file)
    told = f"{type(error).__name__}: {' '.join(str(error).split())}"[:FAULT_LENGTH]
    return f"a fault of the farm itself: {told}; please report it with {file.name}"


@click.command(
    "farm",
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(own.version(), prog_name="farm")
def main() -> None:
    """Runs quantized GPU kernels on every device it can reach and keeps a dated row of what came back.

    Exit codes: 0 nothing bad; 1 the work could not be done; 2 a wrong command line; 3 something is bad
    (a verdict, a claim); 130 interrupted, `farm resume` continues.
    """
