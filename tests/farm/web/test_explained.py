"""A cell's page: what changed in its source, its bugs, its history over sources and drivers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from db import blob, evidence
from db.session import Database, open_existing
from farm.held import Holder
from farm.web.explained import difference
from farm.web.reader import Reader
from kernels import source
from kernels.evidence import Verdict
from tests.farm.grids import CPU
from tests.farm.lines import database_with, line_of

OLD = "ab" * 32
CELL = "cpu-x86_64/host/matvec/block/Q4_0/exact"


@pytest.fixture
def database(tmp_path: Path) -> Database:
    """A cell that ran an older source on an older system, wrong at first, and then right."""
    newer = replace(CPU, fingerprint=(("os", "Linux 6.1"),))
    lines = [
        replace(line_of(Verdict.FAIL, source=OLD), finished_us=5_000_000),
        replace(line_of(source=OLD, device=newer), finished_us=6_000_000),
    ]
    made = open_existing(database_with(tmp_path, lines))
    text = source.text("matvec/block", "Q4_0")
    with made.writing() as s:
        then = text.replace("__syncthreads();", "", 1)
        blob.put_source(s, OLD, (blob.SourceText("matvec/block", "Q4_0", then),))
    return made


@pytest.fixture
def reader(database: Database) -> Reader:
    return Reader(database, Holder(database))


def test_what_changed_since_it_ran_is_a_diff(reader: Reader) -> None:
    (found,) = reader.cell(CELL)["found"]
    assert found["stale"]
    (text,) = found["texts"]
    changed = [(sort, line.strip()) for sort, line in text["diff"] if sort in ("add", "del")]
    assert ("add", "__syncthreads();") in changed
    assert all(sort == "add" or not line for sort, line in changed)
    assert "__syncthreads" in text["text"]


def test_an_equal_text_with_another_digest_says_what_may_have_changed(
    reader: Reader, database: Database
) -> None:
    other = "cd" * 32
    with database.writing() as s:
        evidence.import_lines(s, [replace(line_of(source=other), finished_us=9_000_000)], 9_000_000)
        text = source.text("matvec/block", "Q4_0")
        blob.put_source(s, other, (blob.SourceText("matvec/block", "Q4_0", text),))
    (found,) = Reader(database, Holder(database)).cell(CELL)["found"]
    assert found["change"].startswith("The CUDA text is what it was")
    assert found["texts"][0]["diff"] == []


def test_history_goes_over_sources_and_names_the_first_good_system(reader: Reader) -> None:
    told = reader.cell(CELL)
    assert [(row["verdict"], row["source"], row["old"], row["driver"]) for row in told["history"]] == [
        (Verdict.PASS, OLD, True, "Linux 6.1"), (Verdict.FAIL, OLD, True, ""),
    ]  # fmt: skip
    assert told["good"] == "os Linux 6.1"


def test_a_diff_has_the_lines_around_a_change_and_nothing_for_equal_texts() -> None:
    then, now = "a\nb\nc\nd\ne\nf\n", "a\nb\nc\nD\ne\nf\n"
    assert list(difference(then, now)) == [
        ("at", "@@ -1,6 +1,6 @@"), ("same", "a"), ("same", "b"), ("same", "c"),
        ("del", "d"), ("add", "D"), ("same", "e"), ("same", "f"),
    ]  # fmt: skip
    assert list(difference(then, then)) == []
