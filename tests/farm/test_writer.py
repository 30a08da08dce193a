"""The writer thread: who waits, what is committed together, and what a failure takes with it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from sqlalchemy.exc import OperationalError

from db.complaint import DatabaseTrouble
from db.session import Database, Session
from farm.writer import Joint, Steps, Writer
from kernels.errors import FarmError


@pytest.fixture
def writer(database: Database) -> Iterator[Writer]:
    with database.writing() as s:
        s.exec_driver_sql("CREATE TABLE note (n INTEGER PRIMARY KEY)")
    writer = Writer(database)
    yield writer
    writer.close()


def put(s: Session, number: int) -> int:
    s.exec_driver_sql("INSERT INTO note VALUES (?)", (number,))
    return number


def notes(database: Database) -> list[int]:
    with database.reading() as s:
        return [n for (n,) in s.exec_driver_sql("SELECT n FROM note ORDER BY n")]


def test_an_answer_comes_after_the_commit(writer: Writer, database: Database) -> None:
    assert writer.do(lambda s: put(s, 1)) == 1
    assert notes(database) == [1]


def test_works_that_wait_share_a_transaction_and_a_failure_undoes_itself_alone(
    writer: Writer, database: Database
) -> None:
    begun, held, transactions = Event(), Event(), []

    def first(s: Session) -> None:
        begun.set()
        held.wait(60)

    def work(number: int) -> int:
        def note(s: Session) -> int:
            transactions.append(s.get_transaction())
            put(s, number)
            if number == 3:
                raise FarmError("three is refused")
            return number

        return writer.do(note)

    with ThreadPoolExecutor(8) as pool:
        pool.submit(writer.do, first)
        begun.wait(60)
        futures = [pool.submit(work, number) for number in range(5)]
        while writer.waiting < 5:  # all five stand behind the first
            held.wait(0.01)
        held.set()
        ended = [future.exception() for future in futures]
    assert [str(error) for error in ended if error] == ["three is refused"]
    assert notes(database) == [0, 1, 2, 4]
    assert len(set(map(id, transactions))) == 1


def test_joint_works_are_done_at_once_and_the_one_at_fault_fails_alone(
    writer: Writer, database: Database
) -> None:
    begun, held, calls = Event(), Event(), []

    def put_all(s: Session, numbers: Sequence[int]) -> list[int]:
        calls.append(list(numbers))
        done = [put(s, number) for number in numbers]
        if 3 in numbers:
            raise FarmError("three is refused")
        return done

    writer.put(lambda s: (begun.set(), held.wait(60)))
    begun.wait(60)
    futures = [writer.put(Joint(put_all, number)) for number in (1, 2, 3)]
    held.set()
    assert [future.exception() is None for future in futures] == [True, True, False]
    assert (calls, notes(database)) == ([[1, 2, 3], [1], [2], [3]], [1, 2])
    assert writer.put(Joint(put_all, 4)).result() == 4


def test_what_goes_ahead_is_in_the_transaction_and_is_told_of_its_commit(database: Database) -> None:
    told: list[str] = []

    def ahead(s: Session) -> Callable[[], None]:
        told.append("asked")
        if len(told) > 3:
            raise FarmError("the epoch is over")
        return lambda: told.append("committed")

    writer = Writer(database, ahead=ahead)
    writer.do(lambda s: told.append("work"))
    with pytest.raises(FarmError, match="epoch"):
        writer.do(lambda s: told.append("more work"))
    writer.close()
    assert told == ["asked", "work", "committed", "asked"]


def test_an_event_loop_follows_steps_without_waiting_for_them(writer: Writer) -> None:
    def steps(number: int) -> Steps[int]:
        first = yield lambda s: put(s, number)
        return first + (yield lambda s: put(s, number + 100))

    async def several() -> list[int]:
        return await asyncio.gather(*(writer.follow_later(steps(number)) for number in range(50)))

    assert asyncio.run(several()) == [2 * number + 100 for number in range(50)]
    assert writer.follow(steps(1000)) == 2100


def test_nothing_is_taken_after_the_end(database: Database) -> None:
    writer = Writer(database)
    writer.close()
    with pytest.raises(FarmError, match="ended"):
        writer.do(lambda s: None)


def test_everyone_is_told_when_the_commit_fails(writer: Writer, database: Database) -> None:
    def break_it(s: Session) -> None:
        s.connection.rollback()  # the transaction is gone before the writer's commit

    with pytest.raises(Exception, match=r".+"):
        writer.do(break_it)
    assert writer.do(lambda s: put(s, 1)) == 1


def test_a_database_in_trouble_is_told_to_all_and_lived_through(writer: Writer, database: Database) -> None:
    """A full disk leaves a transaction behind in which the neighbours can't go on either."""
    begun, held = Event(), Event()

    def full(s: Session) -> None:
        raise OperationalError("INSERT", {}, sqlite3.OperationalError("database or disk is full"))

    with ThreadPoolExecutor(4) as pool:
        pool.submit(writer.do, lambda s: (begun.set(), held.wait(10)))
        assert begun.wait(10)  # alone: those behind it are a group of their own
        futures = [pool.submit(writer.do, work) for work in (lambda s: put(s, 1), full, lambda s: put(s, 2))]
        while writer.waiting < 3:
            held.wait(0.01)
        held.set()
        for future in futures:
            with pytest.raises(DatabaseTrouble, match="database or disk is full"):
                future.result()
    assert notes(database) == []
    assert writer.do(lambda s: put(s, 3)) == 3
