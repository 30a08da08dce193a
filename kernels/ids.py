"""Names for attempts and lines: UUIDs that sort by when they were made, so that an index grows at its end."""

from __future__ import annotations

import os

RANDOM = (1 << 62) - 1


def new_id(now_us: int) -> str:
    """A UUID of version 7 (RFC 9562): milliseconds since 1970, then 74 random bits."""
    noise = int.from_bytes(os.urandom(10), "big")
    high = (now_us // 1000 & (1 << 48) - 1) << 16 | 7 << 12 | noise >> 68
    text = f"{high << 64 | 1 << 63 | noise & RANDOM:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
