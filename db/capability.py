"""The state of cells, folded from evidence and nothing else (`db/cell.py`); so it can be rebuilt at any time.

cells(s, op="matvec", …) -> tuple[Capability, ...]     # filters are columns of the key, or device_class
cell(s, key) -> Capability | None
standings(s, key) -> tuple[Standing, ...]              # the verdict that counts, case by case
oldest(s) -> {key: microseconds}                       # when the first of the lines that count ended
fold_cells(s, keys) · rebuild(s) -> cells              # write the table
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from functools import cache, lru_cache
from operator import itemgetter
from typing import Any

import sqlalchemy as sa

from db.bulk import insert_rows, update_rows
from db.cell import Capability, CellKey, Finding, Standing, fold, stand_all
from db.session import Session
from db.tables import CELL, capability, evidence
from kernels.errors import UsageError
from kernels.evidence import Verdict

VERDICTS = {verdict.value: verdict for verdict in Verdict}
FINDING = Finding._fields[1:]
of_cell, of_finding = itemgetter(*CELL), itemgetter(*FINDING)
# Lines that only the newest counts of; a case is of one op, kernel, kind and build.
GROUP = ("source_digest", "device", "backend", "case_id", "verdict", "fingerprint_digest")
INDEXED = ("source_digest", "device", "backend")  # of a cell, in the index of evidence
COLUMNS = tuple(capability.c[name] for name in (*CELL, *Capability._fields[1:]))


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


def oldest(s: Session) -> dict[CellKey, int]:
    """By cell, the end of the oldest line that counts: all it says was seen since.

    Refused cases date none unless all are; trouble that changed no verdict is no run. Reads all evidence.
    """
    columns = [evidence.c[name] for name in CELL]
    trouble = evidence.c.verdict.in_([verdict.value for verdict in Verdict if not verdict.about_kernel])
    order = [trouble, evidence.c.finished_us.desc(), evidence.c.evidence_id.desc()]
    place = sa.func.row_number().over(partition_by=[*columns, evidence.c.case_id], order_by=order)
    ranked = sa.select(*columns, evidence.c.verdict, evidence.c.finished_us, place.label("place"))
    line = ranked.where(evidence.c.folded).subquery()
    ended, cell = line.c.finished_us, [line.c[name] for name in CELL]
    of_runs = sa.func.min(sa.case((line.c.verdict != Verdict.SKIP.value, ended)))
    query = sa.select(*cell, sa.func.coalesce(of_runs, sa.func.min(ended))).where(line.c.place == 1)
    return {CellKey(*row[:-1]): row[-1] for row in s.execute(query.group_by(*cell))}


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
    device_class, case_id, evidence_id, fingerprint_digest, verdict, *figures = row[: len(FINDING)]
    return Finding(key, device_class, case_id, evidence_id, fingerprint_digest, VERDICTS[verdict], *figures)


def finding_in(row: Mapping[str, Any]) -> Finding:
    """What a fold needs of a line, from the columns that are about to be stored."""
    return _finding(CellKey(*of_cell(row)), of_finding(row))


def _row(found: Capability) -> dict[str, object]:
    values = found._asdict() | found.key._asdict()
    del values["key"]
    values["rungs"], values["flags"] = ",".join(found.rungs), ",".join(found.flags)
    values["verdict"] = found.verdict.value
    return values


def _capability(row: Sequence[Any]) -> Capability:
    """A row of COLUMNS; there may be a hundred thousand of them."""
    verdict, reason, rungs, flags, *rest = row[len(CELL) + 1 :]
    key, device_class = CellKey(*row[: len(CELL)]), row[len(CELL)]
    return Capability(key, device_class, VERDICTS[verdict], reason, _words(rungs), _words(flags), *rest)


@lru_cache(maxsize=4096)
def _words(joined: str) -> tuple[str, ...]:
    return tuple(filter(None, joined.split(",")))
