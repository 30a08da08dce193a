"""Campaigns and boards under the names of their JSON: what commands print and the dashboard hands out."""

from __future__ import annotations

import json
from typing import Any

from db.campaign import CampaignRow
from db.device import DeviceRow
from farm.marks import timestamp


def campaign_record(row: CampaignRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "open": row.is_open,
        "created_at": timestamp(row.created_us),
        "closed_at": _timestamp(row.closed_us),
        "paused_at": _timestamp(row.paused_us),
        "cancelled_at": _timestamp(row.cancelled_us),
        "retry_of": row.retry_of,
        "rule": row.rule,
        "jobs": row.jobs,
        "done": row.done,
        "waiting": row.waiting,
        "leased": row.leased,
        "verdicts": dict(row.verdicts),
        "selection": json.loads(row.selection),
    }


def device_record(row: DeviceRow) -> dict[str, Any]:
    board = row.device
    return {
        "slug": board.slug,
        "device_class": board.device_class,
        "name": board.name,
        "uuid": board.uuid,
        "slots": board.slots,
        "fingerprint": dict(board.fingerprint),
        "first_seen": timestamp(row.first_seen_us),
        "last_seen": timestamp(row.last_seen_us),
    }


def _timestamp(us: int | None) -> str | None:
    return None if us is None else timestamp(us)
