"""Links from cells to bugs: kept once, found by cell, and never an address that a page shouldn't have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from db import bug
from db.bug import Subject
from db.session import Database
from kernels.errors import UsageError

CELL = Subject("rtx-3060", "cuda", "matvec", "block", "Q4_0", "exact")
URL = "https://bugs.example/7"


def test_a_link_is_kept_once_and_taken_away(database: Database) -> None:
    with database.writing() as s:
        made = bug.link(s, CELL, URL, 5)
        assert bug.link(s, CELL, URL, 9) == made
        other = bug.link(s, replace(CELL, build=""), URL, 9)
        assert bug.bugs(s) == (other, made)
        assert (made.url, made.linked_us) == (URL, 5)
        assert bug.unlink(s, made.id)
        assert not bug.unlink(s, made.id)
        assert bug.bugs(s) == (other,)


@pytest.mark.parametrize(
    ("linked", "asked", "yes"),
    [
        ("exact", "exact", True),
        ("exact", "default", False),
        ("exact", "", True),
        ("", "exact", True),
        ("", "", True),
    ],
)
def test_a_bug_is_about_its_build_or_about_all(linked: str, asked: str, yes: bool) -> None:
    one = bug.Bug(1, replace(CELL, build=linked), URL, 1)
    assert one.is_about(replace(CELL, build=asked)) is yes
    assert not one.is_about(replace(CELL, build=asked, kind="Q5_0"))


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("javascript:alert(1)", "is no web address; write https://HOST/"),
        ("bugs.example/7", "is no web address"),
        ("https://", "is no web address"),
        ("https://me:secret@bugs.example/7", "is no web address"),
        ("https://bugs.example/a b", "is no web address"),
        ("https://bugs.example/\x07", "is no web address"),
        ("https://[::1", "is no web address"),
        ("https://bugs.example/" + "x" * 500, "an address of 521 characters; 500 are the most"),
    ],
)
def test_what_is_no_web_address_is_refused(database: Database, address: str, why: str) -> None:
    with pytest.raises(UsageError, match=why), database.writing() as s:
        bug.link(s, CELL, address, 1)
    with database.reading() as s:
        assert bug.bugs(s) == ()
