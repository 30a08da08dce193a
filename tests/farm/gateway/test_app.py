"""The gateway against workers, strangers and hostile messages."""

from __future__ import annotations

import asyncio
import json
import threading
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from db import evidence, token
from db.complaint import DatabaseTrouble
from db.epoch import raise_epoch
from db.job import jobs_of
from db.session import Database
from farm.campaign import Submitted
from farm.coordinator import Coordinator
from farm.gateway import app as gateway_app
from farm.gateway import guard
from kernels import catalog, codec
from kernels.evidence import Verdict
from kernels.model import Device
from tests.farm.conftest import Clock
from workers.log import writing_to
from workers.protocol import Ask, Complete, Hello, Renew, StaleEpoch


def hello_text(device: Device, worker_id: str = "", backends: tuple[str, ...] = ("twin",)) -> str:
    return codec.canonical(Hello(worker_id or str(uuid.uuid4()), device, backends, catalog.digest()))


def test_a_worker_finishes_the_campaign_and_its_lines_are_rented(
    door,
    make_agent: Callable[..., object],
    coordinator: Coordinator,
    submitted: Submitted,
    database: Database,
) -> None:
    agent = make_agent(coordinator, greet=False)
    agent.coordinator = door.caller(door.token())
    agent.hello()
    leases = agent.ask().leases
    assert len(leases) == submitted.jobs == 6
    agent.renew(*leases, started=leases)
    for lease in leases:  # a line says what it likes about itself
        line = replace(agent.line(lease, Verdict.PASS), trust="own", origin="coordinator")
        agent.coordinator.complete(Complete(agent.worker_id, agent.epoch, (line,)))
    assert not coordinator.progress(submitted.campaign_id).is_open
    with database.reading() as s:
        lines = [evidence.get(s, job.evidence_id).line for job in jobs_of(s, submitted.campaign_id)]
    assert [(line.trust, line.origin) for line in lines] == [("rented", "worker")] * 6


def test_a_hello_notes_that_the_token_was_used(door, agent, database: Database) -> None:
    secret = door.token()
    door.caller(secret).hello(Hello("w", agent.device, ("twin",), catalog.digest()))
    with database.reading() as s:
        assert all(row.used_us for row in token.tokens(s))


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ({}, "no token"),
        ({"Authorization": "Basic Zm9v"}, "no token"),
        ({"Authorization": "Bearer "}, "no token"),
        ({"Authorization": "Bearer farm_wrong"}, "unknown"),
        ({"Authorization": "Bearer ' OR '1'='1"}, "unknown"),
    ],
)
def test_a_stranger_gets_nothing(door, agent, header: dict[str, str], why: str) -> None:
    door.token()
    for call in ("hello", "lease", "renew", "complete", "nothing"):
        said = door.client.post(f"/v1/{call}", content=hello_text(agent.device), headers=header)
        assert said.status_code == 401
        assert why in said.text


def test_nothing_else_is_served(door) -> None:
    secret = door.token()
    for path in ("/", "/docs", "/openapi.json", "/v1", "/v1/hello/x", "/../farm.db", "/metrics"):
        assert door.client.get(path, headers={"Authorization": f"Bearer {secret}"}).status_code in (404, 405)
    assert door.client.get("/health").json() == {"status": "ok"}


def test_a_revoked_token_is_out_at_the_next_call(door, agent, database: Database) -> None:
    secret = door.token()
    caller = door.caller(secret)
    epoch = caller.hello(Hello("w", agent.device, ("twin",), catalog.digest())).epoch
    with database.writing() as s:
        token.revoke(s, "bench", door.now_us)
    status, said = door.post("lease", codec.canonical(Ask("w", epoch, 1)), secret)
    assert (status, "revoked" in said) == (401, True)


def test_a_token_covers_its_devices_only(door, agent) -> None:
    secret = door.token(devices="rtx-*")
    status, said = door.post("hello", hello_text(agent.device), secret)
    assert status == 403
    assert said == "device cpu-test-1 (cpu-test) isn't covered by this token, which is for rtx-*"


DEAR = Device("h100-1", "h100", "NVIDIA H100", "GPU-1")


@pytest.mark.parametrize(
    ("board", "why"),
    [
        (replace(DEAR, slug="rtx-4090-1"), "device rtx-4090-1 isn't named for its class, h100: "),
        (replace(DEAR, slug="rtx-4090"), "device rtx-4090 isn't named for its class, h100: "),
        (replace(DEAR, name="rtx-4090"), "device h100-1 (h100) isn't covered by this token"),
        (replace(DEAR, device_class="rtx-4090"), "device h100-1 isn't named for its class, rtx-4090: "),
    ],
)
def test_a_token_for_a_class_lets_no_board_say_that_it_is_of_another(door, board: Device, why: str) -> None:
    status, said = door.post("hello", hello_text(board), door.token(devices="rtx-4090*"))
    assert (status, said.startswith(why)) == (403, True), said


def test_a_worker_files_no_line_under_another_class(door, agent, coordinator: Coordinator) -> None:
    agent.hello()
    line = agent.line(agent.ask().leases[0], Verdict.PASS)
    secret = door.token(devices="rtx-4090*")
    board = Device("rtx-4090-1", "rtx-4090", "RTX 4090", "uuid-9")
    epoch = door.caller(secret).hello(Hello("w", board, ("twin",), catalog.digest())).epoch
    forged = replace(line, device=replace(board, device_class="h100"))
    status, said = door.post("complete", codec.canonical(Complete("w", epoch, (forged,))), secret)
    assert (status, said.partition(",")[0]) == (403, "device rtx-4090-1 isn't named for its class")


def test_a_line_about_another_device_is_refused(door, agent, coordinator: Coordinator) -> None:
    agent.hello()
    lease = agent.ask().leases[0]
    secret = door.token(devices="rtx-*")
    board = Device("rtx-3090-1", "rtx-3090", "RTX 3090", "uuid-9")
    epoch = door.caller(secret).hello(Hello("w", board, ("twin",), catalog.digest())).epoch
    forged = codec.canonical(Complete("w", epoch, (agent.line(lease, Verdict.PASS),)))
    assert door.post("complete", forged, secret)[0] == 403


def test_nobody_speaks_for_the_worker_of_another_token(door, agent) -> None:
    mine, other = door.token(), door.token("other")
    epoch = door.caller(mine).hello(Hello("w", agent.device, ("twin",), catalog.digest())).epoch
    for call, message in (
        ("lease", Ask("w", epoch, 1)),
        ("renew", Renew("w", epoch, ())),
        ("complete", Complete("w", epoch, ())),
        ("hello", Hello("w", agent.device, ("twin",), catalog.digest())),
    ):
        assert door.post(call, codec.canonical(message), other)[0] == 403
        assert door.post(call, codec.canonical(message), mine)[0] == 200


def test_a_worker_unknown_here_is_asked_to_say_hello(door) -> None:
    with pytest.raises(StaleEpoch, match="say hello"):
        door.caller(door.token()).lease(Ask("never seen", 1, 1))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not a JSON message"),
        ("{", "not a JSON message"),
        ("[]", "Hello: got '[]', want an object"),
        ('{"worker_id": 7}', "Hello"),
        ("[" * 100_000, "not a JSON message"),
        (b"\xff\xfe", "no UTF-8"),
        ('{"worker_id": ' + "9" * 5000 + "}", "not a JSON message"),
    ],
)
def test_a_damaged_message_is_one_line(door, text: str | bytes, why: str) -> None:
    status, said = door.post("hello", text, door.token())
    assert (status, said.count("\n")) == (400, 0)
    assert why in said
    assert len(said) <= 500


def test_an_unknown_call_names_those_there_are(door) -> None:
    status, said = door.post("drop", "{}", door.token())
    assert (status, said) == (400, "no call named 'drop'; there are hello, lease, renew, complete, fetch")


def test_a_huge_message_is_not_read_to_its_end(door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_app, "MOST_BYTES", 1000)
    secret, sent = door.token(), []

    def parts():
        for _ in range(50):
            sent.append(1)
            yield b"x" * 100

    said = door.client.post("/v1/hello", content=parts(), headers={"Authorization": f"Bearer {secret}"})
    assert (said.status_code, said.text) == (
        413,
        "a message of more than 1000 bytes; send fewer lines at once",
    )


def test_too_many_attempts_in_one_message(door, agent) -> None:
    secret = door.token()
    epoch = door.caller(secret).hello(Hello("w", agent.device, ("twin",), catalog.digest())).epoch
    many = tuple(str(number) for number in range(4097))
    status, said = door.post("renew", codec.canonical(Renew("w", epoch, (), many)), secret)
    assert (status, said) == (
        400,
        "4097 attempts in one message, 4096 are the most; send fewer at once",
    )


def test_names_with_sql_in_them_are_names(door, agent, database: Database) -> None:
    device = replace(agent.device, slug="cpu-test-x", name="'; DROP TABLE job; --", uuid="\"' --")
    caller = door.caller(door.token())
    welcome = caller.hello(Hello("'; DELETE FROM job; --", device, ("twin",), catalog.digest()))
    assert welcome.accepted
    assert caller.renew(Renew("'; DELETE FROM job; --", welcome.epoch, ("') OR 1=1 --",))).dropped == (
        "') OR 1=1 --",
    )
    with database.reading() as s:
        assert len(jobs_of(s, 1)) == 6


def test_calls_beyond_the_rate_wait(door, agent, clock) -> None:
    secret, other = door.token(), door.token("other")
    statuses = [door.post("hello", hello_text(agent.device), secret)[0] for _ in range(101)]
    assert statuses == [200] * 100 + [429]
    assert door.post("hello", hello_text(agent.device), other)[0] == 200  # its neighbour has its own
    clock.now += 0.1
    assert door.post("hello", hello_text(agent.device), secret)[0] == 200


def test_another_head_ends_the_gateway(door, agent, database: Database) -> None:
    secret = door.token()
    caller = door.caller(secret)
    epoch = caller.hello(Hello("w", agent.device, ("twin",), catalog.digest())).epoch
    with database.writing() as s:
        raise_epoch(s, 99)
    status, said = door.post("lease", codec.canonical(Ask("w", epoch, 1)), secret)
    assert status == 503
    assert "another coordinator is in charge" in said
    assert door.superseded == [said]


def test_answers_are_json(door, agent) -> None:
    secret = door.token()
    said = door.client.post(
        "/v1/hello", content=hello_text(agent.device), headers={"Authorization": f"Bearer {secret}"}
    )
    assert said.headers["content-type"] == "application/json"
    assert json.loads(said.text)["Welcome"]["accepted"] is True


def test_workers_wait_while_the_database_is_in_trouble(
    door, agent, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk is no fault of the worker's: 503 says that it is to ask again, 400 would end it."""
    caller = door.caller(secret := door.token())
    epoch = caller.hello(Hello("w", agent.device, ("twin",), catalog.digest())).epoch

    async def full(message: Ask) -> None:
        raise DatabaseTrouble("farm.db: database or disk is full")

    with monkeypatch.context() as trouble:
        trouble.setattr(coordinator, "answer_apart", full)
        headers = {"Authorization": f"Bearer {secret}"}
        said = door.client.post("/v1/lease", content=codec.canonical(Ask("w", epoch, 1)), headers=headers)
    assert (said.status_code, said.text) == (503, "farm.db: database or disk is full")
    assert said.headers["retry-after"] == "1"
    assert len(caller.lease(Ask("w", epoch, 1)).leases) == 1
    assert door.superseded == []


def test_refusals_are_logged_once_a_second_and_without_their_tokens(
    door, agent, clock: Clock, tmp_path: Path
) -> None:
    stranger = f"{token.PREFIX}{'s' * 43}"
    scoped = door.token("elsewhere", devices="rtx-*")
    with writing_to("tried", folder=tmp_path) as path:
        clock.now += 1
        for _ in range(5):
            assert door.post("lease", "{}", stranger)[0] == 401
        clock.now += 1
        assert door.post("hello", hello_text(agent.device), scoped)[0] == 403
        assert door.post("x" * 99, "{}", "short-secret")[0] == 401
        clock.now += 1
        assert door.post("x" * 99, "{}", "short-secret")[0] == 401
    text = path.read_text(encoding="utf8")
    told = [json.loads(line) for line in text.splitlines()]
    assert [(line["status"], line["times"]) for line in told] == [(401, 1), (403, 5), (401, 2)]
    assert [line["call"] for line in told] == ["lease", "hello", "x" * 40]
    assert "isn't covered by this token" in told[1]["reason"]
    for secret in (stranger, scoped, "short-secret"):
        assert secret not in text


def test_a_token_has_so_many_workers_at_a_time(
    door, agent, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "MOST_WORKERS", 3)
    secret, other = door.token(), door.token("other", devices=agent.device.slug)
    hellos = [hello_text(agent.device, name) for name in "abcd"]
    assert [door.post("hello", text, secret)[0] for text in hellos] == [200, 200, 200, 403]
    assert door.post("hello", hellos[3], secret)[1] == (
        "3 workers speak with this token, and that is the most; "
        "end some and wait 120 s, or farm token new makes another token"
    )
    assert door.post("hello", hellos[0], secret)[0] == 200  # one of them
    assert door.post("hello", hellos[3], other)[0] == 200
    clock.now += 119.0
    assert door.post("hello", hellos[0], secret)[0] == 200
    clock.now += 2.0
    assert door.post("hello", hello_text(agent.device, "e"), secret)[0] == 200
    with pytest.raises(StaleEpoch, match="say hello"):
        door.caller(secret).lease(Ask("b", 1, 1))


def test_workers_that_were_not_taken_in_are_not_counted(door, agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MOST_WORKERS", 2)
    secret = door.token()
    for _ in range(4):
        refused = Hello(str(uuid.uuid4()), agent.device, ("twin",), "another catalog")
        assert not door.caller(secret).hello(refused).accepted
    assert door.post("hello", hello_text(agent.device), secret)[0] == 200


def test_a_hello_of_half_a_mebibyte_is_refused(door, agent) -> None:
    hello = Hello("w", agent.device, ("twin",), catalog.digest(), files=("f" * 1000,) * 600)
    status, said = door.post("hello", codec.canonical(hello), door.token())
    assert (status, said.endswith("bytes, 524288 are the most; hold fewer files")) == (400, True)


def test_calls_that_wait_for_the_writer_keep_no_other_waiting(door, agent, coordinator: Coordinator) -> None:
    """A thread each is what they had, and there are forty."""
    headers, released = {"Authorization": f"Bearer {door.token()}"}, threading.Event()
    transport = httpx2.ASGITransport(app=door.client.app)

    async def story() -> list[int]:
        async with httpx2.AsyncClient(transport=transport, base_url="http://farm", headers=headers) as client:
            epoch = json.loads((await client.post("/v1/hello", content=hello_text(agent.device, "w"))).text)
            renew = codec.canonical(Renew("w", epoch["Welcome"]["epoch"], ()))
            coordinator._writer.put(lambda s: released.wait(60))
            texts = [hello_text(agent.device) for _ in range(60)]
            calls = [asyncio.create_task(client.post("/v1/hello", content=text)) for text in texts]
            async with asyncio.timeout(30):
                while coordinator._writer.waiting < 60:
                    await asyncio.sleep(0.01)
            statuses = [(await client.post("/v1/renew", content=renew)).status_code]
            assert not any(call.done() for call in calls)
            released.set()
            return statuses + [said.status_code for said in await asyncio.gather(*calls)]

    try:
        assert asyncio.run(story()) == [200] * 61
    finally:
        released.set()
