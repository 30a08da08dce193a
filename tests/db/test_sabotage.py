"""Sabotage scores: stored, replaced by a later run, and a database of an older schema is brought along."""

from __future__ import annotations

from dataclasses import replace

import pytest

from db import sabotage
from db.sabotage import Score
from db.session import Database

SCORE = Score(
    kernel="matvec/block",
    kind="Q4_0",
    source_digest="a" * 64,
    ran_us=5,
    cases=21,
    mutants=100,
    compiled=98,
    killed=(("crash", 10), ("bound", 80)),
    by_relative=85,
    by_nmse=84,
    same=0,
    equivalents=6,
    survivors=("ENTRY:1:drop", "ENTRY:2:drop"),
)


def stored(database: Database, *scores: Score) -> tuple[Score, ...]:
    for score in scores:
        with database.writing() as s:
            sabotage.put(s, score)
    with database.reading() as s:
        return sabotage.scores(s)


def test_a_score_comes_back_as_it_was_put(database: Database) -> None:
    assert stored(database, SCORE) == (SCORE,)


def test_a_later_run_of_the_same_source_replaces_the_first(database: Database) -> None:
    later = replace(SCORE, ran_us=6, survivors=())
    assert stored(database, SCORE, later) == (later,)


def test_the_newest_source_counts_whatever_its_digest(database: Database) -> None:
    later = replace(SCORE, ran_us=6, source_digest="0" * 64)
    assert stored(database, later, SCORE) == (later,)


def test_every_kernel_and_kind_has_its_own(database: Database) -> None:
    other = replace(SCORE, kind="Q4_K")
    assert stored(database, other, SCORE) == (SCORE, other)


@pytest.mark.parametrize(("equivalents", "want"), [(6, 90 / 92), (8, 1.0)])
def test_the_score_is_what_was_killed_of_what_could_be(equivalents: int, want: float) -> None:
    assert replace(SCORE, equivalents=equivalents).score == want


def test_nothing_to_kill_is_a_full_score() -> None:
    assert replace(SCORE, compiled=6, killed=()).score == 1.0
