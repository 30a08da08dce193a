"""Verdicts that rest on less than a reader asks for: never a PASS, in no format, and always counted."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from db import agreement, evidence, trust
from db.agreement import LEVELS
from db.evidence import Entry, append
from db.session import open_database
from farm import exports
from farm.cli.export import export
from farm.marks import NEVER_RUN, tally
from farm.matrix import Matrix, Row
from farm.narrow import Words, narrow
from farm.trusted import trusted
from kernels.errors import UnknownName
from kernels.evidence import Verdict
from tests.farm.grids import BLOCK, CPU, CPU_2, capability, matrix_of
from tests.farm.lines import case_of, line_of

LANES = Row("matvec", "coalesced", "Q4_K", "exact")
TILES = Row("mul_mm", "reference", "Q4_K", "exact")
ROWS = (BLOCK, LANES, TILES)


def matrix() -> Matrix:
    """A PASS of one's own board, one of a rented board, and a FAIL that came in a bundle."""
    found = [
        capability(trust="own"),
        capability(row=LANES, trust="rented"),
        capability(Verdict.FAIL, row=TILES, trust="imported", reason="1 of 100 elements"),
    ]
    return matrix_of(found, rows=ROWS)


@pytest.mark.parametrize(
    ("least", "verdicts"),
    [
        ("suspect", "PASS PASS FAIL"),
        ("imported", "PASS PASS FAIL"),
        ("rented", "PASS PASS None"),
        ("own", "PASS None None"),
        ("confirmed", "None None None"),
    ],
)
def test_a_level_takes_itself_and_what_is_above(least: str, verdicts: str) -> None:
    assert " ".join(str(cell.verdict) for cell in trusted(matrix(), least).cells) == verdicts


def test_the_levels_of_the_help_are_those_there_are() -> None:
    (said,) = [one.help for one in export.params if one.name == "min_trust"]
    assert said.endswith(f": {', '.join(LEVELS)}.")
    with pytest.raises(UnknownName, match=f"no level of trust named 'mine'; there are {', '.join(LEVELS)}"):
        trusted(matrix(), "mine")


def test_what_is_left_out_has_no_figure_of_the_verdict() -> None:
    cell = trusted(matrix(), "own").cells[1]
    assert (cell.cases, cell.positions, cell.bound_ratio, cell.nmse, cell.bit_exact) == (
        0,
        0,
        None,
        None,
        None,
    )
    assert (cell.last_run_us, cell.rungs, cell.flags) == (None, (), ("untrusted",))
    assert cell.reason == "its evidence is rented, own is asked for"


TEXTS = [name for name in exports.names() if isinstance(exports.found(name), exports.Export)]


@pytest.mark.parametrize("name", TEXTS)
def test_no_format_shows_it_as_a_pass(name: str) -> None:
    shown = exports.export(name).render(trusted(matrix(), "own"))
    everything = exports.export(name).render(trusted(matrix(), "suspect"))
    assert shown != everything
    if name == "json":
        document = json.loads(shown)
        assert [cell["verdict"] for cell in document["cells"]] == ["PASS", None, None]
        assert document["min_trust"] == "own"
        assert document["left_out"] == [
            {"trust": "imported", "verdict": "FAIL", "cells": 1},
            {"trust": "rented", "verdict": "PASS", "cells": 1},
        ]
    elif name == "csv":
        rows = list(csv.DictReader(io.StringIO(shown)))
        assert [row["verdict"] for row in rows] == ["PASS", "", ""]
        assert [row["trust"] for row in rows] == ["own", "rented", "imported"]
    elif name == "ops-csv":
        assert shown.count("support") == 2  # the header, and the one of one's own
    else:
        assert "2 cells are less trusted than own and left out: 1 imported FAIL, 1 rented PASS" in shown
        assert "its evidence is rented, own is asked for" in shown
        assert "&lt;" in shown or "(untrusted)" in shown
        assert "left out" not in everything


def test_a_class_shows_what_its_trusted_boards_say() -> None:
    """The count names the FAIL that is left out: the PASS beside it isn't all that is known."""
    found = [
        capability(trust="confirmed"),
        capability(Verdict.FAIL, device=CPU_2, trust="rented", reason="1 of 100 elements"),
    ]
    shown = trusted(matrix_of(found, devices=[CPU, CPU_2]), "own")
    (cell,) = shown.by_class().cells
    assert (cell.verdict, cell.trust) == (Verdict.PASS, "confirmed")
    assert [(one.trust, one.verdict, one.cells) for one in shown.left_out] == [("rented", "FAIL", 1)]


def test_a_class_is_trusted_as_the_least_of_its_boards() -> None:
    found = [capability(trust="confirmed"), capability(device=CPU_2, trust="rented")]
    (cell,) = matrix_of(found, devices=[CPU, CPU_2]).by_class().cells
    assert cell.trust == "rented"


def test_a_cell_that_nobody_ran_is_no_less_trusted() -> None:
    shown = trusted(matrix_of([], rows=ROWS), "confirmed")
    assert shown.left_out == ()
    assert tally(shown.cells) == "3 never run"


@pytest.mark.parametrize(
    ("word", "rows"),
    [("trust:own", 1), ("trust:>=rented", 2), ("trust:<own", 2), ("trust:IMPORTED", 1)],
)
def test_a_filter_word_narrows_by_trust(word: str, rows: int) -> None:
    assert len(narrow(matrix(), Words(rows=word)).cells) == rows


def test_a_filter_word_names_the_levels() -> None:
    with pytest.raises(UnknownName, match="no level of trust named 'mine'; there are suspect, "):
        narrow(matrix(), Words(rows="trust:mine"))


@pytest.fixture
def stored(tmp_path: Path) -> None:
    """Two boards that agree about a kernel, one that is set aside, and a line that a bundle brought."""
    database = open_database(f"sqlite:///{tmp_path / '.farm' / 'farm.db'}")
    with database.writing() as s:
        for device in (CPU, CPU_2):
            told = line_of(device=device)
            append(s, [Entry(told, None, folded=True)], 1)
            agreement.note(s, agreement.meetings(s, [told]), 1)
        evidence.import_lines(s, [line_of(case=case_of(kernel="coalesced"))], 2)
    database.close()


def test_status_and_export_leave_out_what_is_asked(
    farm: Callable[..., Result], stored: None, tmp_path: Path
) -> None:
    told = farm("status", "--min-trust", "own").stdout
    assert "1 cell is less trusted than own and left out: 1 imported PASS" in told
    assert f"{NEVER_RUN}<" in told
    document = json.loads(farm("status", "--min-trust", "confirmed", "--json").stdout)["matrix"]
    ran = [cell for cell in document["cells"] if cell["verdict"]]
    assert {(cell["device"], cell["trust"]) for cell in ran} == {
        (CPU.slug, "confirmed"),
        (CPU_2.slug, "confirmed"),
    }
    written = farm("export", "--format", "csv", "--min-trust", "confirmed")
    assert "farm: 1 cell is less trusted than confirmed and left out: 1 imported PASS" in written.stderr
    database = open_database(f"sqlite:///{tmp_path / '.farm' / 'farm.db'}")
    with database.writing() as s:
        trust.set_aside(s, CPU_2.slug, "why", 9)
    database.close()
    assert "2 own PASS" not in (said := farm("export", "--min-trust", "confirmed").stderr)
    assert "1 suspect PASS, 1 imported PASS, 1 own PASS" in said


def test_min_trust_goes_with_the_table(farm: Callable[..., Result], stored: None) -> None:
    for words in (("--min-trust", "own", "--watch"), ("--min-trust", "mine")):
        result = farm("status", *words)
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
