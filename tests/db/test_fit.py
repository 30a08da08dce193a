"""Lines that one database would take and the other would not: refused alike, and nothing beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from db import evidence, outcome, tables
from db.fit import first_misfit, is_plain, unfit, unfit_worker
from kernels import codec
from kernels.errors import FarmError
from kernels.evidence import Evidence, Verdict
from tests.changing import NASTY, changed, leaves
from tests.db.making import BOARD, Farm, answer, case, line, rich


def hostile(of: Evidence | None = None) -> Iterator[Evidence]:
    """Lines with one field that nobody would write, as far as JSON and types let them through."""
    whole = json.loads(codec.canonical(of or rich()))
    for number, (path, value) in enumerate((path, value) for path in leaves(whole) for value in NASTY):
        told = whole if path[0] == "evidence_id" else whole | {"evidence_id": f"line-{number}"}
        try:
            made = codec.decode(Evidence, json.loads(json.dumps(changed(told, path, value))))
        except codec.CodecError:
            continue
        # A case that was changed along with its id, as somebody would who means it.
        yield from (made, replace(made, evidence_id=f"own-{number}", case_id=made.case.id))


def test_whatever_a_line_holds_it_is_stored_or_refused(farm: Farm) -> None:
    lines = list(hostile())
    assert len(lines) > 500
    outcomes = farm.complete(*lines)
    stored = {one.evidence_id for one in outcomes if one.kept}
    with farm.database.reading() as s:
        assert {*s.execute(sa.select(tables.evidence.c.evidence_id)).scalars()} == stored
        for made in lines[::25]:
            found = evidence.get(s, made.evidence_id) if made.evidence_id in stored else None
            assert found is None or repr(found.line) == repr(made)
    refused = [one.note for one in outcomes if not one.kept]
    assert 20 < len(refused) < len(lines) / 2
    assert [note for note in refused if not note.isprintable() or len(note) > 200] == []


def test_a_glance_takes_nothing_that_a_longer_look_refuses() -> None:
    lines = list(hostile(line(case(1))))
    taken = [made for made in lines if is_plain(made)]
    assert is_plain(line(case(1)))
    assert 100 < len(taken) < len(lines) - 100
    assert [first_misfit(made) for made in taken if first_misfit(made)] == []


WRONG = [
    ({"reason": "a\0b"}, "reason 'a\\x00b' has a NUL"),
    ({"reason": "\udc80"}, "half a surrogate pair"),
    ({"trust": "x" * 40}, "trust 'xxxxxxxxxxxxxxxxxxxxxxxx' has 40 characters, 16 are the most; shorten it"),
    ({"repeats": 2**31}, "repeats 2147483648 needs more than 31 bits"),
    ({"finished_us": 2**62}, "is behind the year 9999"),
    ({"case": case(2)}, "isn't its case's"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "why"), WRONG, ids=[why[:20] for _, why in WRONG])
def test_a_line_that_cannot_be_kept_costs_its_job_alone(farm: Farm, fields: dict[str, Any], why: str) -> None:
    campaign = farm.submit([case(1), case(3), case(4)])
    leases = farm.lease()
    lines = [answer(lease) for lease in leases]
    lines[0] = replace(lines[0], **fields)
    outcomes = farm.complete(*lines)
    assert [(one.decided, one.kept, one.verdict) for one in outcomes] == [
        (True, False, Verdict.ERROR), (True, True, Verdict.PASS), (True, True, Verdict.PASS),
    ]  # fmt: skip
    assert why in outcomes[0].note
    first = farm.job(leases[0].job_id)
    with farm.database.reading() as s:
        stored = evidence.get(s, first.evidence_id or "")
    assert first.verdict is Verdict.ERROR
    assert stored is not None
    assert (stored.line.origin, stored.line.reason) == (
        "coordinator", f"its line can't be kept: {outcomes[0].note}"
    )  # fmt: skip
    assert campaign
    again = farm.complete(*lines)  # sent again: nothing is here to be counted
    assert [(one.new, one.decided, one.kept) for one in again] == [
        (False, False, False), (False, False, True), (False, False, True),
    ]  # fmt: skip


def test_a_bundle_with_such_a_line_is_refused_whole(farm: Farm) -> None:
    lines = [line(case(1)), line(case(2), reason="a\0b")]
    for tried in (lines, lines[::-1]):
        with (
            pytest.raises(FarmError, match=r"can't be kept: reason 'a\\x00b' has a NUL"),
            farm.database.writing() as s,
        ):
            evidence.import_lines(s, tried, 30)
    with farm.database.reading() as s:
        assert evidence.of_case(s, case(1).id) == ()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("w" * 65, ("host",), BOARD), "worker_id 'wwww"),
        (("w", ("host", "h" * 33), BOARD), "backends 'hhhh"),
        (("w", ("host",), replace(BOARD, uuid="u" * 129)), "device.uuid 'uuuu"),
        (("w", ("host",), replace(BOARD, name="RTX\0")), "device.name 'RTX\\x00' has a NUL"),
    ],
)
def test_a_worker_that_cannot_be_kept_is_told_why(words: tuple[Any, ...], why: str) -> None:
    assert unfit_worker("w", ("host",), BOARD) == ""
    assert unfit_worker(*words).startswith(why)


def test_what_workers_send_fits() -> None:
    assert unfit(rich()) == ""
    assert unfit(line(case(1))) == ""
    assert outcome.Outcome("id", True, 1, True, Verdict.PASS).kept
