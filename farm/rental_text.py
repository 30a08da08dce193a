"""The commands that carry a rental plan out."""

from __future__ import annotations

from fractions import Fraction

from farm.cluster.head_file import HeadFile
from farm.prices import as_said
from farm.rental import HOUR_US, KEEP_MINUTES, Plan, Rental

TASKS = {"gateway": "deploy/sky/gateway-worker.yaml", "ray": "deploy/sky/ray-worker.yaml",
         "bundle": "deploy/sky/bundle-worker.yaml"}  # fmt: skip
GATEWAY_PORT, RAY_PORT = "8443", "6379"
PRIVATE = "10.66.0.1"  # the head's address in the network that deploy/wireguard.sh makes
CERT = ".farm/tls/gateway.pem"
NETWORK = ".farm/wireguard/farm.conf"
ONLY = {True: "stale", False: "never"}  # by Wanted.stale


def commands(plan: Plan, head: HeadFile | None = None) -> list[str]:
    """What to run, line by line, in order; nothing where it rents nothing. `head`: the one that runs."""
    if not plan.rentals:
        return []
    lines = head_lines({rental.offer.road for rental in plan.rentals}, head)
    for rental in plan.rentals:
        lines += [*submit_lines(rental), *launch_lines(rental, head)]
    names = " ".join(map(name_of, plan.rentals))
    return [
        *lines,
        "farm status --watch",
        "farm cost",
        f"sky down {names}     # when all is done: nothing runs on",
    ]


def head_lines(roads: set[str], head: HeadFile | None) -> list[str]:
    """What starts a head that these roads lead to; nothing where it runs already."""
    why = _why_not(roads, head)
    if not why:
        return []
    lines, words = [], ""
    if head:
        lines.append(f"farm down     # the head that runs here {why}")
    if "ray" in roads:
        lines += ["deploy/wireguard.sh head HOST     # HOST: where machines elsewhere reach this one",
                  f"sudo wg-quick up {NETWORK} && sudo sysctl -w net.ipv4.ip_forward=1",
                  f"deploy/wireguard.sh firewall {RAY_PORT} | sudo nft -f -"]  # fmt: skip
        words += f" --host {PRIVATE} --firewalled"
    if "gateway" in roads:
        lines.append(
            "FARM_SECRETS=.farm/tls deploy/secrets.sh HOST     # HOST: where workers reach this machine"
        )
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


def submit_lines(rental: Rental) -> list[str]:
    """A campaign for a class's stale cells, and one for those that never ran; none for a bundle."""
    offer = rental.offer
    if offer.road == "bundle":
        return [f"# {offer.device_class}: its bundle begins the whole catalog, the most valuable cases first"]
    lines = []
    if rental.left:
        lines.append(
            f"# {offer.device_class}: its campaigns may run some of the {rental.left:,} cells that the plan "
            "leaves out; --max-cost and the machine's end keep to the budget"
        )
    for stale in sorted({cell.stale for cell in rental.cells}):
        mine = [cell for cell in rental.cells if cell.stale == stale]
        usd = offer.usd_hour * sum(cell.case_us for cell in mine) / HOUR_US
        lines.append(
            f"farm submit --all-kinds --backend cuda --device {offer.device_class} "
            f"--only {ONLY[stale]} --max-cost {_cap(usd)} --detach     # {len(mine):,} cells"
        )
    return lines


def launch_lines(rental: Rental, head: HeadFile | None = None) -> list[str]:
    offer, name = rental.offer, name_of(rental)
    spot = " --use-spot" if offer.spot else ""
    launch = (
        f"sky launch -c {name} -y --gpus {offer.accelerator}:1 --cloud {offer.provider}{spot} "
        f"--idle-minutes-to-autostop {KEEP_MINUTES[offer.road]} --down --env MINUTES={rental.limit_minutes} "
        f"--env LABELS='price={as_said(offer.usd_hour)},provider={offer.provider}'"
    )
    # Secrets go by environment: a command line can be read by everybody on a machine.
    task = TASKS[offer.road]
    if offer.road == "gateway":
        port = head.gateway.rpartition(":")[2] if head and head.gateway else GATEWAY_PORT
        return [
            f"(umask 077; farm token new {name} --device '{offer.device_class}*' --days 1 > {name}.token)",
            f'TOKEN=$(cat {name}.token) {launch} --env GATEWAY=https://HOST:{port} --env CA="$(cat {CERT})" '
            f"--secret TOKEN {task}",
        ]
    if offer.road == "ray":
        port = head.address.rpartition(":")[2] if head else RAY_PORT
        return [
            f"(umask 077; deploy/wireguard.sh peer {name} > {name}.conf)",
            f"sudo bash -c 'wg syncconf farm <(wg-quick strip {NETWORK})'",
            f"TOKEN=$(cat .farm/token) WIREGUARD=$(cat {name}.conf) {launch} --env HEAD={PRIVATE}:{port} "
            f"--secret TOKEN --secret WIREGUARD {task}",
        ]
    return [f"{launch} {task}", f"scp {name}:farm.jsonl {name}.jsonl && farm import {name}.jsonl"]


def name_of(rental: Rental) -> str:
    """As SkyPilot knows the machine."""
    return f"farm-{rental.offer.device_class}"


def _cap(usd: Fraction) -> str:
    """Dollars, up to the next hundredth of a cent: the cells themselves must fit."""
    return f"{float(-(-usd * 10_000 // 1)) / 10_000:.4f}"
