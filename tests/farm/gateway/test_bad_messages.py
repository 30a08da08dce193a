"""Hostile messages of every call: one line back, nothing stored, and the gateway goes on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from db import check, evidence
from db.session import Database
from db.tables import metadata
from farm.gateway.app import MOST_BYTES
from kernels import catalog, codec
from kernels.model import Device
from tests.changing import NASTY, at, changed, leaves, nested, of_other_types
from tests.db.making import case, line, rich
from workers.protocol import Ask, Complete, Fetch, Hello, Renew

CALLS = {"hello": Hello, "lease": Ask, "renew": Renew, "complete": Complete, "fetch": Fetch}
PLAIN = Device("cpu-test-1", "cpu-test", "A processor", "uuid-1", 1, (("driver", "5"),))
SQL = "'; DROP TABLE job; --"
ABSENT = 400, "no catalog 000000000000 in this database; submit with --catalog stores one"


class Caller:
    """A worker that said hello, and sends what it likes; its token's rate is no matter here."""

    def __init__(self, door, clock) -> None:
        self._door, self._clock, self._secret = door, clock, door.token()
        hello = Hello("w", PLAIN, ("twin",), catalog.digest(), files=("f" * 64,))
        self.epoch = door.caller(self._secret).hello(hello).epoch
        # What is right, with something in every field.
        self.right = {
            "hello": hello,
            "lease": Ask("w", self.epoch, 1),
            "renew": Renew("w", self.epoch, ("a",), ("b",), ("c",)),
            "complete": Complete("w", self.epoch, (replace(rich(), device=PLAIN),)),
            "fetch": Fetch("w", self.epoch, "0" * 64),
        }

    def data(self, call: str) -> Any:
        """A right message as JSON."""
        return json.loads(codec.canonical(self.right[call]))

    def send(self, call: str, text: str) -> tuple[int, str]:
        """Status and text of the answer, which is one line whatever it says."""
        self._clock.now += 0.1
        status, said = self._door.post(call, text, self._secret)
        assert said.isprintable()
        assert status == 200 or len(said) <= 500
        return status, said

    def send_right(self, call: str) -> None:
        """Shows that the gateway is there, and takes what is right."""
        status, said = self.send(call, codec.canonical(self.right[call]))
        assert (status, said) == ABSENT if call == "fetch" else status == 200


@pytest.fixture
def caller(door, clock) -> Caller:
    return Caller(door, clock)


def rows(database: Database) -> Mapping[str, int]:
    """How many each table has."""
    with database.reading() as s:
        count = sa.func.count()
        return {
            name: s.execute(sa.select(count).select_from(table)).scalar_one()
            for name, table in metadata.tables.items()
        }


@pytest.mark.parametrize("call", CALLS)
def test_a_field_of_another_type_is_refused_by_name(caller: Caller, call: str, database: Database) -> None:
    before, right = rows(database), caller.data(call)
    tried = list(of_other_types(right))
    assert len(tried) == 4 * sum(at(right, path) is not None for path in leaves(right))
    for path, message in tried[:: 3 if call == "complete" else 1]:  # of a line each place, but not each type
        status, said = caller.send(call, json.dumps(message))
        assert (status, said.startswith(f"{CALLS[call].__name__}.{path[0]}")) == (400, True), (path, said)
    assert rows(database) == before
    caller.send_right(call)
    assert rows(database)["evidence"] - before["evidence"] == (call == "complete")


@pytest.mark.parametrize("call", CALLS)
def test_whatever_a_field_holds_the_gateway_answers_in_one_line(
    caller: Caller, call: str, database: Database
) -> None:
    if call == "complete":
        caller.right[call] = Complete("w", caller.epoch, (line(case(1), device=PLAIN),))
    right, statuses = caller.data(call), Counter()
    places = [(path, value) for path in leaves(right) for value in NASTY]
    for number, (path, value) in enumerate(places[:: 5 if call == "complete" else 1]):
        if call == "complete":  # each is a line of its own, not the same again
            right["evidence"][0]["evidence_id"] = f"line-{number}"
        statuses[caller.send(call, json.dumps(changed(right, path, value)))[0]] += 1
    assert set(statuses) - {403} == {200, 400}  # 403: a line about another board
    assert min(statuses[200], statuses[400]) > 2
    with database.reading() as s:
        assert check.check(s).complaints == ()
    caller.send_right(call)


@pytest.mark.parametrize("levels", [100, 900, 100_000])
@pytest.mark.parametrize("call", CALLS)
def test_levels_over_levels_are_refused_wherever_they_stand(
    caller: Caller, call: str, levels: int, database: Database
) -> None:
    before, right, deep = rows(database), caller.data(call), nested(levels)
    assert caller.send(call, deep)[0] == 400
    for path in list(leaves(right))[::2]:
        status, said = caller.send(call, json.dumps(changed(right, path, "HERE")).replace('"HERE"', deep))
        assert (status, "want" in said or "not a JSON message" in said) == (400, True), (path, said)
    assert rows(database) == before
    caller.send_right(call)


@pytest.mark.parametrize("call", CALLS)
def test_a_body_over_the_limit_is_refused_and_one_below_is_read(caller: Caller, call: str) -> None:
    right = codec.canonical(caller.right[call])
    told = f"a message of more than {MOST_BYTES} bytes; send fewer lines at once"
    assert caller.send(call, right + " " * (MOST_BYTES + 1 - len(right))) == (413, told)
    status, said = caller.send(call, right + " " * (MOST_BYTES - len(right)))
    assert (status, said) == ABSENT if call == "fetch" else status == 200


MANY: list[tuple[str, Callable[[Caller], object], str]] = [
    ("hello", lambda one: replace(one.right["hello"], backends=("twin",) * 65), "65 backends in one message"),
    ("hello", lambda one: replace(one.right["hello"], files=("f",) * 4097), "4097 files in one message"),
    ("renew", lambda one: replace(one.right["renew"], held=("a",) * 4097), "4097 attempts in one message"),
    (
        "renew",
        lambda one: replace(one.right["renew"], returned=("a",) * 4097),
        "4097 attempts in one message",
    ),
    (
        "complete",
        lambda one: replace(one.right["complete"], evidence=(rich(),) * 257),
        "257 lines in one message",
    ),
]


@pytest.mark.parametrize(("call", "made", "why"), MANY, ids=[why for _, _, why in MANY])
def test_more_than_a_statement_takes_is_refused(
    caller: Caller, call: str, made: Callable[[Caller], object], why: str, database: Database
) -> None:
    before = rows(database)
    status, said = caller.send(call, codec.canonical(made(caller)))
    assert (status, said.startswith(why), said.endswith("send fewer at once")) == (400, True, True)
    assert rows(database) == before


def test_a_worker_with_a_name_that_nothing_holds_is_told_so(caller: Caller, door) -> None:
    hello = replace(caller.right["hello"], worker_id="w" * 65)
    status, said = caller.send("hello", codec.canonical(hello))
    assert (status, "has 65 characters, 64 are the most; shorten it" in said) == (400, True)


def test_a_device_out_of_scope_is_quoted_so_that_every_client_can_read_it(door, caller: Caller) -> None:
    """Half a surrogate pair is no UTF-8, and what steers a terminal is shown as its code."""
    secret = door.token("scoped", devices="cpu-*")
    hello = replace(caller.right["hello"], worker_id="v", device=replace(PLAIN, slug="cpu-test-2"))
    epoch = door.caller(secret).hello(hello).epoch
    board = Device("\ud800\x1b[2J", "rtx", "RTX", "u")
    status, said = door.post(
        "complete", codec.canonical(Complete("v", epoch, (replace(rich(), device=board),))), secret
    )
    assert (status, said.startswith(r"device \xd800\x1b[2J (rtx) isn't covered")) == (403, True)


def test_names_with_sql_in_them_are_kept_as_they_are(caller: Caller, database: Database) -> None:
    """Of a kernel, a worker, a device, a backend and an attempt; a campaign has no name."""
    board = Device(SQL, SQL, SQL, SQL)
    hello = Hello(SQL, board, (SQL,), catalog.digest())
    assert caller.send("hello", codec.canonical(hello))[0] == 200
    assert caller.send("lease", codec.canonical(Ask(SQL, caller.epoch, 9)))[0] == 200
    told = replace(rich(), device=board, backend=SQL, case=replace(case(1), kernel=SQL, op=SQL))
    told = replace(told, case_id=told.case.id, attempt_id=SQL, evidence_id=SQL, source_digest=SQL)
    assert caller.send("complete", codec.canonical(Complete(SQL, caller.epoch, (told,))))[0] == 200
    assert caller.send("renew", codec.canonical(Renew(SQL, caller.epoch, (SQL,), (SQL,), (SQL,))))[0] == 200
    assert caller.send("fetch", codec.canonical(Fetch(SQL, caller.epoch, SQL)))[0] == 400
    counted = rows(database)
    assert (counted["job"], counted["evidence"]) == (6, 1)
    with database.reading() as s:
        stored = evidence.get(s, SQL)
        assert stored is not None
        assert stored.line == replace(told, origin="worker", trust="rented")
        assert check.check(s).complaints == ()
