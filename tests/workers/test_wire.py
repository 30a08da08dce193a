"""Messages over a socket: whole ones only, in order, and nothing that isn't one."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from workers.request import Answer
from workers.wire import LENGTH, MAX_BYTES, Channel, Closed

Ends = tuple[Channel[Answer], socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Channel(ours, Answer), theirs


def test_messages_arrive_in_order(ends: Ends) -> None:
    here, there = ends
    for number in range(3):
        Channel(there, Answer).send(Answer(f"id-{number}", "launch"))
    received = [here.receive() for _ in range(3)]
    assert received == [Answer(f"id-{number}", "launch") for number in range(3)]


def test_half_a_message_is_kept_until_the_rest_arrives(ends: Ends) -> None:
    here, there = ends
    data = b'{"evidence_id":"a","phase":"launch"}'
    whole = LENGTH.pack(len(data)) + data
    for part in (whole[:2], whole[2:9]):
        there.sendall(part)
        assert here.receive(time.monotonic()) is None
    there.sendall(whole[9:])
    assert here.receive() == Answer("a", "launch")


@pytest.mark.parametrize(
    "data", [b"hello", b"\xff\xff", b"[]", b'{"evidence_id":1}', b'{"evidence_id":"a","rm":"-rf"}']
)
def test_what_is_no_message_closes_the_channel(ends: Ends, data: bytes) -> None:
    here, there = ends
    there.sendall(LENGTH.pack(len(data)) + data)
    with pytest.raises(Closed, match="not a message"):
        here.receive()


def test_message_over_the_limit_closes_the_channel(ends: Ends) -> None:
    here, there = ends
    there.sendall(LENGTH.pack(MAX_BYTES + 1))
    with pytest.raises(Closed, match="the most is"):
        here.receive()


def test_end_of_the_other_side_is_told(ends: Ends) -> None:
    here, there = ends
    there.close()
    with pytest.raises(Closed):
        here.receive()
    with pytest.raises(Closed):
        here.send(Answer("a"))
