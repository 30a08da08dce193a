"""How many mutants of each text the rules killed: the newest run counts, older sources stay as history.

put(s, score)                      scores(s) -> tuple[Score, ...]     # newest of each kernel and kind
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

import sqlalchemy as sa

from db.session import Session
from db.tables import sabotage


@dataclass(frozen=True)
class Score:
    """The mutants of one text, counted."""

    kernel: str  # op/name
    kind: str  # the cell's label: F32 for none
    source_digest: str  # of the exact build
    ran_us: int
    cases: int
    mutants: int
    compiled: int
    killed: tuple[tuple[str, int], ...]  # by the first rule that kills, in the rules' order
    by_relative: int  # killed by the relative rule, had it been alone
    by_nmse: int
    same: int  # of which the compiler makes the right kernel's very code
    equivalents: int  # alive, with an argument
    survivors: tuple[str, ...]  # alive, without one

    @property
    def score(self) -> float:
        """Killed of those that could be; 1 where there was nothing to kill."""
        killable = self.compiled - self.same - self.equivalents
        return sum(count for _, count in self.killed) / killable if killable else 1.0


JSON_COLUMNS = {"killed": "killed_json", "survivors": "survivors_json"}


def put(s: Session, score: Score) -> None:
    """Stores a run; a later one of the same source replaces it."""
    row: dict[str, Any] = asdict(score)
    row |= {column: json.dumps(row.pop(name)) for name, column in JSON_COLUMNS.items()}
    key = ("kernel", "kind", "source_digest")
    s.execute(sa.delete(sabotage).where(*(sabotage.c[name] == row[name] for name in key)))
    s.execute(sa.insert(sabotage), row)


def scores(s: Session) -> tuple[Score, ...]:
    """The newest run of every kernel and kind, in the order of their names."""
    query = sa.select(sabotage).order_by(sabotage.c.ran_us, sabotage.c.source_digest)
    newest = {(row.kernel, row.kind): _score(row._mapping) for row in s.execute(query)}
    return tuple(newest[key] for key in sorted(newest))


def _score(row: Any) -> Score:
    values = {f.name: row[f.name] for f in fields(Score) if f.name not in JSON_COLUMNS}
    killed = tuple((str(rule), int(count)) for rule, count in json.loads(row["killed_json"]))
    return Score(**values, killed=killed, survivors=tuple(json.loads(row["survivors_json"])))
