"""The commands that carry a rental plan out."""

from __future__ import annotations

from collections.abc import Sequence

from farm.prices import as_said
from farm.rental import HOUR_US, Plan, Rental

SPARE = 1.5  # of the reckoned time, after which a machine is to stop by itself
TASKS = {"gateway": "deploy/sky/gateway-worker.yaml", "ray": "deploy/sky/ray-worker.yaml",
         "bundle": "deploy/sky/bundle-worker.yaml"}  # fmt: skip
KEEP_MINUTES = {"gateway": 5, "ray": 5, "bundle": 30}  # behind the work: a bundle has to be fetched


def commands(plan: Plan) -> list[str]:
    """What to run, line by line, in order; nothing where the plan rents nothing."""
    if not plan.rentals:
        return []
    lines = ["farm up --gateway HOST:8443 --cert farm.pem --key farm.key     # on a machine of your own"]
    lines += [submit_line(plan)]
    for rental in plan.rentals:
        lines += launch_lines(rental)
    lines += ["farm status --watch", "farm cost", "sky down 'farm-*'     # when all is done: nothing runs on"]
    return lines


def submit_line(plan: Plan) -> str:
    """One campaign for all of it: every class that joins takes its own jobs."""
    only = _only(plan.rentals)
    cap = -(-plan.usd * 100 // 1) / 100  # a cent up: the plan itself must fit
    return f"farm submit --all-kinds --backend cuda{only} --max-cost {float(cap):.2f} --detach"


def launch_lines(rental: Rental) -> list[str]:
    offer = rental.offer
    name = f"farm-{offer.device_class}"
    minutes = max(10, round(SPARE * rental.us / HOUR_US * 60))
    task = TASKS[offer.road]
    spot = " --use-spot" if offer.spot else ""
    launch = (
        f"sky launch -c {name} -y --gpus {offer.accelerator}:1 --cloud {offer.provider}{spot} "
        f"--idle-minutes-to-autostop {KEEP_MINUTES[offer.road]} --down --env MINUTES={minutes} "
        f"--env LABELS='price={as_said(offer.usd_hour)},provider={offer.provider}'"
    )
    # Secrets go by environment: a command line can be read by everybody on a machine.
    if offer.road == "gateway":
        token = f"{name}.token"
        return [
            f"(umask 077; farm token new {name} --device '{offer.device_class}*' --days 1 > {token})",
            f'TOKEN=$(cat {token}) {launch} --env GATEWAY=https://HOST:8443 --env CA="$(cat farm.pem)" '
            f"--secret TOKEN {task}",
        ]
    if offer.road == "ray":
        return [f"TOKEN=$(cat .farm/token) {launch} --env HEAD=HOST:6379 --secret TOKEN {task}"]
    return [f"{launch} {task}", f"scp {name}:farm.jsonl {name}.jsonl && farm import {name}.jsonl"]


def _only(rentals: Sequence[Rental]) -> str:
    """A filter where all cells are of one sort; what is fresh is run again otherwise."""
    stale = {cell.stale for rental in rentals for cell in rental.cells}
    return {frozenset({True}): " --only stale", frozenset({False}): " --only never"}.get(frozenset(stale), "")
