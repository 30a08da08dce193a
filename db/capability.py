"""The state of one cell, folded from evidence and nothing else; so it can be rebuilt at any time.

cells(s, op="matvec", …) -> tuple[Capability, ...]     # filters are columns of the key, or device_class
cell(s, key) -> Capability | None
standings(s, key) -> tuple[Standing, ...]              # the verdict that counts, case by case
fold(findings) -> Capability | None                    # pure; any order, any repeats
fold_cells(s, keys) · rebuild(s) -> cells              # write the table
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple

import sqlalchemy as sa

from db.bulk import insert_rows, update_rows
from db.session import Session
from db.tables import CELL, capability, evidence
from kernels.errors import UsageError
from kernels.evidence import Verdict
from kernels.model import Build

SEVERITY = {verdict: place for place, verdict in enumerate(Verdict)}
RUNG_OF_PASS = {"host": "host", "cuda": "device"}  # the backends that execute the CUDA text
TROUBLE = "last tried"  # in a reason, before an ERROR or LOST that changed no verdict
BUILDS_CUBIN = ("cuda", "nvrtc")
TRUST = (
    "imported",
    "rented",
    "own",
)  # of a line, least first: a bundle's, a stranger's machine, one of yours
RUNGS = ("twin", "host", "builds", "device", "exact", "timed")
VERDICTS = {verdict.value: verdict for verdict in Verdict}


class CellKey(NamedTuple):
    """What a capability is about; this and what a fold handles are tuples, since every line makes some."""

    device: str
    backend: str
    op: str
    kernel: str
    kind: str
    build: str
    source_digest: str


class Finding(NamedTuple):
    """What a fold needs of one evidence line."""

    key: CellKey
    device_class: str
    case_id: str
    evidence_id: str
    fingerprint_digest: str  # of the board with its driver and compiler
    verdict: Verdict
    reason: str
    positions: int
    bound_ratio: float | None  # None, as the other figures, where nothing was compared
    relative_ratio: float | None
    nmse: float | None
    bit_exact: bool | None
    twin_agrees: bool | None
    finished_us: int
    build_digest: str = ""  # of the code that was compiled; empty where not known
    notes: str = ""  # what its author should know of the build, joined by commas
    suspect: bool = False  # its board was set aside since
    trust: str = "own"  # of TRUST

    @property
    def age(self) -> tuple[int, str]:
        """Orders lines by when they finished, never by when they arrived."""
        return self.finished_us, self.evidence_id


FINDING = Finding._fields[1:]
PLACE_OF_VERDICT = FINDING.index("verdict")
# Lines that only the newest counts of; a case is of one op, kernel, kind and build.
GROUP = ("source_digest", "device", "backend", "case_id", "verdict", "fingerprint_digest")
INDEXED = ("source_digest", "device", "backend")  # of a cell, in the index of evidence


class Standing(NamedTuple):
    """Where one case of a cell stands."""

    counts: Finding  # the newest about the kernel, or the newest of all where none is
    trouble: Finding | None  # a newer ERROR or LOST, which changes no verdict
    flaky: bool  # on one unchanged board this source passed this case and was bad at it, too


@dataclass(frozen=True)
class Capability:
    """One cell: verdict, what it rests on and when it last ran."""

    key: CellKey
    device_class: str
    verdict: Verdict
    reason: str
    rungs: tuple[str, ...]  # in the order of RUNGS; what this cell's own evidence shows
    flags: tuple[str, ...]  # flaky, suspect, spills, one-block; a reader adds stale
    cases: int  # with another verdict than SKIP
    skipped: int
    positions: int
    bound_ratio: float | None  # largest over the cases
    relative_ratio: float | None
    nmse: float | None
    bit_exact: bool | None
    last_run_us: int
    build_digest: str = ""  # that all its cases share; empty where they don't, or where it isn't known
    trust: str = "own"  # least over the lines that count


COLUMNS = tuple(capability.c[name] for name in (*CELL, *list(Capability.__dataclass_fields__)[1:]))


def holds_for(ran: Capability, built: Capability | None) -> bool:
    """Whether a verdict about an older source is true of the one that `built` compiled for the same sm.

    It is where the code came out the same, under equal flags, geometry, arguments and twin: nothing that runs
    or judges has changed.
    """
    return (
        built is not None
        and built.verdict is Verdict.PASS
        and ran.verdict.about_kernel
        and ran.build_digest == built.build_digest != ""
        and row_of(ran) == row_of(built)
    )


def row_of(found: Capability) -> tuple[str, str, str, str]:
    """What a cell is about, apart from where it ran and with which source."""
    key = found.key
    return key.op, key.kernel, key.kind, key.build


def fold(findings: Iterable[Finding]) -> Capability | None:
    """What one cell's lines amount to; None for none. Order and repeats of lines don't matter."""
    stand = stand_all(findings)
    if not stand:
        return None
    counted = [standing.counts for standing in stand]
    verdict = min((finding.verdict for finding in counted), key=SEVERITY.__getitem__)
    ran = [finding for finding in counted if finding.verdict is not Verdict.SKIP]
    exact = [finding.bit_exact for finding in ran if finding.bit_exact is not None]
    key = counted[0].key
    newest = max((s.trouble or s.counts for s in stand), key=lambda finding: finding.age)
    return Capability(
        key=key,
        device_class=newest.device_class,
        verdict=verdict,
        reason=_reason(verdict, stand),
        rungs=_rungs(key, verdict, ran),
        flags=("flaky",) * any(standing.flaky for standing in stand)
        + ("suspect",) * any(finding.suspect for finding in counted)
        + _notes(ran),
        cases=len(ran),
        skipped=len(counted) - len(ran),
        positions=sum(finding.positions for finding in ran),
        bound_ratio=largest(finding.bound_ratio for finding in ran),
        relative_ratio=largest(finding.relative_ratio for finding in ran),
        nmse=largest(finding.nmse for finding in ran),
        bit_exact=all(exact) if exact else None,
        last_run_us=newest.finished_us,
        build_digest=_shared({finding.build_digest for finding in ran}),
        trust=least_trusted(finding.trust for finding in counted),
    )


def least_trusted(words: Iterable[str]) -> str:
    """The least of TRUST; a word that nobody knows is worth no more than that."""
    return TRUST[min(TRUST.index(word) if word in TRUST else 0 for word in words)]


def _notes(ran: Sequence[Finding]) -> tuple[str, ...]:
    return tuple(sorted({note for finding in ran for note in finding.notes.split(",") if note}))


def _shared(values: Set[str]) -> str:
    """The one value; empty where there are several."""
    return next(iter(values)) if len(values) == 1 else ""


def stand_all(findings: Iterable[Finding]) -> list[Standing]:
    """Where each case of one cell stands, by case id."""
    by_case: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        by_case[finding.case_id].append(finding)
    return [standing(by_case[case_id]) for case_id in sorted(by_case)]


def standing(findings: Sequence[Finding]) -> Standing:
    """Where one case stands, given lines about it and no other."""
    newest = max(findings, key=lambda finding: finding.age)
    about_kernel = [finding for finding in findings if finding.verdict.about_kernel]
    counts = max(about_kernel, key=lambda finding: finding.age, default=newest)
    passed = {finding.fingerprint_digest for finding in about_kernel if finding.verdict is Verdict.PASS}
    flaky = any(finding.verdict.bad and finding.fingerprint_digest in passed for finding in about_kernel)
    return Standing(
        counts, newest if newest is not counts and not newest.verdict.about_kernel else None, flaky
    )


def _reason(verdict: Verdict, stand: Sequence[Standing]) -> str:
    """The newest reason for the cell's verdict, then the newest trouble that changed nothing."""
    of_verdict = [standing.counts for standing in stand if standing.counts.verdict is verdict]
    parts = [max(of_verdict, key=lambda finding: finding.age).reason]
    trouble = [standing.trouble for standing in stand if standing.trouble]
    if trouble:
        last = max(trouble, key=lambda finding: finding.age)
        parts.append(f"{TROUBLE}: {last.verdict}, {last.reason}")
    return "; ".join(part for part in parts if part)


def _rungs(key: CellKey, verdict: Verdict, ran: Sequence[Finding]) -> tuple[str, ...]:
    agrees = [finding.twin_agrees for finding in ran if finding.twin_agrees is not None]
    passed = verdict is Verdict.PASS and key.backend in RUNG_OF_PASS
    reached = {
        "twin": bool(agrees) and all(agrees),
        RUNG_OF_PASS.get(key.backend, ""): passed,
        "builds": key.backend in BUILDS_CUBIN and any(_was_built(f) for f in ran) and not _rejected(ran),
        "exact": passed and key.build == Build.EXACT and all(finding.bit_exact for finding in ran),
    }
    return tuple(rung for rung in RUNGS if reached.get(rung))


def _was_built(finding: Finding) -> bool:
    return finding.verdict.about_kernel and finding.verdict is not Verdict.REJECT


def _rejected(ran: Sequence[Finding]) -> bool:
    return any(finding.verdict is Verdict.REJECT for finding in ran)


def largest(figures: Iterable[float | None]) -> float | None:
    """The largest of the figures that there are; a NaN is larger than any."""
    there = [math.inf if math.isnan(figure) else figure for figure in figures if figure is not None]
    return max(there, default=None)


def cells(s: Session, **equal: str) -> tuple[Capability, ...]:
    """Cells whose columns equal the ones given, as in op="matvec", device_class="cpu-x86_64"."""
    allowed = {*CELL, "device_class", "verdict"}
    if unknown := sorted(set(equal) - allowed):
        raise UsageError(f"cells have no column {unknown[0]!r}; there are {', '.join(sorted(allowed))}")
    where = [capability.c[name] == value for name, value in equal.items()]
    query = sa.select(*COLUMNS).where(*where).order_by(*(capability.c[name] for name in CELL))
    return tuple(map(_capability, s.execute(query)))


def cell(s: Session, key: CellKey) -> Capability | None:
    """One cell; None where nothing ran."""
    return cells_of(s, [key]).get(key)


def standings(s: Session, key: CellKey) -> tuple[Standing, ...]:
    """Where each case of a cell stands."""
    return tuple(stand_all(findings_of(s, [key])[key]))


def fold_cells(s: Session, keys: Iterable[CellKey]) -> None:
    """Works these cells out again from all their evidence and writes them."""
    wanted = sorted(set(keys))
    if wanted:
        found = findings_of(s, wanted)
        write(s, [cell for findings in found.values() if (cell := fold(findings))])


def renew(s: Session, found: Sequence[Capability]) -> None:
    """Writes cells that the table has."""
    update_rows(s, capability, CELL, [_row(cell) for cell in found])


def write(s: Session, found: Sequence[Capability]) -> None:
    """Puts cells in the place of what the table says of them, if it has them."""
    if found:
        mine = sa.and_(*(capability.c[name] == sa.bindparam(f"key_{name}") for name in CELL))
        keys = [{f"key_{name}": getattr(cell.key, name) for name in CELL} for cell in found]
        s.execute(sa.delete(capability).where(mine), keys)
        insert_rows(s, capability, [_row(cell) for cell in found])


@cache
def _cells_among() -> sa.Select[Any]:
    return sa.select(capability).where(*_among(capability, CELL))


def cells_of(s: Session, keys: Sequence[CellKey]) -> dict[CellKey, Capability]:
    """Those of the cells that there are."""
    wanted = set(keys)
    found = map(_capability, s.execute(_cells_among(), _parameters(CELL, keys)))
    return {cell.key: cell for cell in found if cell.key in wanted}


def rebuild(s: Session) -> int:
    """Throws all cells away and folds them again from evidence; returns how many there are."""
    found = rebuilt(s)
    s.execute(sa.delete(capability))
    if found:
        s.execute(sa.insert(capability), [_row(cell) for cell in found.values()])
    return len(found)


def rebuilt(s: Session) -> dict[CellKey, Capability]:
    """Every cell as its evidence makes it, whatever the table says; one source at a time."""
    sources = s.execute(sa.select(evidence.c.source_digest).where(evidence.c.folded).distinct()).scalars()
    found: dict[CellKey, Capability] = {}
    for source in sources.all():
        query = sa.select(*(evidence.c[name] for name in CELL)).where(
            evidence.c.folded, evidence.c.source_digest == source
        )
        keys = [CellKey(*row) for row in s.execute(query.distinct())]
        found |= {key: cell for key, lines in findings_of(s, keys).items() if (cell := fold(lines))}
    return found


def stored(s: Session) -> dict[CellKey, Capability]:
    """Every cell as the table has it."""
    return {cell.key: cell for cell in cells(s)}


def findings_of(s: Session, keys: Sequence[CellKey]) -> dict[CellKey, list[Finding]]:
    """The lines that can matter to a fold: the newest per case, verdict and fingerprint."""
    found: dict[CellKey, list[Finding]] = {key: [] for key in keys}
    for row in s.execute(_newest_lines(), _parameters(INDEXED, keys)):
        key = CellKey(*row[: len(CELL)])
        if key in found:
            found[key].append(_finding(key, row[len(CELL) :]))
    return found


@cache
def _newest_lines() -> sa.Select[Any]:
    group = [evidence.c[name] for name in GROUP]
    order = [evidence.c.finished_us.desc(), evidence.c.evidence_id.desc()]
    place = sa.func.row_number().over(partition_by=group, order_by=order)
    columns = [evidence.c[name] for name in (*CELL, *FINDING)]
    ranked = sa.select(*columns, place.label("place")).where(evidence.c.folded, *_among(evidence, INDEXED))
    ranked_lines = ranked.subquery()
    return sa.select(ranked_lines).where(ranked_lines.c.place == 1)


def plain_findings(s: Session, keys: Sequence[CellKey], case_ids: Set[str]) -> dict[CellKey, list[Finding]]:
    """The newest PASS and SKIP of these cases, for the cells in which nothing else was ever said of them."""
    found: dict[CellKey, list[Finding]] = {key: [] for key in keys}
    doubtful = set()
    values = _parameters(INDEXED, keys) | {"case_ids": list(case_ids)}
    for folded, *row in s.execute(_newest_of_cases(), values):
        key = CellKey(*row[: len(CELL)])
        if key in found:
            found[key].append(_finding(key, row[len(CELL) :]))
            if not folded or found[key][-1].verdict not in (Verdict.PASS, Verdict.SKIP):
                doubtful.add(key)
    return {key: lines for key, lines in found.items() if key not in doubtful}


@cache
def _newest_of_cases() -> sa.Select[Any]:
    """The newest line per case and verdict: told by the index alone, whatever a case's history is."""
    names = [*INDEXED, "case_id", "verdict"]
    group = [evidence.c[name] for name in names]
    of_cases = evidence.c.case_id.in_(sa.bindparam("case_ids", expanding=True))
    last = sa.func.max(evidence.c.finished_us).label("finished_us")
    newest = sa.select(*group, last).where(*_among(evidence, INDEXED), of_cases).group_by(*group).subquery()
    line = evidence.alias()
    same = [line.c[name] == newest.c[name] for name in (*names, "finished_us")]
    columns = [line.c[name] for name in ("folded", *CELL, *FINDING)]
    return sa.select(*columns).join_from(newest, line, sa.and_(*same))


def _among(table: sa.Table, names: Iterable[str]) -> list[sa.ColumnElement[bool]]:
    """What an index finds; more than the cells that are asked for may come of it."""
    return [table.c[name].in_(sa.bindparam(f"{name}s", expanding=True)) for name in names]


def _parameters(names: Iterable[str], keys: Sequence[CellKey]) -> dict[str, Any]:
    return {f"{name}s": list({getattr(key, name) for key in keys}) for name in names}


def _finding(key: CellKey, row: Sequence[Any]) -> Finding:
    values = list(row[: len(FINDING)])
    values[PLACE_OF_VERDICT] = VERDICTS[values[PLACE_OF_VERDICT]]
    return Finding(key, *values)


def finding_in(row: Mapping[str, Any]) -> Finding:
    """What a fold needs of a line, from the columns that are about to be stored."""
    return _finding(CellKey(*(row[name] for name in CELL)), [row[name] for name in FINDING])


def _row(found: Capability) -> dict[str, object]:
    values = {name: getattr(found, name) for name in Capability.__dataclass_fields__ if name != "key"}
    joined = {"rungs": ",".join(found.rungs), "flags": ",".join(found.flags)}
    joined["verdict"] = found.verdict.value
    return {name: getattr(found.key, name) for name in CELL} | values | joined


def _capability(row: Sequence[Any]) -> Capability:
    """A row of COLUMNS; there may be a hundred thousand of them."""
    verdict, reason, rungs, flags, *rest = row[len(CELL) + 1 :]
    key, device_class = CellKey(*row[: len(CELL)]), row[len(CELL)]
    return Capability(key, device_class, VERDICTS[verdict], reason, _words(rungs), _words(flags), *rest)


@lru_cache(maxsize=4096)
def _words(joined: str) -> tuple[str, ...]:
    return tuple(filter(None, joined.split(",")))
