"""The few bytes of HTTP/2 that ask a gRPC server for a call, and those that say how it ended."""

from __future__ import annotations

import re
import socket
import struct

DATA, HEADERS, SETTINGS = 0, 1, 4
END_STREAM, END_HEADERS = 1, 4
UNAUTHENTICATED = 16


def grpc_status(address: str, port: int, path: str, token: str) -> int | None:
    """The status of an empty call, with a token or (empty) without; None where no gRPC server answers."""
    headers = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "localhost"),
               ("content-type", "application/grpc"), ("te", "trailers")]  # fmt: skip
    headers += [("authorization", f"Bearer {token}")] if token else []
    block = b"".join(b"\0" + _literal(name) + _literal(value) for name, value in headers)
    call = (
        _frame(SETTINGS, 0, 0, b"")
        + _frame(HEADERS, END_HEADERS, 1, block)
        + _frame(DATA, END_STREAM, 1, b"\0" * 5)
    )
    answer = _exchange(address, port, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + call, b"grpc-status")
    found = re.search(rb"grpc-status[\x01\x02](\d+)", answer)
    return int(found[1]) if found else None


def http_status(address: str, port: int, path: str, token: str) -> int | None:
    """The status of a plain HTTP POST; None where no HTTP server answers."""
    bearer = f"authorization: Bearer {token}\r\n" if token else ""
    text = f"POST {path} HTTP/1.1\r\nhost: localhost\r\n{bearer}content-length: 0\r\n\r\n"
    found = re.match(rb"HTTP/1\.1 (\d+)", _exchange(address, port, text.encode(), b"\r\n\r\n"))
    return int(found[1]) if found else None


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def _literal(text: str) -> bytes:
    return bytes([len(text)]) + text.encode("ascii")


def _exchange(address: str, port: int, sent: bytes, until: bytes) -> bytes:
    """What comes back, up to a little behind `until` or the end."""
    answer = b""
    try:
        with socket.create_connection((address, port), timeout=5) as connection:
            connection.sendall(sent)
            while until not in answer or answer.endswith(until):
                part = connection.recv(65536)
                if not part:
                    break
                answer += part
    except OSError:
        return answer
    return answer
