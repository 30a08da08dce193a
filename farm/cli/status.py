"""Shows campaigns, devices and the matrix."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import click

from db import campaign, device
from db.campaign import CampaignRow
from db.device import DeviceRow
from db.session import open_existing
from farm import exports, limits
from farm.cli import options
from farm.marks import timestamp
from farm.matrix import Matrix
from farm.reader import read_matrix
from farm.records import campaign_record, device_record
from farm.terminal import campaign_line, console, duration, matrix_parts, shown
from farm.terminal import table as new_table
from farm.trusted import trusted
from farm.uses import Coverage, coverage
from kernels.errors import FarmError, UsageError
from workers.clock import wall_clock
from workers.state import state_folder

NEWEST = 8  # campaigns shown; --json has all


@click.command(short_help=__doc__)
@click.option("--device", "glob", metavar="GLOB", help="Only what matches in class, board name or UUID.")
@click.option("--watch", is_flag=True, help="Show what is going on, again and again, until Ctrl-C.")
@click.option("--web", is_flag=True, help="Serve the dashboard to browsers until Ctrl-C.")
@click.option("--host", default="127.0.0.1", show_default=True, help="With --web: the address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8600, show_default=True, help="0: any.")
@click.option("--cert", type=options.FILE, default="", help="With --web: PEM certificate chain.")
@click.option("--key", type=options.FILE, default="", help="With --web: PEM private key.")
@options.min_trust
@options.as_json
@options.database
def status(
    glob: str | None, watch: bool, web: bool, min_trust: str, as_json: bool, url: str, **place: Any
) -> None:
    """Shows campaigns, devices and the matrix.

    A cell without a verdict was never run: its mark says so and the legend says who acts.
    """
    if watch + web + as_json > 1:
        raise UsageError("--watch, --web and --json exclude one another")
    if min_trust and (watch or web):
        raise UsageError("--min-trust goes with the table and --json; in the dashboard filter by trust:own")
    if web:
        serve_web(url, **place)
        return
    if watch:
        from farm.watch import Watch  # late: a single look does without it

        Watch(open_existing(url), console(), glob).run()
        return
    now_us = wall_clock()
    database = open_existing(url)
    with database.reading() as s:
        campaigns, boards, matrix = campaign.campaigns(s), device.devices(s), read_matrix(s, now_us)
        rows = campaigns if as_json else campaigns[:NEWEST]
        uses = {row.id: found for row in rows if (found := coverage(s, row))}
        warnings = limits.warnings(s, rows, now_us)
    matrix = matrix.of_device(glob) if glob else matrix
    matrix = trusted(matrix, min_trust) if min_trust else matrix
    if as_json:
        click.echo(json.dumps(document(campaigns, boards, matrix, uses, warnings), indent=1, allow_nan=False))
    else:
        lines = {key: found.line() for key, found in uses.items()}
        print_status(campaigns, boards, matrix, (lines, warnings), now_us)


def serve_web(url: str, host: str, port: int, cert: str, key: str) -> None:
    """The dashboard in a browser; works with no Ray running."""
    try:
        from farm.gateway.place import Place
        from farm.web.server import serve
    except ModuleNotFoundError as error:
        raise FarmError(f"{error.name} is not installed; pip install 'kernel-farm[web]'") from None
    serve(open_existing(url), Place(host, port, cert, key), say_address)


def say_address(address: str) -> None:
    token = state_folder() / "web.token"
    click.echo(f"farm: dashboard at {address}; its actions want the token in {token}", err=True)


def document(
    campaigns: Iterable[CampaignRow],
    boards: Iterable[DeviceRow],
    matrix: Matrix,
    uses: Mapping[int, Coverage] = MappingProxyType({}),
    warnings: Mapping[int, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """What `--json` prints; `matrix` is the JSON export, the others by campaign id."""
    return {
        "campaigns": [
            campaign_record(row)
            | ({"uses": uses[row.id].record()} if row.id in uses else {})
            | ({"warning": warnings[row.id]} if row.id in warnings else {})
            for row in campaigns
        ],
        "devices": [device_record(row) for row in boards],
        "matrix": json.loads(exports.export("json").render(matrix)),
    }


def print_status(
    campaigns: Sequence[CampaignRow],
    boards: Sequence[DeviceRow],
    matrix: Matrix,
    notes: Iterable[Mapping[int, str]],
    now_us: int,
) -> None:
    """The text; `notes` are lines that follow a campaign's own, by its id."""
    out = console()
    for row in campaigns[:NEWEST]:
        out.print(shown(_campaign_text(row, now_us)), soft_wrap=True)
        for line in (lines[row.id] for lines in notes if row.id in lines):
            out.print(shown(f"  {line}"), soft_wrap=True)
    if len(campaigns) > NEWEST:
        out.print(f"… and {len(campaigns) - NEWEST} older; --json lists them")
    if not campaigns:
        out.print("no campaign yet; farm submit --all-kinds makes one")
    grid = new_table("class", "board", "name", "last seen")
    for seen in boards:
        ago = duration((now_us - seen.last_seen_us) / 1e6)
        grid.add_row(
            *map(shown, (seen.device.device_class, seen.device.slug, seen.device.name, f"{ago} ago"))
        )
    out.print()
    out.print(grid if boards else "no device yet")
    for part in matrix_parts(matrix):
        out.print(part)


def _campaign_text(row: CampaignRow, now_us: int) -> str:
    line = campaign_line(row, now_us)
    if row.cancelled_us is not None:
        return f"{line} ({timestamp(row.created_us)}, cancelled)"
    if row.is_open:
        share = row.done / row.jobs if row.jobs else 0.0
        state = "open" if row.paused_us is None else "paused"
        return f"{line} ({share:.0%}, {state}; farm resume {row.id} goes on with it)"
    return f"{line} ({timestamp(row.created_us)}{f', retry of {row.retry_of}' if row.retry_of else ''})"


COMMAND = status
