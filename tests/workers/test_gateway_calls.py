"""What a worker makes of a token file, an address, and a gateway's answers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from kernels.errors import FarmError, UsageError
from workers.gateway_calls import carrier, demand_https, read_token
from workers.protocol import Unreachable


class Scripted(BaseHTTPRequestHandler):
    """Answers every call with what the server object says."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.path, self.headers["Authorization"], body))
        status, text = self.server.answer
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        if status == 302:
            self.send_header("Location", "http://192.0.2.1/steal")
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    with HTTPServer(("127.0.0.1", 0), Scripted) as server:
        server.seen = []
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def address(server: HTTPServer) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}"


def test_a_call_is_a_post_with_the_token(server: HTTPServer) -> None:
    server.answer = (200, b'{"a": 1}')
    assert carrier(address(server) + "/", "farm_s")("lease", "{}") == '{"a": 1}'
    assert server.seen == [("/v1/lease", "Bearer farm_s", b"{}")]


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_an_answer_that_passes_is_waited_out(server: HTTPServer, status: int) -> None:
    server.answer = (status, b"later")
    with pytest.raises(Unreachable, match="later"):
        carrier(address(server), "farm_s")("lease", "{}")


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (401, "refuses this worker: no"),
        (403, "refuses this worker: no"),
        (400, r"can't answer lease \(400\): no"),
        (302, r"can't answer lease \(302\): no"),  # a token is never sent on
        (500, r"can't answer lease \(500\): no"),
    ],
)
def test_a_refusal_is_final(server: HTTPServer, status: int, why: str) -> None:
    server.answer = (status, b"no")
    with pytest.raises(FarmError, match=why) as error:
        carrier(address(server), "farm_s")("lease", "{}")
    assert not isinstance(error.value, Unreachable)
    assert len(server.seen) == 1


def test_nobody_there_is_unreachable() -> None:
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:9"):
        carrier("http://127.0.0.1:9", "farm_s")("lease", "{}")


@contextmanager
def answering(reply: bytes) -> Iterator[str]:
    """Something that hears the first words of every client, says its own and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    heard, _ = listener.accept()
                    with heard:
                        heard.recv(1 << 16)
                        heard.sendall(reply)
                        heard.shutdown(socket.SHUT_WR)
                        heard.recv(1 << 16)

        threading.Thread(target=serve, daemon=True).start()
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def test_a_gateway_that_is_killed_while_keys_are_exchanged_is_waited_for() -> None:
    with answering(b"") as url, pytest.raises(Unreachable, match="EOF"):
        carrier(url, "farm_s")("lease", "{}")


def test_who_speaks_no_tls_is_not_waited_for() -> None:
    with (
        answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as url,
        pytest.raises(FarmError, match="is that the gateway's port") as error,
    ):
        carrier(url, "farm_s")("lease", "{}")
    assert not isinstance(error.value, Unreachable)


@pytest.mark.parametrize("url", ["http://10.0.0.1:1", "http://farm.example", "http://127.0.0.1.example"])
def test_a_token_never_crosses_a_network_unencrypted(url: str) -> None:
    with pytest.raises(UsageError, match="would send the token unencrypted"):
        demand_https(url)


@pytest.mark.parametrize("url", ["", "farm", "ftp://x", "https://", "10.0.0.1:8443"])
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(UsageError, match="is no gateway's address; want https://HOST:PORT"):
        demand_https(url)


def test_a_token_file_is_its_owners(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("farm_secret\n")
    path.chmod(0o600)
    assert read_token(path) == "farm_secret"
    path.chmod(0o640)
    with pytest.raises(FarmError, match=r"has mode 640 and can be read by others; chmod 600"):
        read_token(path)


@pytest.mark.parametrize("content", [b"", b"\n", b"two words", b"\xff\xfe", "farm_ä".encode()])
def test_what_is_no_token(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(FarmError, match=r"holds no token|not a text file"):
        read_token(path)


def test_a_token_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FarmError, match="No such file"):
        read_token(tmp_path / "nowhere")
