"""A gateway with a certificate of its own, and `python -m workers pull` against it, as processes."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme

from db import trust
from db.campaign import campaigns
from db.epoch import raise_epoch
from db.session import Database, open_existing
from farm.coordinator import Coordinator
from farm.gateway import server
from farm.gateway.place import Place
from farm.gateway.server import listening
from kernels.errors import FarmError
from workers.protocol import StaleEpoch

ROOT = Path(__file__).parents[3]
START_S = 60.0


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("tls")
    names = {name: str(folder / f"{name}.pem") for name in ("ca", "cert", "key", "other")}
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1", "localhost")
    authority.cert_pem.write_to_path(names["ca"])
    issued.private_key_pem.write_to_path(names["key"])
    for i, blob in enumerate(issued.cert_chain_pems):
        blob.write_to_path(names["cert"], append=i > 0)
    trustme.CA().cert_pem.write_to_path(names["other"])
    return names


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs `python -m WORDS…` in a folder of its own."""

    def call(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        env = os.environ | {"PYTHONPATH": str(ROOT)} | environment
        command = [sys.executable, "-m", *words]
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)

    return call


@pytest.fixture
def gateway(
    tmp_path: Path, run: Run, certificates: dict[str, str]
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Its address and its process, with two jobs waiting and a token in `bench.token`."""
    made = run("farm", "token", "new", "bench")
    assert made.returncode == 0, made.stderr
    token = tmp_path / "bench.token"
    token.write_text(made.stdout)
    token.chmod(0o600)
    words = ("--port", "0", "--cert", certificates["cert"], "--key", certificates["key"])
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-m", "farm", "gateway", *words],
        cwd=tmp_path,
        env=env,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert "gateway at https://127.0.0.1:" in line, line
        try:
            yield line.split()[3].rstrip(","), process
        finally:
            process.kill()


def test_a_worker_works_over_https_and_the_gateway_ends_cleanly(
    gateway: tuple[str, subprocess.Popen[str]], run: Run, certificates: dict[str, str], tmp_path: Path
) -> None:
    address, process = gateway
    words = ("--kernel", "silu_mul/flat", "--shape", "100", "--backend", "twin", "--detach")
    assert run("farm", "submit", *words).returncode == 0
    pull = ("workers", "pull", address, "--token-file", "bench.token", "--backend", "twin", "--drain")
    worked = run(*pull, "--ca", certificates["ca"])
    assert worked.returncode == 0, worked.stderr
    assert worked.stderr.startswith("workers: at work for cpu-")
    assert worked.stderr.endswith("\nworkers: 5 cases ran\n")  # three of them an exam
    with open_existing(f"sqlite:///{tmp_path}/.farm/farm.db").reading() as s:
        assert [(row.is_open, row.done, row.bad) for row in campaigns(s)] == [(False, 2, 0)]
    stranger = run(*pull, "--ca", certificates["other"])
    assert stranger.returncode == 1
    assert "the certificate isn't trusted" in stranger.stderr
    assert "Traceback" not in stranger.stderr
    run("farm", "token", "revoke", "bench")
    refused = run(*pull, "--ca", certificates["ca"])
    assert (refused.returncode, "the token is revoked" in refused.stderr) == (1, True)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 0


def test_a_gateway_that_is_away_is_waited_for(
    gateway: tuple[str, subprocess.Popen[str]], certificates: dict[str, str], tmp_path: Path
) -> None:
    """SIGTERM ends a worker whose gateway is gone; what it was doing is told in one line."""
    address, process = gateway
    process.kill()
    process.wait()
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    pull = ("pull", address, "--token-file", "bench.token", "--backend", "twin", "--ca", certificates["ca"])
    with subprocess.Popen(
        [sys.executable, "-m", "workers", *pull], cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stderr is not None
        assert worker.stderr.readline().startswith("workers: at work for cpu-")
        worker.terminate()
        _, said = worker.communicate(timeout=60)
    assert worker.returncode == 0
    assert said == "workers: ends when the running cases have ended\nworkers: 0 cases ran\n"


def test_plain_text_on_the_tls_port_gets_nothing(gateway: tuple[str, subprocess.Popen[str]]) -> None:
    port = int(gateway[0].rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=10) as plain:
        plain.sendall(b"POST /v1/hello HTTP/1.1\r\nHost: x\r\n\r\n")
        assert plain.recv(100) == b""
    context = ssl.create_default_context()
    with pytest.raises(ssl.SSLCertVerificationError), socket.create_connection(("127.0.0.1", port)) as raw:
        context.wrap_socket(raw, server_hostname="127.0.0.1")


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("--host", "192.0.2.1"), 2, "192.0.2.1 is no loopback address"),
        (("--cert", "x.pem"), 2, "--cert and --key go together"),
        (("--cert", "x.pem", "--key", "y.pem"), 1, "x.pem: no such file"),
        (("--host", "192.0.2.1", "--behind-proxy"), 1, "can't listen on 192.0.2.1:8443"),
        (("--port", "70000"), 2, "70000"),
    ],
)
def test_bad_words_are_one_line(farm, words: tuple[str, ...], code: int, why: str) -> None:
    said = farm("gateway", *words)
    assert said.exit_code == code
    assert why in said.stderr
    assert said.stderr.count("\n") == 1


class Server:
    """Notes when it is asked to end."""

    def __init__(self) -> None:
        self.asked = threading.Event()

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name == "should_exit":
            self.asked.set()


def test_while_nobody_calls_a_gateway_sees_who_was_set_aside_and_who_took_over(
    agent, coordinator: Coordinator, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "REAP_S", 0.01)
    heard, tick = threading.Event(), coordinator.tick
    agent.hello()
    monkeypatch.setattr(coordinator, "tick", lambda: (tick(), heard.set()))
    with database.writing() as s:
        trust.set_aside(s, agent.device.slug, "by hand", 9)
    stub, ended = Server(), []
    with server.reaping(coordinator, stub, ended):  # all that it does to a server
        assert heard.wait(60)
        with pytest.raises(StaleEpoch):
            agent.ask()
        with database.writing() as s:
            raise_epoch(s, 9)
        assert stub.asked.wait(60)
    assert "another coordinator is in charge" in ended[0]


def test_a_taken_port_is_named() -> None:
    with listening(Place("127.0.0.1", 0)) as first:
        port = first.getsockname()[1]
        with (
            pytest.raises(FarmError, match=f"can't listen on 127.0.0.1:{port}: "),
            listening(Place("127.0.0.1", port)),
        ):
            pass
