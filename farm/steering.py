"""What is done to a campaign after it was submitted: pause, cancel, retry."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress

from db import campaign
from db.campaign import CampaignRow
from db.cases import known_inputs, remember_inputs
from db.job import JobRow, Target, add_jobs, jobs_of
from db.session import Database, open_existing
from farm import limits, user_catalog
from farm.campaign import Submitted, checked, make_inputs, store_sources
from farm.drive import Way, boards_for, finish, head_on, only_farm_on, watch
from kernels import registry
from kernels.catalog import Planned
from kernels.errors import FarmError
from kernels.evidence import Verdict
from workers.boards import executes
from workers.clock import wall_clock

BAD = tuple(verdict for verdict in Verdict if verdict.bad)


def pause(database: Database, campaign_id: int, now_us: int) -> CampaignRow:
    """Has nothing more of a campaign leased, by whichever farm is at work."""
    with database.writing() as s:
        campaign.pause(s, campaign_id, now_us)
        return campaign.campaign_row(s, campaign_id)


def cancel(database: Database, campaign_id: int, now_us: int) -> CampaignRow:
    """Ends a campaign: what nobody has started is SKIP, what runs ends by itself."""
    with database.writing() as s:
        campaign.cancel(s, campaign_id, now_us)
        campaign.close_finished(s, now_us)
    # Where no farm is at work, nothing runs either: what one that was killed had started is taken back now.
    with suppress(FarmError), only_farm_on(database):
        pass
    with database.reading() as s:
        return campaign.campaign_row(s, campaign_id)


def go_on(database: Database, campaign_id: int, now_us: int) -> CampaignRow:
    """Has a paused campaign's jobs leased again, by whichever farm is at work; FarmError where its limit is
    reached, since it would be paused again.
    """
    with database.writing() as s:
        row = campaign.campaign_row(s, campaign_id)
        if not row.is_open or row.paused_us is None:
            raise FarmError(f"campaign {campaign_id} isn't paused")
        if why := limits.passed(s, row, now_us):
            raise FarmError(f"campaign {campaign_id} stopped by itself: {why}")
        campaign.unpause(s, campaign_id)
        return campaign.campaign_row(s, campaign_id)


def retry(database: Database, campaign_id: int, verdicts: Collection[Verdict], now_us: int) -> Submitted:
    """Stores a campaign of those jobs of another that ended so, with today's sources; FarmError for none.

    A user's catalog is the one that the other campaign was submitted with.
    """
    with database.reading() as s:
        row = campaign.campaign_row(s, campaign_id)
        jobs = jobs_of(s, campaign_id, verdicts)
        known = known_inputs(s, {job.case.inputs_key for job in jobs})
        kernels = user_catalog.kernels_at(s, row.pack)
    if not jobs:
        there = ", ".join(f"{count} {verdict}" for verdict, count in row.verdicts) or "no verdict yet"
        raise FarmError(f"campaign {campaign_id} has no job that ended {' or '.join(verdicts)}: {there}")
    with registry.searching(kernels):
        return _stored(database, row, jobs, known, now_us)


def _stored(
    database: Database, row: CampaignRow, jobs: Sequence[JobRow], known: dict[str, str], now_us: int
) -> Submitted:
    """Stores the campaign of a campaign's jobs."""
    planned = _planned(jobs)
    if any(executes(job.backend) for job in jobs):
        known |= make_inputs([item.case for item in planned], known)
    with database.writing() as s:
        store_sources(s, planned)
        remember_inputs(s, known)
        made = campaign.create(
            s,
            selection=row.selection,
            rule=row.rule,
            planned=[checked(item, known) for item in planned],
            targets=[],
            now_us=now_us,
            retry_of=row.id,
            pack=row.pack,
            bench=row.bench,
            twice=row.twice,
        )
        add_jobs(s, made, [(job.case_id, Target(job.backend, job.device_class)) for job in jobs], now_us)
    return Submitted(made, len(jobs))


def retry_bad(database: Database, campaign_id: int, now_us: int) -> CampaignRow:
    """As `retry`, of every job with a bad verdict; whichever farm is at work runs them."""
    made = retry(database, campaign_id, BAD, now_us).campaign_id
    with database.reading() as s:
        return campaign.campaign_row(s, made)


# What a person may do to a campaign from afar; gives the campaign to look at.
ACTIONS: dict[str, Callable[[Database, int, int], CampaignRow]] = {
    "pause": pause,
    "resume": go_on,
    "cancel": cancel,
    "retry": retry_bad,
}


def retry_and_finish(url: str, campaign_id: int, verdicts: Collection[Verdict], way: Way) -> int:
    """Stores a campaign's jobs anew and runs them; gives the exit code."""
    database = open_existing(url)
    if not way.without_ray and (head := head_on(url)):
        return watch(database, head, retry(database, campaign_id, verdicts, wall_clock()).campaign_id, way)
    with only_farm_on(database):
        made = retry(database, campaign_id, verdicts, wall_clock()).campaign_id
        with database.reading() as s:
            here = boards_for(campaign.campaign_row(s, made))
        return finish(database, made, here, way)


def _planned(jobs: Sequence[JobRow]) -> list[Planned]:
    """The cases of jobs, each once; UnknownName where this catalog has a case's kernel no more."""
    cases = {job.case: Planned(job.case, job.repeats) for job in jobs}
    for case in cases:
        registry.kernel(f"{case.op}/{case.kernel}")
    return list(cases.values())
