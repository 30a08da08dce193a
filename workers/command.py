"""`python -m workers`: runs cases alone, without Ray and without a database, and writes one bundle."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from kernels import catalog, codec, registry, source
from kernels.catalog import Planned, Selection
from kernels.declared.catalog import Catalog
from kernels.errors import FarmError, UsageError
from kernels.evidence import Evidence, Rule, Verdict
from kernels.model import Build, Case, Device
from kernels.tiers import Tier
from workers import backend as backends
from workers import bundle, packs, selftest
from workers.backend import Unavailable
from workers.board_lock import held
from workers.boards import resource
from workers.exam import admit
from workers.interrupt import sigterm_interrupts
from workers.isolate import Isolated
from workers.leaving import Limits
from workers.standalone import Order, run_cases
from workers.usage import Parser, positive
from workers.worth import most_valuable_first

INTERRUPTED = 130
BAD = 3
EPILOG = """Exit status: 0 nothing bad, 1 could not be done, 2 usage, 3 a bad verdict, 130 interrupted or
out of time. A bundle that exists is continued: what it has of the same source isn't run again."""


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status; one line on stderr for whatever could not be done."""
    given = _parser().parse_args(argv)
    try:
        return COMMANDS[given.command](given)
    except FarmError as error:
        print(f"workers: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:  # a full disk, a process that can't be started
        print(f"workers: {error}", file=sys.stderr)
        return FarmError.exit_code
    except KeyboardInterrupt:
        print("workers: interrupted; the same command goes on where it stopped", file=sys.stderr)
        return INTERRUPTED


def _parser() -> Parser:
    parser = Parser(prog="python -m workers", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    _add_run(commands.add_parser("run", help="run cases and write their evidence to a bundle", epilog=EPILOG))
    devices_ = commands.add_parser("devices", help="what this machine can run cases on")
    devices_.add_argument("--json", action="store_true")
    _add_selftest(
        commands.add_parser("selftest", help="what this box is worth: is it right, fast and robust")
    )
    _add_pull(commands.add_parser("pull", help="work for a gateway until stopped"))
    return parser


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="KERNEL [KIND] [SHAPE]", help="matvec/block Q4_K 64x4096")
    parser.add_argument("--all-kinds", action="store_true", help="every kernel for every kind")
    for noun in ("op", "kernel", "kind", "shape", "family"):
        parser.add_argument(
            f"--{noun}", action="append", default=[], help=f"only this {noun}; may be repeated"
        )
    parser.add_argument(
        "--seed", action="append", type=int, default=[], help="0 unless given; may be repeated"
    )
    builds = [build.value for build in Build]
    parser.add_argument("--build", action="append", choices=builds, default=[], help="exact and default")
    parser.add_argument(
        "--tier",
        action="append",
        default=[],
        choices=[tier.value for tier in Tier],
        help="quick unless named",
    )
    parser.add_argument("--catalog", metavar="DIR", help="kernels of your own, declared in this folder")
    parser.add_argument("--backend", default="host", help="how to run: %(default)s unless given")
    parser.add_argument(
        "--device", default="*", metavar="GLOB", help="class, slug or UUID; the first that fits"
    )
    parser.add_argument("--rule", choices=[rule.value for rule in Rule], default=Rule.BOUND.value)
    parser.add_argument(
        "--minutes",
        type=positive,
        default=0.0,
        help="start no case after that long; a case of every cell first",
    )
    parser.add_argument("--deadline", type=positive, default=120.0, metavar="SECONDS", help="for each case")
    parser.add_argument("--bundle", type=Path, required=True, metavar="FILE", help="where the evidence goes")


def _add_selftest(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--minutes", type=positive, default=5.0, help="about how long; %(default)s unless given"
    )
    parser.add_argument("--backend", default="cuda", help="how to run: %(default)s unless given")
    parser.add_argument(
        "--device", default="*", metavar="GLOB", help="class, slug or UUID; the first that fits"
    )
    parser.add_argument(
        "--bundle", type=Path, default=Path("selftest.jsonl"), metavar="FILE", help="%(default)s unless given"
    )


def selftest_(given: argparse.Namespace) -> int:
    """Runs the selftest and prints its table last; 1 where nothing can run, 3 where a step is bad."""
    device = first_fitting(backends.backend(given.backend).devices(), given.device)
    wanted = selftest.Wanted(given.backend, device, given.bundle, given.minutes)
    with sigterm_interrupts():
        steps = selftest.run(wanted, lambda line: print(f"workers: {line}", file=sys.stderr, flush=True))
    print(f"selftest of {device.slug}, {given.minutes:g} minutes")
    for line in selftest.table(steps):
        print(line)
    return 0 if all(step.good for step in steps) else BAD


def _add_pull(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="https://HOST:PORT of `farm gateway`")
    parser.add_argument(
        "--token-file", type=Path, required=True, metavar="FILE", help="what farm token new printed"
    )
    parser.add_argument(
        "--ca", default="", metavar="FILE", help="PEM that the gateway's certificate is checked by"
    )
    parser.add_argument("--backend", action="append", default=[], help="host and cuda unless named")
    parser.add_argument("--device", default="*", metavar="GLOB", help="class, board name, slug or UUID")
    parser.add_argument("--drain", action="store_true", help="end when there is nothing left to do")
    for option, dest, what in (
        ("--minutes", "life", "start no case after that long"),
        ("--patience-minutes", "away", "end after that long without a gateway"),
        ("--idle-minutes", "idle", "end after that long without a case"),
    ):
        parser.add_argument(option, dest=dest, type=float, default=0.0, metavar="N", help=f"{what}; 0: never")


def pull_(given: argparse.Namespace) -> int:
    """Works for a gateway; says how many cases ran."""
    # Imported here: only this command needs the HTTP library.
    from workers import gateway_calls, pull

    if given.ca and not Path(given.ca).is_file():
        raise FarmError(f"{given.ca}: no such file; --ca is the gateway's certificate in PEM")
    carry = gateway_calls.carrier(given.url, gateway_calls.read_token(given.token_file), given.ca)
    limits = Limits(given.life, given.away, given.idle)
    ran = pull.pull(carry, pull.Pull(tuple(given.backend), given.device, given.drain, limits))
    print(f"workers: {ran} cases ran", file=sys.stderr)
    return 0


def devices(given: argparse.Namespace) -> int:
    """Prints every backend's devices, or why it has none."""
    found = [Found(name, *_devices(name)) for name in backends.names()]
    if given.json:
        print(json.dumps(codec.encode(found), indent=2))
        return 0
    for entry in found:
        for device in entry.devices:
            print(f"{entry.backend:6} {device.slug}  {device.name}  {device.slots} slots")
        if entry.unavailable:
            print(f"{entry.backend:6} {entry.unavailable}")
    return 0


@dataclass(frozen=True)
class Found:
    """What a backend finds on this machine."""

    backend: str
    devices: tuple[Device, ...]
    unavailable: str  # why there are none


def _devices(name: str) -> tuple[tuple[Device, ...], str]:
    try:
        return backends.backend(name).devices(), ""
    except Unavailable as error:
        return (), str(error)


def first_fitting(devices: Sequence[Device], glob: str) -> Device:
    """The first device that a glob names; UsageError says which there are."""
    for device in devices:
        words = (device.device_class, device.slug, device.uuid)
        if any(fnmatchcase(word.lower(), glob.lower()) for word in words):
            return device
    there = ", ".join(device.slug for device in devices)
    raise UsageError(f"no device here matches {glob!r}; there are {there}")


def run(given: argparse.Namespace) -> int:
    """Runs a selection, of a user's catalog where one is named, and prints one line a case."""
    with sigterm_interrupts(), packs.searching(given.catalog) as found:
        return _run(given, found)


def _run(given: argparse.Namespace, found: Catalog | None) -> int:
    wanted = selection(given)
    planned = catalog.expand(found.selected(wanted) if found else wanted)
    if not planned:
        raise FarmError("the selection has no cases; leave out --family or --kind, or name a --shape")
    device = first_fitting(backends.backend(given.backend).devices(), given.device)
    address = packs.keep(found.pack, packs.store()).name if found else ""
    order = Order(given.backend, device, Rule(given.rule), given.deadline, given.minutes, address)
    writer = bundle.Writer(given.bundle)
    if found:
        writer.carry(found.pack)
    if writer.found.torn:
        print(f"workers: {writer.found.torn}", file=sys.stderr)
    left = remaining(planned, order, writer.found.evidence)
    if given.minutes:
        left = most_valuable_first(left)
    counts: Counter[Verdict] = Counter()

    def take(evidence: Evidence) -> None:
        writer.append(evidence)
        writer.sync()
        counts[evidence.rule_verdict or evidence.verdict] += 1
        print(describe(evidence), flush=True)

    try:
        if left:
            demand_believed(order)
        unstarted = run_cases(left, order, take)
    finally:
        writer.close()
    print(summary(counts, len(planned) - len(left), unstarted, given.bundle))
    if any(verdict.bad for verdict in counts):
        return BAD
    return INTERRUPTED if unstarted else 0


def demand_believed(order: Order) -> None:
    """A GPU passes the exam that others give it, too; FarmError says what it has wrong."""
    if not resource(order.device):
        return
    with held(order.device) as lock, closing(Isolated(holds=lock.descriptor)) as slot:
        wrong = admit(slot, order.device, order.backend)
    if wrong:
        raise FarmError(f"{order.device.slug} isn't believed, and nothing was run: {wrong}")


def selection(given: argparse.Namespace) -> Selection:
    """What the words and options select; naming nothing at all needs --all-kinds."""
    named = (given.words, given.op, given.kernel, given.kind)
    if bool(given.all_kinds) == any(named) and not given.catalog:
        raise UsageError("give KERNEL [KIND] [SHAPE], or some of --op, --kernel and --kind, or --all-kinds")
    kernels, kinds, shapes = _words(given.words)
    if given.tier and (shapes or given.shape):
        raise UsageError("--tier and a shape each say which shapes run; leave out one")
    return Selection(
        ops=tuple(given.op),
        kernels=(*kernels, *given.kernel),
        kinds=(*kinds, *given.kind),
        shapes=(*shapes, *given.shape),
        families=tuple(given.family),
        seeds=tuple(given.seed) or catalog.DEFAULT_SEEDS,
        builds=tuple(map(Build, given.build)),
        tiers=tuple(map(Tier, given.tier)),
    )


def _words(words: list[str]) -> tuple[list[str], list[str], list[str]]:
    """Kernel, kind and shape; a kernel whose op has no kinds takes none."""
    if not words:
        return [], [], []
    takes_kind = bool(registry.op(registry.kernel(words[0]).op).matrices)
    most = 3 if takes_kind else 2
    if len(words) > most:
        raise UsageError(
            f"{words[0]} takes {'KIND SHAPE' if takes_kind else 'SHAPE'}; got {' '.join(words[1:])}"
        )
    return words[:1], words[1:2] if takes_kind else [], words[most - 1 :]


def remaining(planned: Sequence[Planned], order: Order, there: Sequence[Evidence]) -> list[Planned]:
    """The cases that the bundle has no verdict for, with this source, backend, device and rule."""
    done = {
        (item.case_id, item.source_digest, item.backend, item.device.slug, item.rule)
        for item in there
        if item.verdict.about_kernel
    }

    def key(case: Case) -> tuple[str, str, str, str, Rule]:
        digest = source.digest(f"{case.op}/{case.kernel}", case.kinds, case.build)
        return case.id, digest, order.backend, order.device.slug, order.rule

    return [item for item in planned if key(item.case) not in done]


def describe(evidence: Evidence) -> str:
    """One line: verdict, case, and how near to the limit it came or why it ended so."""
    case, found = evidence.case, evidence.comparison
    name = f"{case.op}/{case.kernel} {case.kind} {case.shape} {case.family} {case.build.value}"
    margin = f"{found.positions} compared, {found.bound_ratio:.3g} of the limit" if found else ""
    words = "; ".join(filter(None, (margin, evidence.reason)))
    verdict = evidence.rule_verdict or evidence.verdict
    return f"{verdict.value:7} {name}  {words}".rstrip()


def summary(counts: Counter[Verdict], skipped: int, unstarted: int, path: Path) -> str:
    parts = [f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict]]
    parts += [f"{skipped} there before"] if skipped else []
    parts += [f"{unstarted} not started for lack of time"] if unstarted else []
    return f"{', '.join(parts)}; evidence in {path}"


COMMANDS = {"devices": devices, "run": run, "selftest": selftest_, "pull": pull_}
