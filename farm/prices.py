"""What an hour of a board costs: what its worker said, or a table of offers.

hourly(board, …) -> dollars or None          # of one board, for `farm cost` and `--max-cost` alike
offers(path) -> tuple[Offer, …]              # of a TOML file, or of the one that comes with the farm
sky_offers(folder) -> tuple[Offer, …]        # of SkyPilot's catalog, where it has fetched one
"""

from __future__ import annotations

import csv
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from importlib.resources import files
from pathlib import Path
from typing import Any

from farm.targets import target_gpus
from kernels.errors import FarmError
from kernels.model import Device
from workers.rented import DEAREST, dollars

SKY_CATALOGS = Path(".sky/catalogs")  # below SKY_RUNTIME_DIR, or at home
SKY_PROVIDERS = ("aws", "azure", "gcp", "lambda", "runpod", "vast")  # that the tasks in deploy/sky name
SKY_NAMES = {"A6000": "RTXA6000", "V100-32GB": "V100-SXM2-32GB"}  # of one board at different providers
ROADS = ("ray", "gateway", "bundle")
NAME = re.compile(r"[A-Za-z0-9_.:-]{1,80}")  # it goes into the commands that a plan prints
CHEAPEST = Fraction("0.001")  # dollars an hour: less is a mistake
FIELDS = ("device_class", "accelerator", "usd_hour", "provider", "road", "spot", "source")


@dataclass(frozen=True)
class Offer:
    """A class of board that somebody rents out."""

    device_class: str
    accelerator: str  # as SkyPilot calls it: RTX3090
    usd_hour: Fraction
    provider: str
    road: str  # by which its evidence should come, of ROADS
    spot: bool  # it may be taken back at any time
    source: str  # whose figure the price is


def offers(path: Path | None = None) -> tuple[Offer, ...]:
    """The offers of a price file; FarmError names the entry and what is wrong with it."""
    name = str(path) if path else "prices.toml"
    try:
        text = path.read_text("utf8") if path else (files("farm") / "prices.toml").read_text("utf8")
        entries = tomllib.loads(text).get("offer", [])
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise FarmError(f"{name}: {getattr(error, 'strerror', None) or error}") from None
    if not isinstance(entries, list) or not entries:
        raise FarmError(f"{name} has no [[offer]]; one has device_class, accelerator, usd_hour and provider")
    return tuple(_offer(entry, f"{name}, offer {number}") for number, entry in enumerate(entries, 1))


def said(words: Iterable[tuple[str, str]]) -> Fraction | None:
    """Dollars an hour by a board's own fingerprint, 0 for none; None where its worker wasn't told."""
    return dollars(dict(words).get("price", ""))


def as_said(usd_hour: Fraction) -> str:
    """A price as `said` reads it: 1.19 USD/h."""
    return f"{float(usd_hour):.9f}".rstrip("0").rstrip(".") + " USD/h"


def cheapest(found: Iterable[Offer]) -> dict[str, Offer]:
    """The cheapest offer of each class."""
    best: dict[str, Offer] = {}
    for offer in found:
        if offer.device_class not in best or offer.usd_hour < best[offer.device_class].usd_hour:
            best[offer.device_class] = offer
    return best


def hourly(
    board: Device, is_rented: bool, given: Mapping[str, Offer], listed: Mapping[str, Offer]
) -> Fraction | None:
    """Dollars an hour: what the board's worker was told, else by the table given, else nothing for a board of
    one's own, and by the farm's list for a rented one; None where that doesn't have its class.
    """
    told = said(board.fingerprint)
    if told is not None:
        return told
    if board.device_class in given:
        return given[board.device_class].usd_hour
    if not is_rented:
        return Fraction()
    return listed[board.device_class].usd_hour if board.device_class in listed else None


def sky_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where SkyPilot keeps what it fetched."""
    return Path(environ.get("SKY_RUNTIME_DIR") or "~").expanduser() / SKY_CATALOGS


def sky_offers(folder: Path | None = None) -> tuple[Offer, ...]:
    """Single boards of the tasks' providers in SkyPilot's newest catalog; empty where there is none.

    A row without a machine is left out: GCP's are the board's price, and its host is another row.
    FarmError names a table that can't be read.
    """
    names = {offer.accelerator.upper(): offer.device_class for offer in offers()}
    names |= {other: names[name] for other, name in SKY_NAMES.items()}
    known = {target.device_class for target in target_gpus()}
    found = []
    for path in _tables(folder or sky_folder()):
        for row in _rows(path):
            device_class = names.get(row.get("AcceleratorName", "").upper(), "")
            single = row.get("AcceleratorCount", "") in ("1", "1.0") and row.get("InstanceType", "") != ""
            if device_class in known and single:
                found += _sky(row, device_class, path.parent.name)
    return tuple(found)


def _tables(folder: Path) -> list[Path]:
    """Those of the newest schema, v8: SkyPilot leaves the older ones behind with the prices of their day."""
    versions = [int(path.name[1:]) for path in folder.glob("v*") if path.name[1:].isdecimal()]
    if not versions:
        return []
    paths = [folder / f"v{max(versions)}" / provider / "vms.csv" for provider in SKY_PROVIDERS]
    return [path for path in paths if path.exists()]


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(newline="", encoding="utf8") as rows:
            return list(csv.DictReader(rows, restkey="", restval=""))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FarmError(
            f"{path}: {getattr(error, 'strerror', None) or error}; --prices FILE instead"
        ) from None


def _sky(row: Mapping[str, str], device_class: str, provider: str) -> list[Offer]:
    prices = ((row.get("Price", ""), False), (row.get("SpotPrice", ""), True))
    name, source = row["AcceleratorName"], "SkyPilot's catalog"
    return [
        Offer(device_class, name, Fraction(price), provider, road_of(provider), spot, source)
        for price, spot in prices
        if re.fullmatch(r"\d+(\.\d+)?", price) and CHEAPEST <= Fraction(price) < DEAREST
    ]


def road_of(provider: str) -> str:
    """A big cloud's machines may join Ray on a private network; a marketplace's host calls the gateway."""
    return "ray" if provider in ("aws", "gcp", "azure") else "gateway"


def _offer(entry: Any, where: str) -> Offer:
    if not isinstance(entry, dict):
        raise FarmError(f"{where} is no table")
    if unknown := sorted(set(entry) - set(FIELDS)):
        raise FarmError(f"{where}: no field is called {unknown[0]!r}; there are {', '.join(FIELDS)}")
    texts = {}
    for name in ("device_class", "accelerator", "provider"):
        texts[name] = entry.get(name, "")
        if not isinstance(texts[name], str) or not NAME.fullmatch(texts[name]):
            raise FarmError(
                f"{where}: {name} is {entry.get(name)!r}; a name of letters, digits and . _ : - is wanted"
            )
    price = entry.get("usd_hour")
    if isinstance(price, bool) or not isinstance(price, int | float) or not CHEAPEST <= price < DEAREST:
        raise FarmError(
            f"{where}: usd_hour is {price!r}; dollars an hour are wanted, {float(CHEAPEST)} or more and "
            f"below {DEAREST}"
        )
    road = entry.get("road", road_of(texts["provider"]))
    if road not in ROADS:
        raise FarmError(f"{where}: road is {road!r}; there are {', '.join(ROADS)}")
    if not isinstance(entry.get("spot", False), bool):
        raise FarmError(f"{where}: spot is {entry['spot']!r}; true or false is wanted")
    return Offer(
        **texts,
        usd_hour=Fraction(str(price)),
        road=road,
        spot=entry.get("spot", False),
        source=str(entry.get("source", "")),
    )
