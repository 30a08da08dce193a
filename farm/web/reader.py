"""What each page shows, as JSON-able values: the API hands them out, the templates write them down."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from db import bug
from db.activity import Version
from db.session import Database
from farm import user_catalog
from farm.activity import newest_bad
from farm.cell_name import find_cells
from farm.exports import record
from farm.held import Held, Holder
from farm.matrix import Cell, Matrix
from farm.web import boards, compared, explained, grid, moving
from farm.web.query import Query, parse
from kernels.evidence import Verdict
from workers.clock import wall_clock

NEWEST = 50  # bad cells that a page shows
KEPT = 8  # tables of the newest matrix that are kept
Record = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """Cells that a filter line lets through, as HTML and as a matrix."""

    html: str
    matrix: Matrix
    counts: Record


@dataclass
class Sight:
    """A held matrix and what was worked out of it."""

    held: Held
    counts: Record
    bad: Sequence[Cell]
    tables: OrderedDict[tuple[str, bool], Table] = field(default_factory=OrderedDict)


class Reader:
    """The database and the matrix that its pages share."""

    def __init__(self, database: Database, holder: Holder) -> None:
        self.database = database
        self._holder = holder
        self._lock = threading.Lock()
        self._sight: Sight | None = None

    def warm(self) -> None:
        """Reads the matrix before anybody asks for it."""
        threading.Thread(target=self.table, args=("", False), name="warming", daemon=True).start()

    def version(self) -> Version:
        """Of the rows that the matrix was made of; reads it anew where that is due."""
        return self._holder.now().version

    def overview(self) -> Record:
        """Campaigns, boards, what is bad, and how much of the matrix is known."""
        sight = self._now()
        with self.database.reading() as s:
            linked, found = bug.bugs(s), moving.overview(s)
        bad = [named(cell) | {"bugs": explained.bugs_of(linked, [cell])} for cell in sight.bad]
        digest = sight.held.matrix.catalog_digest
        return found | {"bad": bad, "counts": sight.counts, "catalog_digest": digest}

    def campaign(self, campaign_id: int) -> Record:
        """A campaign with its pace, where it runs, and its bad jobs."""
        with self.database.reading() as s:
            return moving.campaign(s, campaign_id)

    def table(self, text: str, apart: bool) -> Table:
        """The matrix of a filter line; the last few are kept."""
        sight, query = self._now(), parse(text)
        key = query.text, apart
        if key not in sight.tables or query.is_dated:
            matrix = self._narrowed(sight.held, query)
            found = Table(grid.table(matrix, apart=apart), matrix, counts(matrix.cells))
            with self._lock:
                sight.tables[key] = found
                while len(sight.tables) > KEPT:
                    sight.tables.popitem(last=False)
            return found
        return sight.tables[key]

    def matrix(self, text: str) -> Matrix:
        """The cells that a filter line lets through, every board and build."""
        return self._narrowed(self._now().held, parse(text))

    def cell(self, name: str) -> Record:
        """All that is known about a cell: the worst of its parts explained, and its history."""
        matrix = self._now().held.matrix
        with self.database.reading() as s, user_catalog.searching_stored(s):
            parts = find_cells(matrix, name)
            rows = [named(cell) for cell in parts]
            return {"name": name, "rows": rows} | explained.cell(s, matrix, parts, name)

    def device(self, slug: str) -> Record:
        """A board: its fingerprint, the drivers it had, and its cells beside those of its class."""
        matrix = self._now().held.matrix
        with self.database.reading() as s:
            return boards.device(s, matrix, slug)

    def compare(self, a: str, b: str) -> Record:
        """Cells that two sides disagree on."""
        held = self._now().held
        with self.database.reading() as s:
            sides = [
                compared.side(s, text, lambda line: self._narrowed(held, parse(line))) for text in (a, b)
            ]
        return compared.changes(*sides)

    def choices(self, query: Query | None) -> dict[str, Choice]:
        """What the filter's lists offer, in the catalog's order."""
        return choices(self._now().held.matrix, query)

    def _now(self) -> Sight:
        held = self._holder.now()
        with self._lock:
            if self._sight is None or self._sight.held is not held:
                cells = held.matrix.cells
                self._sight = Sight(held, counts(cells), newest_bad(held.matrix, NEWEST))
            return self._sight

    def _narrowed(self, held: Held, query: Query) -> Matrix:
        """The matrix with the cells that fit, and the columns that have any."""
        matrix, now_us = held.matrix, wall_clock()
        if not query.tests:
            return matrix
        of = held.columns
        kept = tuple(
            cell
            for cell in matrix.cells
            if query.fits(cell, of[cell.device_class, cell.device, cell.backend], now_us)
        )
        there = {(cell.device_class, cell.device or "", cell.backend) for cell in kept}
        columns = [one for one in matrix.columns if (one.device_class, one.device, one.backend) in there]
        return replace(matrix, columns=tuple(columns), cells=kept)


def named(cell: Cell) -> Record:
    return record(cell) | {"name": cell.name}


def counts(cells: Iterable[Cell]) -> Record:
    """How many cells have each verdict, are doubtful, or were never run."""
    total, by_verdict, flags = 0, Counter[Verdict | None](), Counter[str]()
    for cell in cells:
        total += 1
        by_verdict[cell.verdict] += 1
        flags.update(cell.flags)
    return {
        "cells": total,
        "verdicts": {verdict.value: by_verdict[verdict] for verdict in Verdict if by_verdict[verdict]},
        "never_run": by_verdict[None],
        **{flag: flags[flag] for flag in grid.IN_A_CELL},
    }


@dataclass(frozen=True)
class Choice:
    """A list of the filter: what it offers, and what is chosen."""

    values: tuple[str, ...]
    chosen: str  # empty for any


PARTS = {
    "op": lambda cell: cell.op,
    "kernel": lambda cell: cell.kernel,
    "kind": lambda cell: cell.kind,
    "backend": lambda cell: cell.backend,
    "build": lambda cell: cell.build,
}
VERDICTS = ("bad", *(verdict.lower() for verdict in Verdict), "never")


def choices(matrix: Matrix, query: Query | None) -> dict[str, Choice]:
    """Key to what the matrix has of it."""
    values: dict[str, tuple[str, ...]] = {
        key: tuple(dict.fromkeys(map(part, matrix.cells))) for key, part in PARTS.items()
    }
    values |= {"verdict": VERDICTS, "flag": grid.IN_A_CELL}
    chosen = query.first if query else {}
    return {key: Choice(found, _same(found, chosen.get(key, ""))) for key, found in values.items()}


def _same(values: Sequence[str], chosen: str) -> str:
    return next((value for value in values if value.lower() == chosen.lower()), "")
