"""The commands that carry a rental plan out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fractions import Fraction
from itertools import chain, count
from typing import NamedTuple

from farm.cluster.head_file import HeadFile
from farm.prices import as_said
from farm.rental import HOUR_US, KEEP_MINUTES, Plan, Rental

TASKS = {"gateway": "deploy/sky/gateway-worker.yaml", "ray": "deploy/sky/ray-worker.yaml",
         "bundle": "deploy/sky/bundle-worker.yaml"}  # fmt: skip
GATEWAY_PORT, RAY_PORT = "8443", "6379"
PRIVATE = "10.66.0.1"  # the head's address in the network that deploy/wireguard.sh makes
CERT = ".farm/tls/gateway.pem"
NETWORK = ".farm/wireguard/farm.conf"
HOST = '"${FARM_HOST:?}"'  # the shell runs no command with it before it is set
ONLY = {True: "stale", False: "never"}  # by Wanted.stale


class Line(NamedTuple):
    """A command, and what is said of it at its end."""

    words: str
    note: str = ""


def commands(plan: Plan, head: HeadFile | None = None, taken: Collection[str] = ()) -> list[str]:
    """What to run, line by line, in order; nothing where it rents nothing.

    `head`: the one that runs; `taken`: names that tokens and peers have. A machine's lines are one chain, so
    that nothing is rented where one of them fails, and a name that is taken by now stops it.
    """
    if not plan.rentals:
        return []
    lines = head_lines({rental.offer.road for rental in plan.rentals}, head)
    names = free_names(plan, taken)
    for rental, name in zip(plan.rentals, names, strict=True):
        lines += rental_lines(rental, name, head)
    if any("FARM_HOST" in line for line in lines):
        lines.insert(0, "# FARM_HOST=NAME first: by which machines elsewhere reach this one")
    return [
        *lines,
        "farm status --watch",
        "farm cost",
        f"sky down {' '.join(names)}     # when all is done: nothing runs on",
    ]


def free_names(plan: Plan, taken: Collection[str]) -> list[str]:
    """Of the plan's machines, for SkyPilot, tokens and peers: farm-CLASS, or that and a number."""
    names: list[str] = []
    for rental in plan.rentals:
        name = f"farm-{rental.offer.device_class}"
        numbered = (f"{name}-{number}" for number in count(2))
        names.append(next(one for one in chain([name], numbered) if one not in taken and one not in names))
    return names


def head_lines(roads: set[str], head: HeadFile | None) -> list[str]:
    """What starts a head that these roads lead to; nothing where it runs already."""
    why = _why_not(roads, head)
    if not why:
        return []
    lines, words = [], ""
    if head:
        lines.append(f"farm down     # the head that runs here {why}")
    if "ray" in roads:
        lines += [f"deploy/wireguard.sh head {HOST}",
                  f"sudo wg-quick up {NETWORK} && sudo sysctl -w net.ipv4.ip_forward=1",
                  f"deploy/wireguard.sh firewall {RAY_PORT} | sudo nft -f -"]  # fmt: skip
        words += f" --host {PRIVATE} --firewalled"
    if "gateway" in roads:
        lines.append(f"FARM_SECRETS=.farm/tls deploy/secrets.sh {HOST}")
        words += f" --gateway 0.0.0.0:{GATEWAY_PORT} --cert {CERT} --key .farm/tls/gateway.key"
    return [*lines, f"farm up{words}"]


def _why_not(roads: set[str], head: HeadFile | None) -> str:
    """Why the head at hand, if any, isn't where these roads lead; empty where it is, or none is needed."""
    if roads == {"bundle"}:
        return ""
    if head is None:
        return "isn't there"
    if "gateway" in roads and not head.gateway:
        return "has no gateway"
    if "ray" in roads and not head.address.startswith(f"{PRIVATE}:"):
        return f"is at {head.address}, and not at {PRIVATE}, where machines outside reach Ray"
    return ""


def rental_lines(rental: Rental, name: str, head: HeadFile | None) -> list[str]:
    """A machine's own: what lets it in, the campaigns that it is for, and its start."""
    return [
        *_notes(rental),
        *_chained([*_entry(rental, name), *_campaigns(rental), *_start(rental, name, head)]),
    ]


def _notes(rental: Rental) -> list[str]:
    offer = rental.offer
    if offer.road == "bundle":
        return [f"# {offer.device_class}: its bundle begins the whole catalog, the most valuable cases first"]
    if not rental.left:
        return []
    return [
        f"# {offer.device_class}: its campaigns may run some of the {rental.left:,} cells that the plan "
        "leaves out; --max-cost and the machine's end keep to the budget"
    ]


def _chained(lines: Sequence[Line]) -> list[str]:
    """Lines of which each is run only where the one before it did well."""
    *rest, last = lines
    joined = [f"{one.words} &&{one.note}" for one in rest]
    return [*joined, f"{last.words}{last.note}"]


def _entry(rental: Rental, name: str) -> list[Line]:
    """What its machine is let in by; it refuses a name that is taken, and so a second run of the commands."""
    offer = rental.offer
    if offer.road == "gateway":
        return [Line(f"farm token new {name} --device {offer.device_class} --days 1 --output {name}.token")]
    if offer.road == "ray":
        return [
            Line(f"(umask 077; set -C; deploy/wireguard.sh peer {name} > {name}.conf)"),
            Line(f"sudo bash -c 'wg syncconf farm <(wg-quick strip {NETWORK})'"),
        ]
    return []


def _campaigns(rental: Rental) -> list[Line]:
    """One for a class's stale cells, and one for those that never ran; none for a bundle."""
    offer = rental.offer
    if offer.road == "bundle":
        return []
    lines = []
    for stale in sorted({cell.stale for cell in rental.cells}):
        mine = [cell for cell in rental.cells if cell.stale == stale]
        usd = offer.usd_hour * sum(cell.case_us for cell in mine) / HOUR_US
        words = (
            f"farm submit --all-kinds --backend cuda --device {offer.device_class} "
            f"--only {ONLY[stale]} --max-cost {_cap(usd)} --detach"
        )
        lines.append(Line(words, f"     # {len(mine):,} cells"))
    return lines


def _start(rental: Rental, name: str, head: HeadFile | None) -> list[Line]:
    """Secrets go by environment: a command line can be read by everybody on a machine."""
    offer = rental.offer
    spot = " --use-spot" if offer.spot else ""
    launch = (
        f"sky launch -c {name} -y --gpus {offer.accelerator}:1 --cloud {offer.provider}{spot} "
        f"--idle-minutes-to-autostop {KEEP_MINUTES[offer.road]} --down --env MINUTES={rental.limit_minutes} "
        f"--env LABELS='price={as_said(offer.usd_hour)},provider={offer.provider}'"
    )
    task = TASKS[offer.road]
    if offer.road == "gateway":
        port = head.gateway.rpartition(":")[2] if head and head.gateway else GATEWAY_PORT
        return [
            Line(
                f"TOKEN=$(cat {name}.token) {launch} --detach-run --env GATEWAY=https://{HOST}:{port} "
                f'--env CA="$(cat {CERT})" --secret TOKEN {task}'
            )
        ]
    if offer.road == "ray":
        port = head.address.rpartition(":")[2] if head else RAY_PORT
        return [
            Line(
                f"TOKEN=$(cat .farm/token) WIREGUARD=$(cat {name}.conf) {launch} --detach-run "
                f"--env HEAD={PRIVATE}:{port} --secret TOKEN --secret WIREGUARD {task}"
            )
        ]
    fetch = f"scp {name}:farm.jsonl {name}.jsonl && farm import {name}.jsonl"
    return [Line(f"{launch} {task}"), Line(fetch)]


def _cap(usd: Fraction) -> str:
    """Dollars, up to the next hundredth of a cent: the cells themselves must fit."""
    return f"{float(-(-usd * 10_000 // 1)) / 10_000:.4f}"
