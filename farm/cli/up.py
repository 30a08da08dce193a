"""Starts a head: a Ray that other machines join, and the coordinator that gives out the jobs."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click

from farm.cli import options
from farm.cluster import head_file, ray_home, ray_ports
from farm.cluster.head_file import HeadFile
from farm.gateway.place import place_at
from kernels import codec
from kernels.errors import FarmError, UsageError
from workers.state import state_folder

START_S = 180.0


@click.command("up", short_help=__doc__)
@click.option(
    "--host", default="", metavar="ADDRESS", help="This machine's private address; looked up unless named."
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=6379, show_default=True, help="Of Ray's head; 0: any."
)
@click.option(
    "--firewalled", is_flag=True, help="An address here is public, and a firewall closes Ray's ports."
)
@click.option(
    "--backend",
    "backends",
    multiple=True,
    help="Of this machine and of all that join; host, and cuda where there is a board, unless named.",
)
@click.option("--no-worker", is_flag=True, help="Run no case here, only where workers join or pull.")
@click.option("--gateway", metavar="HOST:PORT", help="Let workers in over HTTPS too; port 0: any.")
@click.option("--cert", type=options.FILE, default="", help="With --gateway: PEM certificate chain.")
@click.option("--key", type=options.FILE, default="", help="With --gateway: PEM private key.")
@click.option("--behind-proxy", is_flag=True, help="With --gateway: a proxy ends TLS in front of it.")
@click.option("--foreground", is_flag=True, help="Stay until Ctrl-C, for containers and services.")
@options.database
def up(foreground: bool, **words: Any) -> None:
    """Starts a head: a Ray that other machines join, and the coordinator that gives out the jobs.

    \b
    farm up --host 10.0.0.5
    farm join 10.0.0.5:6379 --token-file token      on every other machine
    farm submit --all-kinds
    farm down

    With --gateway, workers that can't or shouldn't join Ray pull their jobs over HTTPS: farm gateway --help.

    With --no-worker, kernels run on other machines alone, and none as the user who owns the database.

    Ray's ports listen on every interface and can't be told otherwise; they want the token in .farm/token.
    What is lost, an agent, the coordinator or Ray itself, is started again; the database has the rest.
    """
    gateway = gateway_of(words)
    if words["host"]:
        ray_home.demand_address(words["host"])
    if foreground:
        stay(words, gateway)
    else:
        start(words)


def gateway_of(words: dict[str, Any]) -> str:
    """Where the head's gateway is to listen, as JSON; empty for none."""
    address, more = words["gateway"], [words["cert"], words["key"], words["behind_proxy"]]
    if address is None:
        if any(more):
            raise UsageError("--cert, --key and --behind-proxy are about --gateway HOST:PORT; give that too")
        return ""
    if not importlib.util.find_spec("uvicorn"):
        raise FarmError("--gateway: uvicorn is not installed; pip install 'kernel-farm[web]'")
    return codec.canonical(place_at(address, *more))


def stay(words: dict[str, Any], gateway: str) -> None:
    """Runs the head in this process."""
    # Imported late: the command line must not wait for it.
    from farm.cluster.head import Head, Words

    wanted = Words(
        words["url"], words["host"], words["port"], words["firewalled"], tuple(words["backends"]), gateway,
        words["no_worker"],
    )  # fmt: skip
    Head(wanted, describe, lambda line: click.echo(f"farm: {line}", err=True)).run()


def start(words: dict[str, Any]) -> None:
    """Starts the head as a process of its own and returns when it is up."""
    if running := head_file.running():
        raise FarmError(
            f"a head runs here already (process {running.pid}, {running.address}); farm down ends it"
        )
    log = state_folder() / "head.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "farm", "up", "--foreground", *options_of(words)]
    with log.open("ab") as out:
        at = out.tell()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            env=os.environ | {"FARM_DB": words["url"]},  # not among the words: it may hold a password
        )
    head = _started(process, log, at)
    describe(head)


def options_of(words: dict[str, Any]) -> list[str]:
    """The options that were given, as another process is given them; not the database, which goes unseen."""
    said: list[str] = []
    for name, value in words.items():
        option = "--" + name.replace("_", "-")
        if name == "url" or value is False or value in ("", None):
            continue
        if name == "backends":
            said += [f"--backend={backend}" for backend in value]
        else:
            said.append(option if value is True else f"{option}={value}")
    return said


def _started(process: subprocess.Popen[bytes], log: Path, at: int) -> HeadFile:
    until = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < until:
        head = head_file.running()
        if head is not None and head.pid == process.pid:
            return head
        time.sleep(0.2)
    with log.open("rb") as file:
        file.seek(at)
        lines = [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    said = lines[-1].removeprefix("farm: ") if lines else "it said nothing"
    if process.poll() is None:
        process.terminate()
        said = f"no head within {START_S:g} s: {said}"
    raise FarmError(f"{said}; see {log}")


def describe(head: HeadFile) -> None:
    """Where the head is, how others join it, and which ports to close to strangers."""
    token = state_folder() / "token"
    click.echo(f"farm: head at {head.address}, process {head.pid}, database {head.database}", err=True)
    click.echo(
        f"farm: join it with: farm join {head.address} --token-file FILE   (a copy of {token})", err=True
    )
    if head.gateway:
        click.echo(f"farm: gateway at {head.gateway}; farm token new NAME makes a worker's token", err=True)
    ports = ray_ports.told(head.ports)
    click.echo(f"farm: Ray listens on every interface, ports {ports}; only with the token", err=True)


COMMAND = up
