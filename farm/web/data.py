"""What each page shows, as JSON-able values: the API hands them out, the templates write them down."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from db import campaign, device, evidence
from db.capability import CellKey
from db.job import jobs_of
from db.session import Database, Session
from farm import dossier, user_catalog
from farm.cell_name import find_cells
from farm.exports import record
from farm.held import Holder
from farm.marks import LEGEND, NEVER_RUN, narrow_mark, timestamp
from farm.matrix import Cell, Matrix, Row
from farm.records import campaign_record, device_record
from farm.web.query import Query, parse
from kernels.errors import UnknownName
from kernels.model import Case, Verdict

NEWEST = 50  # campaigns, failures and lines of history that a page shows
Record = dict[str, Any]


@dataclass(frozen=True)
class Reader:
    """The database and the matrix that its pages share."""

    database: Database
    held: Holder

    def overview(self) -> Record:
        """Campaigns, devices, what is bad, and how much of the matrix is known."""
        matrix = self.held.now().matrix
        with self.database.reading() as s:
            campaigns = [campaign_record(row) for row in campaign.campaigns(s)[:NEWEST]]
            boards = [device_record(row) for row in device.devices(s)]
        bad = [cell for cell in matrix.cells if cell.verdict is not None and cell.verdict.bad]
        bad.sort(key=lambda cell: -(cell.last_run_us or 0))
        return {
            "campaigns": campaigns,
            "devices": boards,
            "bad": [record(cell) | {"name": cell.name} for cell in bad[:NEWEST]],
            "counts": counts(matrix.cells),
            "catalog_digest": matrix.catalog_digest,
        }

    def matrix(self, text: str) -> tuple[Matrix, Query]:
        """The cells that a filter line lets through, by class and backend."""
        query, held = parse(text), self.held.now()
        now_us = time.time_ns() // 1000
        kept = tuple(
            cell
            for cell in held.matrix.cells
            if query.fits(cell, held.columns[cell.device_class, cell.device, cell.backend], now_us)
        )
        return narrowed(held.matrix, kept), query

    def cell(self, name: str) -> Record:
        """All that is known about a cell: the worst of its parts explained, and its history."""
        matrix = self.held.now().matrix
        with self.database.reading() as s, user_catalog.searching_stored(s):
            found = dossier.of_cell(s, matrix, name)
            parts = find_cells(matrix, name)
            return {
                "name": name,
                "found": [dossier.document(one) for one in found],
                "history": history(s, parts),
                "rows": [record(cell) | {"name": cell.name, "mark": narrow_mark(cell)} for cell in parts],
            }

    def device(self, slug: str) -> Record:
        """A board: its fingerprint, and its cells beside those of its class."""
        matrix = self.held.now().matrix
        with self.database.reading() as s:
            known = {row.device.slug: row for row in device.devices(s)}
        if slug not in known:
            raise UnknownName("device", slug, list(known))
        mine = [cell for cell in matrix.cells if cell.device == slug]
        peers = [cell for cell in matrix.cells if cell.device_class == known[slug].device.device_class]
        others: dict[str, Counter[str]] = {}
        for cell in peers:
            if cell.device is not None:
                others.setdefault(cell.device, Counter())[cell.verdict or NEVER_RUN] += 1
        return {
            "device": device_record(known[slug]),
            "counts": counts(mine),
            "bad": [record(cell) | {"name": cell.name} for cell in mine if cell.verdict and cell.verdict.bad],
            "class": {name: dict(tally) for name, tally in sorted(others.items())},
        }

    def campaign(self, campaign_id: int) -> Record:
        """A campaign with its bad jobs."""
        with self.database.reading() as s:
            row = campaign.campaign_row(s, campaign_id)
            bad = jobs_of(s, campaign_id, [verdict for verdict in Verdict if verdict.bad])
        return {
            "campaign": campaign_record(row),
            "bad": [
                {
                    "job": job.id,
                    "verdict": job.verdict,
                    "device_class": job.device_class,
                    "cell": f"{job.device_class}/{job.backend}/{'/'.join(row_of(job.case))}",
                    "shape": str(job.case.shape),
                    "family": job.case.family,
                }
                for job in bad[:NEWEST]
            ],
            "bad_jobs": len(bad),
        }


def row_of(case: Case) -> Row:
    return Row(case.op, case.kernel, case.kind, case.build.value)


def counts(cells: Iterable[Cell]) -> Record:
    """How many cells have each verdict, are stale, or were never run."""
    cells = list(cells)
    by_verdict = Counter(cell.verdict for cell in cells)
    return {
        "cells": len(cells),
        "verdicts": {verdict.value: by_verdict[verdict] for verdict in Verdict if by_verdict[verdict]},
        "never_run": by_verdict[None],
        "stale": sum("stale" in cell.flags for cell in cells),
    }


def narrowed(matrix: Matrix, kept: Sequence[Cell]) -> Matrix:
    """The matrix with these cells alone, and the columns that have any."""
    places = {(cell.device_class, cell.backend) for cell in kept}
    narrow = matrix.at(places)
    return Matrix(
        narrow.columns, tuple(kept), matrix.catalog_digest, matrix.generated_us, matrix.sabotage
    ).by_class()


def history(s: Session, parts: Sequence[Cell]) -> list[Record]:
    """The newest lines of a cell over all sources that ran, newest first."""
    found: list[evidence.Stored] = []
    for cell in parts:
        if cell.device and cell.verdict:
            key = CellKey(cell.device, cell.backend, *cell.row, cell.source_digest)
            found += evidence.of_cell(s, key, NEWEST)
    found.sort(key=lambda stored: -stored.line.finished_us)
    return [
        {
            "finished": timestamp(stored.line.finished_us),
            "verdict": stored.line.verdict,
            "shape": str(stored.line.case.shape),
            "family": stored.line.case.family,
            "build": stored.line.case.build,
            "margin": stored.line.comparison.bound_ratio if stored.line.comparison else None,
            "reason": stored.line.reason,
            "trust": stored.line.trust,
            "device": stored.line.device.slug,
        }
        for stored in found[:NEWEST]
    ]


def changes(before: Matrix, after: Matrix) -> Record:
    """Cells that two matrices disagree on, by row: added, lost, fixed, broken and changed otherwise."""
    old = {cell.row: cell for cell in before.cells if cell.verdict}
    new = {cell.row: cell for cell in after.cells if cell.verdict}
    found: dict[str, list[Record]] = {name: [] for name in ("added", "lost", "fixed", "broken", "changed")}
    for row in sorted(old.keys() | new.keys()):
        was, now = old.get(row), new.get(row)
        if (was and was.verdict) == (now and now.verdict):
            continue
        found[_sort_of_change(was, now)].append(
            {"row": "/".join(row), "before": was and was.verdict, "after": now and now.verdict}
        )
    return found


def _sort_of_change(was: Cell | None, now: Cell | None) -> str:
    if was is None or now is None:
        return "added" if was is None else "lost"
    assert was.verdict is not None  # only such cells are compared
    assert now.verdict is not None
    if was.verdict.bad == now.verdict.bad:
        return "changed"
    return "fixed" if was.verdict.bad else "broken"


def legend() -> list[Record]:
    return [{"mark": str(word), "means": means, "who": who} for word, means, who in LEGEND]
