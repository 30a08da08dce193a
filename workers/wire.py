"""Messages between an agent and its child over a socket: a length, then JSON."""

from __future__ import annotations

import json
import select
import socket
import struct
import time
from typing import Any, Generic, TypeVar

from kernels import codec

T = TypeVar("T")

LENGTH = struct.Struct("!I")
MAX_BYTES = 64 << 20  # a longer message is a child gone wild, not evidence
CHUNK_BYTES = 1 << 20


class Closed(Exception):
    """The other end is gone, or says what is no message."""


class Channel(Generic[T]):
    """One end of a socket, from which values of one type arrive."""

    def __init__(self, sock: socket.socket, receives: type[T]) -> None:
        self._sock = sock
        self._receives = receives
        self._arrived = bytearray()

    def send(self, message: Any) -> None:
        """Sends one value as canonical JSON; raises Closed when nobody is there to take it."""
        data = codec.canonical(message).encode("ascii")
        try:
            self._sock.sendall(LENGTH.pack(len(data)) + data)
        except OSError as error:
            raise Closed(str(error)) from None

    def receive(self, until: float | None = None) -> T | None:
        """The next message, or None at the time `until` (of time.monotonic); raises Closed at the end.

        What has arrived of a message by then is kept for the next call.
        """
        while (body := self._message()) is None:
            left = None if until is None else max(0.0, until - time.monotonic())
            if not select.select([self._sock], [], [], left)[0]:
                return None
            self._arrived += self._some()
        try:
            return codec.decode(self._receives, json.loads(body))
        except (ValueError, codec.CodecError) as error:
            raise Closed(f"not a message: {error}") from None

    def close(self) -> None:
        self._sock.close()

    def _message(self) -> bytes | None:
        """Takes one whole message from what has arrived."""
        if len(self._arrived) < LENGTH.size:
            return None
        (length,) = LENGTH.unpack_from(self._arrived)
        if length > MAX_BYTES:
            raise Closed(f"a message of {length} bytes, the most is {MAX_BYTES}")
        end = LENGTH.size + length
        if len(self._arrived) < end:
            return None
        body = bytes(self._arrived[LENGTH.size : end])
        del self._arrived[:end]
        return body

    def _some(self) -> bytes:
        try:
            part = self._sock.recv(CHUNK_BYTES)
        except OSError as error:
            raise Closed(str(error)) from None
        if not part:
            raise Closed("the other end is closed")
        return part
