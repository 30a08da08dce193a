"""Runs a campaign to its end on this machine, whoever carries the messages, and says what came out."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

import click
from rich.console import Console

from db import benchmark, campaign
from db.benchmark import Timed
from db.campaign import CampaignRow
from db.epoch import raise_epoch
from db.head import only_head
from db.loss import reclaim_all
from db.session import Database, open_database, open_existing, passwords_in
from farm import limits, local
from farm.campaign import Order, order_of, plan, submit
from farm.cluster import head_file, private, ray_home
from farm.cluster.head_file import HeadFile
from farm.gguf_cases import Listed
from farm.progress import Bar
from farm.times import lines as times_lines
from farm.times import record as times_record
from farm.uses import Coverage, coverage
from kernels.declared.catalog import Catalog
from kernels.errors import FarmError, UsageError
from workers import boards
from workers.boards import Board
from workers.clock import wall_clock
from workers.log import writing_to

GLANCE_S = 0.3  # how often the bar moves


class Interrupted(FarmError):
    """Ctrl-C: what is stored stays, and the rest can be run later."""

    exit_code = 130


@dataclass(frozen=True)
class Way:
    """How a campaign is run and what is printed of it."""

    without_ray: bool
    as_json: bool


def submit_and_finish(url: str, order: Order, way: Way, found: Catalog | None = None) -> int:
    """Stores the campaign of an order and runs it, here or by the head that runs; gives the exit code."""
    work = plan(order)
    if not way.without_ray and (head := head_on(url)):
        database = open_existing(url)
        campaign_id = submit(database, order, work, (), wall_clock(), found).campaign_id
        return watch(database, head, campaign_id, way, work.listed)
    here = boards.matching(boards.survey(order.backends), order.device)
    database = open_database(url)
    with only_farm_on(database):
        submitted = submit(database, order, work, here, wall_clock(), found)
        for item in work.listed:
            click.echo(f"{item.name}: {item.reason}", err=True)
        return finish(database, submitted.campaign_id, here, way, work.listed)


def submit_and_leave(url: str, order: Order, as_json: bool, found: Catalog | None = None) -> int:
    """Stores the campaign of an order for whoever leases: a head, a gateway, or `farm resume` later."""
    work = plan(order)
    database = open_database(url)
    campaign_id = submit(database, order, work, (), wall_clock(), found).campaign_id
    if as_json:
        with database.reading() as s:
            click.echo(json.dumps(_figures(campaign.campaign_row(s, campaign_id), work.listed)))
    else:
        click.echo(f"campaign {campaign_id} is stored; every device that joins gets its jobs, farm resume "
                   f"{campaign_id} runs it here")  # fmt: skip
    if (head := head_file.running()) and head.database != (label := head_file.label_of(database)):
        click.echo(f"farm: the head here works on {head.database}, and this campaign is in {label}: give it "
                   "FARM_DB or --db", err=True)  # fmt: skip
    return 0


def resume_and_finish(
    url: str, wanted: int | None, way: Way, max_usd: float | None = None, max_hours: float | None = None
) -> int:
    """Runs what a campaign still owes, the newest open one unless another is wanted; gives the exit code.

    New limits replace the campaign's own; FarmError where it is past one.
    """
    database = open_existing(url)
    with database.writing() as s:
        row = campaign.campaign_row(s, wanted) if wanted else _newest_open(campaign.open_campaigns(s))
        row = limits.change(s, row, max_usd, max_hours)
        if row.is_open and (why := limits.passed(s, row, wall_clock())):
            raise FarmError(f"campaign {row.id} stopped by itself: {why}")
    if not way.without_ray and (head := head_on(url)):
        return watch(database, head, row.id, way)
    with only_farm_on(database):
        return finish(database, row.id, boards_for(row), way)


def boards_for(row: CampaignRow) -> tuple[Board, ...]:
    """The boards of this machine that a stored campaign names."""
    order = order_of(row.selection)
    return boards.matching(boards.survey(order.backends), order.device)


def _newest_open(rows: Sequence[CampaignRow]) -> CampaignRow:
    if not rows:
        raise UsageError("every campaign has all its verdicts; there is nothing to resume")
    return rows[0]


def finish(
    database: Database, campaign_id: int, here: Sequence[Board], way: Way, listed: Sequence[Listed] = ()
) -> int:
    """Runs a campaign until it is closed, prints what came out, and gives the exit code."""
    with database.writing() as s:
        campaign.unpause(s, campaign_id)
        campaign.put_first(s, campaign_id)
    secrets = passwords_in(database.engine.url)
    with writing_to("campaign", secrets=secrets), shown_progress(campaign_id) as bar:
        row = _run(database, campaign_id, here, way, bar)
    return _report(database, row, way, listed)


def watch(
    database: Database, head: HeadFile, campaign_id: int, way: Way, listed: Sequence[Listed] = ()
) -> int:
    """Shows how a running head gets on with a campaign until it is closed; gives the exit code."""
    with database.writing() as s:
        campaign.unpause(s, campaign_id)
        campaign.put_first(s, campaign_id)
    with shown_progress(campaign_id) as bar:
        bar.note(f"farm: campaign {campaign_id} is run by the head at {head.address}")
        while True:
            with database.reading() as s:
                row = campaign.campaign_row(s, campaign_id)
            bar.show(row)
            if not row.is_open or row.paused_us is not None:
                break
            if head_file.running() is None:
                raise FarmError(f"the head at {head.address} has ended; farm resume {campaign_id} continues")
            time.sleep(GLANCE_S)
    return _report(database, row, way, listed)


def head_on(url: str) -> HeadFile | None:
    """The head that runs in this state folder, if it works on that database."""
    return head_file.running_on(open_database(url)) if head_file.running() else None


@contextmanager
def shown_progress(campaign_id: int) -> Iterator[Bar]:
    """The bar of a campaign; Ctrl-C leaves it stored."""
    try:
        with own_stderr() as stderr, Bar(Console(file=stderr)) as bar:
            yield bar
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; farm resume {campaign_id} continues") from None


def _report(database: Database, row: CampaignRow, way: Way, listed: Sequence[Listed]) -> int:
    """Prints what came out, and gives the exit code."""
    if way.as_json:
        uses = _uses(database, row)
        times = {"benchmarks": [times_record(one) for one in _times(database, row)]} if row.bench else {}
        figures = _figures(row, listed) | times | ({"uses": uses.record()} if uses else {})
        click.echo(json.dumps(figures, allow_nan=False))
    else:
        _print_summary(database, row)
    if row.paused_us is not None:
        with database.reading() as s:
            why = limits.passed(s, row, wall_clock())
        if why:
            raise Interrupted(f"campaign {row.id} stopped by itself: {why}")
        raise Interrupted(f"campaign {row.id} was paused; farm resume {row.id} goes on")
    if row.cancelled_us is not None:
        raise FarmError(f"campaign {row.id} was cancelled; farm retry {row.id} --verdict SKIP runs the rest")
    if row.is_open:
        left = row.jobs - row.done
        raise FarmError(
            f"{left} of {row.jobs} jobs wait for a device that isn't here; there, farm resume {row.id}"
        )
    return 3 if row.bad else 0


def _run(database: Database, campaign_id: int, here: Sequence[Board], way: Way, bar: Bar) -> CampaignRow:
    """One wave of boards after the other; compiling needs no Ray, which is for devices that run.

    Nor is there one where its ports would be open to the internet.
    """
    exposed = "" if way.without_ray else private.exposed()
    if exposed:
        bar.note(
            f"farm: {exposed}: this campaign runs without Ray, as with --local; where a firewall closes "
            f"Ray's ports, {ray_home.FIREWALLED}=1 says so"
        )
    for wave in boards.waves(here):
        without_ray = way.without_ray or bool(exposed) or all(board.compiles_only for board in wave)
        row = (local.run if without_ray else private.run)(database, campaign_id, wave, bar)
        if not row.is_open:
            break
    return row


@contextmanager
def own_stderr() -> Iterator[TextIO]:
    """Standard error under a descriptor of its own: number 2 is Ray's while there is one."""
    try:
        copy = os.dup(sys.stderr.fileno())
    except (OSError, ValueError):  # not a file: a test reads it
        yield sys.stderr
        return
    with os.fdopen(copy, "w", encoding=sys.stderr.encoding, errors="replace") as file:
        yield file


def _print_summary(database: Database, row: CampaignRow) -> None:
    # Imported late: the table's libraries are of no use to a campaign with --json.
    from farm.terminal import console, print_summary

    print_summary(database, row.id, console())
    if found := _uses(database, row):
        click.echo(found.line())
    for line in (line for one in _times(database, row) for line in times_lines(one)):
        click.echo(line)


def _times(database: Database, row: CampaignRow) -> tuple[Timed, ...]:
    """What a campaign that asked for times has brought."""
    with database.reading() as s:
        return benchmark.of_campaign(s, row.id) if row.bench else ()


def _uses(database: Database, row: CampaignRow) -> Coverage | None:
    with database.reading() as s:
        return coverage(s, row)


def _figures(row: CampaignRow, listed: Sequence[Listed]) -> dict[str, object]:
    return {
        "schema": 1,
        "campaign": row.id,
        "closed": not row.is_open,
        "jobs": row.jobs,
        "verdicts": {verdict.value: count for verdict, count in row.verdicts},
        "rule": row.rule.value,
        "listed": [{"name": item.name, "reason": item.reason} for item in listed],
    }


@contextmanager
def only_farm_on(database: Database) -> Iterator[None]:
    """Keeps other farms off a database: two coordinators would take it from each other.

    What a farm that was killed had leased is free again: the lock says that nobody works on it.
    """
    with only_head(database):
        with database.writing() as s:
            epoch = raise_epoch(s, wall_clock())
            reclaim_all(s, epoch, wall_clock())
            campaign.close_finished(s, wall_clock())
        yield
