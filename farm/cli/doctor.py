"""Says what this machine can't do, and how to change that."""

from __future__ import annotations

import json

import click

from farm import checkup
from farm.checkup import Check, State
from farm.cli import options
from farm.terminal import console, shown
from kernels import codec

STYLES = {State.OK: "green", State.LACKING: "yellow", State.MISSING: "bold red"}


@click.command(short_help=__doc__)
@options.as_json
@options.database
def doctor(as_json: bool, url: str) -> int:
    """Says what this machine can't do, and how to change that.

    Exits with 1 where something needed is missing.
    """
    checks = checkup.examine(url)
    if as_json:
        click.echo(json.dumps({"checks": codec.encode(checks), "ok": is_fit(checks)}, indent=1))
    else:
        print_checks(checks)
    return 0 if is_fit(checks) else 1


def is_fit(checks: tuple[Check, ...]) -> bool:
    return all(check.state is not State.MISSING for check in checks)


def print_checks(checks: tuple[Check, ...]) -> None:
    out = console()
    for check in checks:
        out.print(shown(f"{check.state:<8}", STYLES[check.state]), end="")
        out.print(shown(f"{check.name:<13} {check.found}"), soft_wrap=True)
        if check.remedy:
            out.print(shown(f"{'':<22}→ {check.remedy}"), soft_wrap=True)
    out.print("all that is needed is here" if is_fit(checks) else "what is marked missing is needed")


COMMAND = doctor
