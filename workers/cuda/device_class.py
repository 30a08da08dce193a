"""The class of a board, from its name and its memory: what boards share is one column of the matrix.

Rule 1. The vendor's and product lines' names (NVIDIA, Tesla, GeForce) and "GPU" are left out, the rest is in
small letters with hyphens. Then aliases. A name that was sold with several memories gets the size behind it
where that isn't the size of the table: the RTX 3060 of 8 GB is `rtx-3060-8gb`. A MIG instance's class ends in
its profile.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

LEFT_OUT = ("nvidia", "tesla", "geforce", "gpu", "corporation")
MIG = re.compile(r"\s+MIG\b\s*(?P<profile>\S*)", re.IGNORECASE)
NOT_SLUG = re.compile(r"[^a-z0-9.]+")
SLACK_GB = 1.5  # NVML tells less than the data sheet: what ECC and the driver keep


@dataclass(frozen=True)
class Table:
    """What the rule needs beside the name."""

    rule: int
    aliases: dict[str, str]
    memory_gb: dict[str, int]


@cache
def table() -> Table:
    found = json.loads((files("workers.cuda") / "device_classes.json").read_text(encoding="utf8"))
    return Table(found["rule"], found["aliases"], found["memory_gb"])


def class_of(name: str, memory_bytes: int | None) -> str:
    """`rtx-3060`, `a100-sxm4-80gb-mig-1g.10gb`; `unnamed` where the vendor gives no name."""
    match = MIG.search(name)
    board = slug(MIG.sub("", name)) or "unnamed"
    board = table().aliases.get(board, board)
    if match:
        return f"{board}-mig-{slug(match['profile']) or 'unknown'}"
    usual = table().memory_gb.get(board)
    if usual and memory_bytes:
        memory_gb = memory_bytes / 2**30
        if abs(memory_gb - usual) > SLACK_GB:
            return f"{board}-{round(memory_gb)}gb"
    return board


def slug(name: str) -> str:
    words = [word for word in re.split(r"[\s_/()]+", name.lower()) if word and word not in LEFT_OUT]
    return NOT_SLUG.sub("-", "-".join(words)).strip("-.")
