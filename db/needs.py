"""What a case asks of a board and its worker beyond class and backend, and whether they have it.

needs = Needs(sm=80, memory_bytes=2 << 30, files=(sha256,))
unmet_by_class(needs, offer_of(device)) -> str          # no board of the class will do: when jobs are made
old_driver(needs, offer) · absent_file(needs, offer)    # another worker of the class may do: at the lease
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import lru_cache

from kernels import codec
from kernels.model import Device


@dataclass(frozen=True)
class Needs:
    """What a case can't run without; the defaults ask nothing."""

    sm: int = 0  # least compute capability: 86 for sm_86
    memory_bytes: int = 0  # of the board, for all buffers of the plan
    driver: str = ""  # least version: 525.60
    files: tuple[str, ...] = ()  # SHA-256 of those that inputs are read from, sorted
    other_than: str = codec.later("")  # slug of the board that passed it: another is to

    @property
    def of_worker(self) -> Needs:
        """What boards of one class may differ in."""
        return replace(self, sm=0, memory_bytes=0)

    def to_text(self) -> str:
        """Canonical; empty for nothing, which is what most jobs need."""
        return "" if self == NOTHING else codec.canonical(self)


NOTHING = Needs()


@dataclass(frozen=True)
class Offer:
    """What a board and its worker have; a default is not known, and what isn't known refuses nothing."""

    sm: int = 0
    memory_bytes: int = 0
    driver: str = ""
    files: frozenset[str] = frozenset()  # all that the worker holds: here, nothing is nothing


UNKNOWN = Offer()


@lru_cache(maxsize=4096)
def needs_of(text: str) -> Needs:
    """The needs that `to_text` wrote."""
    return codec.decode(Needs, json.loads(text)) if text else NOTHING


def offer_of(device: Device, files: frozenset[str] = frozenset()) -> Offer:
    """What a board says of itself in its fingerprint."""
    said = dict(device.fingerprint)
    sm, memory = said.get("sm", ""), said.get("memory_bytes", "")
    return Offer(
        sm=int(sm.removeprefix("sm_")) if re.fullmatch(r"sm_\d{1,6}", sm, re.ASCII) else 0,
        memory_bytes=int(memory) if re.fullmatch(r"\d{1,18}", memory, re.ASCII) else 0,
        driver=said.get("driver", ""),
        files=files,
    )


def unmet_by_class(needs: Needs, offer: Offer) -> str:
    """Why no board of this class can run it; empty where they can, or nothing is known."""
    if offer.sm and needs.sm > offer.sm:
        return f"needs sm_{needs.sm}, this is sm_{offer.sm}"
    if offer.memory_bytes and needs.memory_bytes > offer.memory_bytes:
        need, have = needs.memory_bytes / 2**30, offer.memory_bytes / 2**30
        return f"needs {need:.1f} GiB of device memory, the board has {have:.1f}"
    return ""


def old_driver(needs: Needs, offer: Offer) -> str:
    """Why this worker's driver won't do, though another's of its class may; empty where it will."""
    if offer.driver and version(needs.driver) > version(offer.driver):
        return f"needs driver {needs.driver}, this is {offer.driver}"
    return ""


def absent_file(needs: Needs, offer: Offer) -> str:
    """The first file that this worker doesn't hold; empty where it holds all."""
    return next((sha256 for sha256 in needs.files if sha256 not in offer.files), "")


def version(text: str) -> tuple[int, ...]:
    """525.60.13 -> (525, 60, 13); empty is older than everything."""
    return tuple(int(part) for part in re.findall(r"\d{1,18}", text, re.ASCII))
