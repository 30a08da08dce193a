"""What moves while somebody looks: campaigns with their pace, boards with what they run."""

from __future__ import annotations

from typing import Any

from db import activity as activity_of
from db import trust
from db.campaign import campaign_row
from db.job import jobs_of
from db.session import Session
from farm.activity import BoardNow, CampaignNow, campaign_now, read_activity
from farm.records import campaign_record, device_record
from farm.terminal import duration
from farm.watch_frame import case_words
from kernels.evidence import Verdict
from workers import thermometer
from workers.clock import wall_clock

NEWEST = 100  # bad jobs that a page lists
Record = dict[str, Any]


def overview(s: Session) -> Record:
    """Campaigns and boards, as they are at this moment."""
    now_us = wall_clock()
    seen = read_activity(s, now_us, thermometer.celsius())
    aside = {one.device: one.reason for one in trust.standings(s) if one.aside_us is not None}
    return {
        "campaigns": [_campaign(one) for one in seen.campaigns],
        "older": seen.older,
        "devices": [_board(one, now_us) | {"aside": aside.get(one.row.device.slug)} for one in seen.boards],
    }


def campaign(s: Session, campaign_id: int) -> Record:
    """A campaign: how far, how fast, where, and what is bad."""
    now = campaign_now(s, campaign_row(s, campaign_id), wall_clock())
    count = sum(number for verdict, number in now.row.verdicts if verdict.bad)
    bad = jobs_of(s, campaign_id, [verdict for verdict in Verdict if verdict.bad], NEWEST) if count else ()
    return {
        "campaign": _campaign(now),
        "places": [_place(one) for one in activity_of.places(s, campaign_id)],
        "bad": [
            {
                "job": job.id,
                "verdict": job.verdict,
                "cell": f"{job.device_class}/{job.backend}/{job.case.op}/{job.case.kernel}/{job.case.kind}"
                f"/{job.case.build.value}",
                "shape": str(job.case.shape),
                "family": job.case.family,
            }
            for job in bad
        ],
        "bad_jobs": count,
    }


def _campaign(now: CampaignNow) -> Record:
    eta = duration(now.eta_s) if now.eta_s is not None else None
    pace = {"per_minute": round(now.per_minute, 1), "eta_s": now.eta_s and round(now.eta_s), "eta": eta}
    return campaign_record(now.row) | pace


def _board(now: BoardNow, now_us: int) -> Record:
    running = [
        {
            "job": one.job_id,
            "campaign": one.campaign_id,
            "words": f"{one.backend} {case_words(one.case)}",
            "for_s": round((now_us - (one.started_us or now_us)) / 1e6, 1),
        }
        for one in now.running
    ]
    known = device_record(now.row)
    pace = {"waiting": now.waiting, "per_minute": round(now.per_minute, 1), "celsius": now.celsius}
    return known | {"running": running} | pace


def _place(place: activity_of.PlaceNow) -> Record:
    return {
        "device_class": place.device_class,
        "backend": place.backend,
        "waiting": place.waiting,
        "leased": place.leased,
        "verdicts": dict(place.verdicts),
    }
