"""Derives every cell of a JSON export from the evidence again, by plain SQL and nothing of the farm.

python tests/audit.py .farm/farm.db matrix.json     # exit code 3 and a line for every difference

Held against evidence are verdict, cases, positions, figures, bits, date, rungs, trust and the flags flaky and
suspect of a cell that ran, and which of several sources it shows. A cell without a verdict must have no
evidence, and no evidence may lack its cell. A GPU's row may wear twin, host and builds by what CPUs and the
compiler showed of its source, device, exact and timed by its own lines alone.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Place = tuple[str, ...]
KEY = "device, backend, op, kernel, kind, build, source_digest"
OF_CELL = ", ".join(f"cell.{name}" for name in KEY.split(", "))
BAD = "('FAIL', 'CRASH', 'TIMEOUT', 'REJECT')"
TRUST = ("imported", "rented", "own")  # least first
ON_CPU = {"twin": ("twin", "host"), "host": ("host",)}  # rung -> backends that show it there
SAYS_NOTHING = ("ERROR", "LOST", "SKIP")  # of a source
ORDER = ("FAIL", "CRASH", "TIMEOUT", "REJECT", "ERROR", "LOST", "PASS", "SKIP")
RANK = "CASE verdict " + " ".join(f"WHEN '{word}' THEN {place}" for place, word in enumerate(ORDER)) + " END"
# Of each case the newest line about the kernel, else the newest; then what its cell's cases amount to.
CELLS = f"""
WITH line AS (SELECT *, {RANK} AS rank, verdict IN ('ERROR', 'LOST') AS trouble,
                     json_extract(line_json, '$.launches[0].library') AS library FROM evidence WHERE folded),
counted AS (SELECT * FROM (SELECT *, row_number() OVER (
    PARTITION BY {KEY}, case_id ORDER BY trouble, finished_us DESC, evidence_id DESC) AS place FROM line)
    WHERE place = 1),
flaky AS (SELECT DISTINCT {KEY} FROM line AS bad WHERE verdict IN {BAD} AND EXISTS (
    SELECT 1 FROM evidence AS fine
    WHERE fine.folded AND fine.verdict = 'PASS' AND fine.case_id = bad.case_id
    AND fine.device = bad.device AND fine.backend = bad.backend AND fine.source_digest = bad.source_digest
    AND fine.fingerprint_digest = bad.fingerprint_digest)),
cell AS (SELECT {KEY}, min(rank) AS rank, sum(verdict <> 'SKIP') AS cases,
    sum(CASE WHEN verdict = 'SKIP' THEN 0 ELSE positions END) AS positions,
    max(CASE WHEN verdict <> 'SKIP' THEN bound_ratio END) AS bound_ratio,
    max(CASE WHEN verdict <> 'SKIP' THEN relative_ratio END) AS relative_ratio,
    max(CASE WHEN verdict <> 'SKIP' THEN nmse END) AS nmse,
    min(CASE WHEN verdict <> 'SKIP' THEN bit_exact END) AS bit_exact,
    min(CASE WHEN verdict <> 'SKIP' THEN twin_agrees END) AS twin_agrees,
    sum(verdict <> 'SKIP' AND bit_exact IS NOT 1) AS inexact,
    max(suspect) AS suspect, max(coalesce(library, '')) AS library, max(device_class) AS device_class,
    min(CASE trust WHEN 'own' THEN 2 WHEN 'rented' THEN 1 ELSE 0 END) AS trust,
    sum(verdict NOT IN ('SKIP', 'REJECT', 'ERROR', 'LOST')) AS built, sum(verdict = 'REJECT') AS rejected
    FROM counted GROUP BY {KEY}),
dated AS (SELECT {KEY}, coalesce(max(CASE WHEN verdict NOT IN ('ERROR', 'LOST', 'SKIP') THEN finished_us END),
    max(finished_us)) AS last_us FROM counted GROUP BY {KEY})
SELECT cell.*, dated.last_us,
    EXISTS (SELECT 1 FROM flaky WHERE ({KEY}) = ({OF_CELL})) AS flaky,
    EXISTS (SELECT 1 FROM agreement WHERE ({KEY}) = ({OF_CELL}) AND {RANK} = cell.rank) AS agreed,
    EXISTS (SELECT 1 FROM benchmark WHERE ({KEY}) = ({OF_CELL}) AND refused = '') AS timed
FROM cell JOIN dated USING ({KEY})
"""
FIGURES = ("cases", "positions", "bound_ratio", "relative_ratio", "nmse")
FINITE = 1.7976931348623157e308  # an error without bound is infinite in the database and null in an export


def audit(database: Path, export: Path) -> tuple[int, list[str]]:
    """How many cells and groups of evidence were held against one another, and every difference."""
    rows = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    rows.row_factory = sqlite3.Row
    derived: dict[Place, dict[str, sqlite3.Row]] = {}
    for row in rows.execute(CELLS):
        derived.setdefault(tuple(row[:6]), {})[row["source_digest"]] = row
    rows.close()
    worn = elsewhere(derived)
    cells = json.loads(export.read_text(encoding="utf8"))["cells"]
    wrong, shown = [], set()
    for cell in cells:
        place = tuple(cell[name] or "" for name in ("device", "backend", "op", "kernel", "kind", "build"))
        shown.add(place)
        may = worn.get((*place[2:], cell["source_digest"]), set()) if cell["backend"] == "cuda" else set()
        wrong += [f"{'/'.join(place)}: {line}" for line in differences(cell, derived.get(place, {}), may)]
    wrong += [f"{'/'.join(place)}: evidence without a cell" for place in derived if place not in shown]
    return len(cells) + len(derived.keys() - shown), wrong


def elsewhere(derived: Mapping[Place, Mapping[str, sqlite3.Row]]) -> dict[Place, set[str]]:
    """By op, kernel, kind, build and source: the rungs that its GPU rows may wear without having run."""
    shown: defaultdict[Place, set[str]] = defaultdict(set)
    denied: defaultdict[Place, set[str]] = defaultdict(set)
    for (_, backend, *row), sources in derived.items():
        for source, line in sources.items():
            of_source, mine = (*row, source), rungs(line)
            if ORDER[line["rank"]] in SAYS_NOTHING:
                continue
            if backend == "nvrtc":
                shown[of_source] |= mine & {"builds"}
            for rung, backends in ON_CPU.items() if line["device_class"].startswith("cpu-") else ():
                if backend in backends:
                    (shown if rung in mine else denied)[of_source].add(rung)
    return {of_source: found - denied[of_source] for of_source, found in shown.items()}


def differences(cell: dict[str, Any], sources: dict[str, sqlite3.Row], may: set[str]) -> Iterator[str]:
    """What an exported cell says and its evidence doesn't; `may` is what it may wear beside its own rungs."""
    if cell["verdict"] is None:
        if sources:
            yield f"never run, but there is evidence of {len(sources)} sources"
        if claimed := set(cell["rungs"]) - may:
            yield f"never run, but it wears {', '.join(sorted(claimed))}"
        return
    row = sources.get(cell["source_digest"])
    if row is None:
        yield f"{cell['verdict']}, but there is no evidence of source {cell['source_digest'][:12]}"
        return
    if "stale" in cell["flags"] and row["last_us"] < max(other["last_us"] for other in sources.values()):
        yield "stale, and not the newest source that ran"
    said = {name: cell[name] for name in (*FIGURES, "verdict", "bit_exact", "last_run", "trust")}
    is_bit_exact = None if row["bit_exact"] is None else bool(row["bit_exact"])
    found = {name: row[name] if row[name] is None or row[name] <= FINITE else None for name in FIGURES}
    found |= {"verdict": ORDER[row["rank"]], "bit_exact": is_bit_exact, "last_run": stamp(row["last_us"])}
    found["trust"] = trust(row)
    yield from (
        f"{name} is {said[name]!r}, evidence says {found[name]!r}"
        for name in said
        if said[name] != found[name]
    )
    for flag in ("flaky", "suspect"):
        if (flag in cell["flags"]) != bool(row[flag]):
            yield f"{flag} is {flag in cell['flags']}, evidence says {bool(row[flag])}"
    # What was built for another architecture is no rung here: which one a board has isn't in an export.
    least, most = rungs(row) | may - {"builds"}, rungs(row) | may
    if not least <= set(cell["rungs"]) <= most:
        yield f"rungs are {sorted(cell['rungs'])}, evidence says {sorted(most)}"


def rungs(row: sqlite3.Row) -> set[str]:
    """What a cell's own evidence shows; of a library's, nothing about a text."""
    passed = ORDER[row["rank"]] == "PASS"
    is_host, is_board = row["backend"] == "host", row["backend"] == "cuda"
    is_built = row["backend"] in ("cuda", "nvrtc") and row["built"] > 0 and not row["rejected"]
    found = {
        "twin": row["twin_agrees"] == 1,
        "host": passed and is_host and not row["library"],
        "builds": is_built and not row["library"],
        "device": passed and is_board,
        "exact": passed and (is_host or is_board) and row["build"] == "exact" and not row["inexact"],
        "timed": is_board and row["timed"] == 1,
    }
    return {name for name, reached in found.items() if reached}


def trust(row: sqlite3.Row) -> str:
    """The least of what its cases rest on, unless its board is doubted, or another one agrees."""
    if row["suspect"]:
        return "suspect"
    return "confirmed" if row["agreed"] and row["trust"] and not row["flaky"] else TRUST[row["trust"]]


def stamp(us: int) -> str:
    return datetime.fromtimestamp(us / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def main(words: list[str]) -> int:
    if len(words) != 2:
        print("usage: audit.py DATABASE EXPORT.json", file=sys.stderr)
        return 2
    count, wrong = audit(Path(words[0]), Path(words[1]))
    for line in wrong:
        print(line)
    print(f"{count} cells, {len(wrong)} differences")
    return 3 if wrong or not count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
