"""The page says what the record has."""

from __future__ import annotations

from dataclasses import replace

from farm.sabotage import jobs
from farm.sabotage_record import digest_of, read
from tests.docs import sabotage_table
from tests.docs.sabotage_table import HEADS, RECORD, key, row, table


def test_the_page_has_the_records_table() -> None:
    assert list(sabotage_table.outdated()) == []


def test_a_changed_record_outdates_the_page(tmp_path, monkeypatch) -> None:
    lines = RECORD.read_text("utf8").splitlines(keepends=True)
    (tmp_path / "scores.jsonl").write_text("".join(lines[1:]), "utf8")
    monkeypatch.setattr(sabotage_table, "RECORD", tmp_path / "scores.jsonl")
    assert len(list(sabotage_table.outdated())) == 1


def test_what_nobody_judged_and_what_an_older_source_was_are_counted_apart() -> None:
    scores = {key: one.score for key, one in read(RECORD).items()}
    texts = jobs((), True, ())
    mine = [job for job in texts if job.kernel == "matvec/block"]
    score = scores[key(mine[0])]
    fresh = replace(score, source_digest=digest_of(mine[0]))
    said = dict(zip(HEADS, row("x", {key(mine[0]): fresh}, mine), strict=True))
    assert (said["texts"], said["older"], said["never"]) == ("1", "0", str(len(mine) - 1))
    said = dict(
        zip(HEADS, row("x", {key(mine[0]): replace(fresh, source_digest="0" * 64)}, mine), strict=True)
    )
    assert said["older"] == "1"
    assert len(table(scores, texts).splitlines()) == 3 + len({job.kernel for job in texts})
