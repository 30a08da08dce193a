"""The coordinator as Ray's actor: one event loop carries all its methods, and none may hold it."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
import uuid
from dataclasses import replace
from typing import Any

import pytest

from db.complaint import DatabaseTrouble
from db.session import Database
from farm.cluster import private
from farm.cluster.private import CoordinatorActor, address_of
from kernels import catalog, codec
from kernels.errors import FarmError
from tests.farm.conftest import DEVICE
from workers.json_calls import ask_apart
from workers.protocol import Hello, Renew, StaleEpoch, Unreachable

WAITING = 300


@pytest.fixture
def actor(database: Database) -> CoordinatorActor:
    return CoordinatorActor(address_of(database), catalog.digest(), examines=True)


def greeting(number: int = 0) -> Hello:
    board = replace(DEVICE, slug=f"cpu-{number}", uuid=f"uuid-{number}")
    return Hello(str(uuid.uuid4()), board, ("twin",), catalog.digest())


def test_every_method_is_awaited() -> None:
    methods = inspect.getmembers(CoordinatorActor, inspect.isfunction)
    named = {name for name, method in methods if not inspect.iscoroutinefunction(method)}
    assert named == {"__init__"}


def test_what_waits_for_the_writer_keeps_neither_a_thread_nor_a_heartbeat(actor: CoordinatorActor) -> None:
    released, threads = threading.Event(), []

    async def story() -> list[Any]:
        first = greeting()
        welcome = await ask_apart(actor.call, first)
        actor._coordinator._writer.put(lambda s: released.wait(60))
        calls = [asyncio.create_task(ask_apart(actor.call, greeting(n))) for n in range(1, WAITING + 1)]
        tick = asyncio.create_task(actor.tick())
        async with asyncio.timeout(60):
            while actor._coordinator._writer.waiting < WAITING:
                await asyncio.sleep(0.01)
        began_s = time.perf_counter()
        await ask_apart(actor.call, Renew(first.worker_id, welcome.epoch, ()))
        assert time.perf_counter() - began_s < 5.0
        threads.append(threading.active_count())
        assert not any(call.done() for call in (*calls, tick))
        released.set()
        await tick
        return await asyncio.gather(*calls)

    try:
        assert all(said.accepted for said in asyncio.run(story()))
    finally:
        released.set()
    assert threads[0] < 60


def test_a_call_while_the_database_is_in_trouble_is_to_be_repeated(
    actor: CoordinatorActor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(message: object) -> None:
        raise DatabaseTrouble("farm.db: disk is full")

    monkeypatch.setattr(actor._coordinator, "answer_apart", answer)
    with pytest.raises(Unreachable, match="disk is full"):
        asyncio.run(actor.call("renew", codec.canonical(Renew("w", 1, ()))))


def test_what_is_no_call_is_refused_and_a_stranger_is_asked_for_a_hello(actor: CoordinatorActor) -> None:
    with pytest.raises(FarmError, match="no call named 'close'"):
        asyncio.run(actor.call("close", "{}"))
    with pytest.raises(StaleEpoch, match="say hello again"):
        asyncio.run(ask_apart(actor.call, Renew("w", 1, ())))


def test_a_progress_and_metrics_are_told(actor: CoordinatorActor, submitted: Any) -> None:
    assert asyncio.run(actor.progress(submitted.campaign_id)).jobs == 6
    assert b"farm_" in asyncio.run(actor.metrics())
    assert asyncio.run(actor.note_boards()) is None
    assert private.CALLS_AT_ONCE > WAITING
