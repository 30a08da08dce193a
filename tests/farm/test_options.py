"""Options that commands share."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from farm.cli import main, names
from farm.cli.options import Finite


def numbers(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every option of a command that takes a number with a fraction, and of the commands in it."""
    if isinstance(command, click.Group):
        for name, one in command.commands.items():
            yield from numbers(one, (*words, name))
    for param in command.params:
        if isinstance(param.type, click.types.FloatParamType):
            yield words, param.opts[0]


def every_number() -> list[tuple[tuple[str, ...], str]]:
    context = click.Context(main)
    commands = ((name, main.get_command(context, name)) for name in names())
    return [found for name, command in commands if command for found in numbers(command, (name,))]


def test_numbers_are_found() -> None:
    assert (("join",), "--minutes") in every_number()
    assert len(every_number()) >= 8


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999"])
@pytest.mark.parametrize(("words", "option"), every_number(), ids=lambda one: "-".join(one).strip("-"))
def test_no_number_of_any_command_is_nan_or_without_an_end(
    words: tuple[str, ...], option: str, text: str
) -> None:
    refused = CliRunner().invoke(main, [*words, option, text])
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1), refused.output
    assert refused.stderr.startswith(f"farm: Invalid value for '{option}': ")


def test_a_number_at_its_limit_is_one() -> None:
    assert Finite(0, 5).convert("5.0", None, None) == 5.0
    with pytest.raises(click.BadParameter, match="nan is no finite number"):
        Finite(0).convert("nan", None, None)
