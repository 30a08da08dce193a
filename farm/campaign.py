"""From a command line's words to a stored campaign: which cases, with which digests, on which devices."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType

from db import blob, campaign, capability, device
from db.cases import known_inputs, remember_inputs
from db.cell import Capability
from db.job import PlannedCase, Target
from db.session import Database, Session
from farm import gguf_cases, user_catalog
from farm.gguf_cases import Listed
from farm.lacking import Only, Ran
from farm.matrix import Row
from farm.needs import needs
from farm.workload_file import Left
from kernels import catalog, codec, inputs, registry, source
from kernels.catalog import Planned, Selection
from kernels.declared.catalog import Catalog
from kernels.errors import FarmError
from kernels.evidence import Rule
from kernels.model import Case, Device, Role
from workers.boards import Board, executes, matches
from workers.files import FileStore
from workers.machine import free_bytes
from workers.need import SMALL_BYTES

BASE_DEADLINE_S = 30.0
BENCH_S = 180.0  # for drawing and carrying copies, and for the marks
TWICE = 0.05  # of a campaign's cases, one in twenty
MACS_PER_S = 1e6  # what the slowest machine with a numpy twin and an oracle beside it still reaches


@dataclass(frozen=True)
class GgufFile:
    """A file whose own weights are run."""

    path: str
    rows: int = gguf_cases.DEFAULT_ROWS
    batch: int = 0


@dataclass(frozen=True)
class Workloads:
    """A file that the selection's uses are from, and what of it no op of ours computes."""

    file: str
    left: tuple[Left, ...] = ()


@dataclass(frozen=True)
class Order:
    """What a submit was told; stored with the campaign, so that a device that joins later gets its jobs."""

    selection: Selection
    backends: tuple[str, ...]
    device: str = "*"  # glob
    rule: Rule = Rule.BOUND
    only: Only | None = None
    gguf: GgufFile | None = None
    workloads: Workloads | None = None
    catalog: str = ""  # address of the user's catalog that its kernels are in; empty for the farm's own
    bench: bool = codec.later(False)  # whether what passes is timed
    max_usd: float = codec.later(0.0)  # of its boards' leases, after which it stops; 0: no limit
    max_hours: float = codec.later(0.0)  # from its first lease on; 0: no limit
    twice: float = codec.later(TWICE)  # share of the cases that two boards of a class run, where it has two


@lru_cache(maxsize=64)
def order_of(selection: str) -> Order:
    """The order that a campaign is stored with."""
    return codec.decode(Order, json.loads(selection))


@dataclass(frozen=True)
class Work:
    """What an order comes to before any database is asked."""

    planned: tuple[Planned, ...]
    listed: tuple[Listed, ...] = ()  # what of a file makes no case


@dataclass(frozen=True)
class Submitted:
    """A stored campaign."""

    campaign_id: int
    jobs: int


def submit(
    database: Database,
    order: Order,
    work: Work,
    boards: Sequence[Board],
    now_us: int,
    found: Catalog | None = None,
) -> Submitted:
    """Stores the campaign of an order; FarmError, and no row, where it yields no job.

    `found` is the user's catalog that is searched, if the order names one.
    """
    targets = [target(name, b.device) for b in boards for name in b.backends]
    runs = not targets or any(not target.per_source for target in targets)
    planned = work.planned if runs else one_per_source(work.planned)
    with database.reading() as s:
        kept = _kept(s, order, planned, boards, targets)
        known = known_inputs(s, {item.case.inputs_key for item in kept})
    if not kept:
        raise FarmError(_why_empty(order, work))
    if runs:  # else nobody reads them
        known |= make_inputs([item.case for item in kept], known)
    with database.writing() as s:
        store_sources(s, kept)
        if found:
            user_catalog.store(s, found.pack, now_us)
        remember_inputs(s, known)
        campaign_id = campaign.create(
            s,
            selection=codec.canonical(order),
            rule=order.rule,
            planned=[checked(item, known) for item in kept],
            targets=targets,
            now_us=now_us,
            pack=order.catalog,
            bench=order.bench,
            twice=order.twice,
        )
        jobs = campaign.campaign_row(s, campaign_id).jobs
    return Submitted(campaign_id, jobs)


def _kept(
    s: Session, order: Order, planned: tuple[Planned, ...], boards: Sequence[Board], targets: Sequence[Target]
) -> tuple[Planned, ...]:
    """What of an order's cases it asks for, told from the cells that there are; all unless it says so."""
    if not order.only:
        return planned
    cells, known = capability.cells(s), [seen.device for seen in device.devices(s)]
    here = [b.device for b in boards]
    sms = {one.device_class: dict(one.fingerprint).get("sm", "") for one in (*known, *here)}
    meant = {one.slug for one in known if matches(one, order.device)}
    return keep(planned, order.only, targets or known_targets(order, meant, cells), cells, sms)


def known_targets(order: Order, meant: Collection[str], cells: Iterable[Capability]) -> list[Target]:
    """Where evidence came from before, for an order that is stored before any device is at hand; `meant` are
    the slugs of its boards.
    """
    asked = (cell for cell in cells if cell.key.backend in order.backends and cell.key.device in meant)
    pairs = {(cell.key.backend, cell.device_class) for cell in asked}
    return [Target(name, place, per_source=not executes(name)) for name, place in sorted(pairs)]


def target(backend: str, device: Device) -> Target:
    """Where cases run; where they are only compiled, one case of every source is enough."""
    return Target(backend, device.device_class, per_source=not executes(backend), board=device)


def one_per_source(planned: Iterable[Planned]) -> tuple[Planned, ...]:
    """The first case of every source; a case that its op or kernel refuses only where there is no other."""
    chosen: dict[str, Planned] = {}
    for item in planned:
        digest = source_digest(item.case)
        if digest not in chosen or (refusal(chosen[digest].case) and not refusal(item.case)):
            chosen[digest] = item
    return tuple(chosen.values())


def refusal(case: Case) -> str:
    """Why op or kernel won't run a case; empty if they will."""
    return registry.op(case.op).refuses(case) or registry.kernel(f"{case.op}/{case.kernel}").refuses(case)


def plan(order: Order) -> Work:
    """The cases of an order, and what of its file makes none; wrong words and bad files are refused here."""
    if order.gguf is None:
        left = order.workloads.left if order.workloads else ()
        return Work(catalog.expand(order.selection), not_run(left))
    held = FileStore().register(Path(order.gguf.path))
    found = gguf_cases.cases(held, _choice(order))
    return Work(tuple(Planned(case, 1) for case in found), gguf_cases.listed(held, registry.kinds()))


def not_run(left: Iterable[Left]) -> tuple[Listed, ...]:
    """What of a workload file makes no case, with the reason and how often it is used."""
    return tuple(Listed(item.what, f"{item.reason} ({item.count:,} uses)") for item in left)


def keep(
    planned: Sequence[Planned],
    only: Only,
    targets: Sequence[Target],
    known: Iterable[Capability],
    sms: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Planned, ...]:
    """The cases whose cell is never run, stale or bad on at least one target; `sms`: class to sm.

    Where there is no target, nobody ran anything there.
    """
    if not targets:
        return tuple(planned) if only is Only.NEVER else ()
    ran = Ran(known, sms)

    def wanted(case: Case) -> bool:
        row, digest = Row(case.op, case.kernel, case.kind, case.build.value), source_digest(case)
        return any(ran.lacks(t.device_class, t.backend, row, digest) is only for t in targets)

    return tuple(item for item in planned if wanted(item.case))


def targets_here(selection: str, device: Device, backends: Iterable[str]) -> list[Target]:
    """What a stored order wants of a device that says hello."""
    order = order_of(selection)
    if not matches(device, order.device):
        return []
    return [target(name, device) for name in backends if name in order.backends]


@cache
def deadline_s(case: Case, bench: bool = False) -> float:
    """Seconds from a case's start to its end by force: a minute for small ones, more by multiply-adds.

    Twice as long, and a few minutes, where it is timed: marks are measured beside it.
    """
    macs = math.prod(max(1, size) for _, size in case.shape.axes) * max(1, len(case.kinds))
    once_s = 2 * BASE_DEADLINE_S + macs / MACS_PER_S
    return 2 * once_s + BENCH_S if bench else once_s


def source_digest(case: Case) -> str:
    return source.digest(f"{case.op}/{case.kernel}", case.kinds, case.build)


def checked(item: Planned, digests: dict[str, str]) -> PlannedCase:
    """A case with what its workers will be checked by."""
    case = item.case
    digest = digests.get(case.inputs_key, "")
    return PlannedCase(case, item.repeats, source_digest(case), digest, needs(case))


def make_inputs(cases: Iterable[Case], known: dict[str, str]) -> dict[str, str]:
    """The digests of inputs that no campaign had before, by key.

    A refused case has no inputs and none; nor have inputs that this machine's memory doesn't hold: their
    worker makes them unchecked.
    """
    missing = {case.inputs_key: case for case in cases}
    store = FileStore()
    made = {}
    for key, case in missing.items():
        if key in known or refusal(case):
            continue
        plan = registry.kernel(f"{case.op}/{case.kernel}").plan(case)
        nbytes = sum(buffer.nbytes for buffer in plan.buffers if buffer.role is Role.IN)
        if nbytes <= SMALL_BYTES or nbytes <= free_bytes():
            images = inputs.images(case, plan, registry.op(case.op).operands(case), store)
            made[key] = inputs.digest(images)
    return made


def store_sources(s: Session, planned: Iterable[Planned]) -> None:
    """Keeps the texts that will run, by digest, so that evidence can be read when the source has changed."""
    for digest, case in {source_digest(item.case): item.case for item in planned}.items():
        parts = registry.kernel(f"{case.op}/{case.kernel}").parts(case.kinds)
        texts = tuple(blob.SourceText(part, kind, source.text(part, kind)) for part, kind in parts)
        blob.put_source(s, digest, texts)


def _choice(order: Order) -> gguf_cases.Choice:
    assert order.gguf is not None
    chosen, kinds = order.selection, tuple(registry.kinds())
    return gguf_cases.Choice(
        kernels=tuple(kernel.id for kernel in catalog.kernels_of(chosen)),
        kinds=tuple(kind for kind in kinds if not chosen.kinds or kind in chosen.kinds),
        builds=chosen.builds,
        families=chosen.families or ("ordinary",),
        seed=chosen.seeds[0],
        rows=order.gguf.rows,
        batch=order.gguf.batch,
    )


def _why_empty(order: Order, work: Work) -> str:
    if work.planned:
        return f"no job: none of the {len(work.planned)} cases' cells is {order.only}; farm status shows them"
    if order.gguf:
        return f"no job: {order.gguf.path} has no tensor that these kernels take ({len(work.listed)} listed)"
    return f"no job: no kernel fits {_words(order.selection)} together; farm kernels lists them"


def _words(selection: Selection) -> str:
    named = [
        f"--{name} {value}"
        for name, values in (
            ("op", selection.ops), ("kernel", selection.kernels), ("kind", selection.kinds),
            ("shape", selection.shapes), ("tier", selection.tiers), ("family", selection.families),
        )
        for value in values
    ]  # fmt: skip
    return " ".join(named) or "the selection"
