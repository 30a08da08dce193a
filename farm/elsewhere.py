"""What was at work for a head that ends: machines that go on waiting for the next one, and may cost money."""

from __future__ import annotations

from collections.abc import Collection

from db import activity, device, token
from db.session import Session
from farm.terminal import duration

RECENT_US = 15 * 60_000_000  # one that idles is dated at its hello, its last line and the head's end


def elsewhere(s: Session, here: Collection[str], now_us: int) -> tuple[str, ...]:
    """A line for each board that isn't among the slugs `here`, and for each token, of the last 15 minutes."""
    holding = {each.device for each in activity.held(s)}
    lines = []
    for row in device.devices(s):
        slug, ago_us = row.device.slug, now_us - row.last_seen_us
        if slug in here or (ago_us > RECENT_US and slug not in holding):
            continue
        jobs = ", holds jobs" if slug in holding else ""
        lines.append(f"{slug}: heard {duration(max(ago_us, 0) / 1e6)} ago{jobs}")
    for each in token.tokens(s):
        if each.used_us is not None and now_us - each.used_us <= RECENT_US and each.state(now_us) == "valid":
            lines.append(f"token {each.name}: used {duration(max(now_us - each.used_us, 0) / 1e6)} ago")
    return tuple(lines)
