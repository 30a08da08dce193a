"""The mark by which a node's keeper sees that its agents have cases."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kernels import codec
from workers.at_work import NAME, Marks, marking
from workers.protocol import Ask, Complete, Renew


@pytest.mark.parametrize(
    ("call", "message", "marks"),
    [
        ("complete", Complete("w", 1, ()), True),
        ("renew", Renew("w", 1, ("a-1",)), True),
        ("renew", Renew("w", 1, ()), False),
        ("lease", Ask("w", 1, 8), False),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_who_sends_lines_or_holds_a_case_is_at_work(
    call: str, message: object, marks: bool, tmp_path: Path
) -> None:
    found = Marks(tmp_path)
    carry = marking(lambda call, text: f"{call}: {text}", tmp_path)
    text = codec.canonical(message)
    assert carry(call, text) == f"{call}: {text}"
    assert found.are_new() == marks


def test_a_mark_is_new_once(tmp_path: Path) -> None:
    (tmp_path / NAME).touch()
    found = Marks(tmp_path)
    assert not found.are_new()
    os.utime(tmp_path / NAME, ns=(1, 1))  # whatever the clock says
    assert [found.are_new(), found.are_new()] == [True, False]
