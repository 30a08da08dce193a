"""A farm of hosts that are network namespaces, and a stranger among them who tries every port of the head."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import trustme

from db.campaign import campaigns
from db.device import devices
from db.session import open_existing
from db.tables import attempt, evidence
from db.token import PREFIX
from farm.cluster import ray_ports
from tests.deploy.network import Network, network

HOSTS = ("head", "ray-a", "ray-b", "pull-a", "pull-b", "revoked", "stranger")
WAIT_S = 180.0
RAY, GATEWAY = 6379, 8443
# Boards whose attempts ended well, and by which road their lines came.
WORKED = (
    sa.select(attempt.c.device, evidence.c.trust)
    .join_from(evidence, attempt)
    .where(attempt.c.state == "done", evidence.c.verdict == "PASS")
    .distinct()
)

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(900)]


@dataclass
class Seen:
    """What happened, seen from outside."""

    network: Network
    said: dict[str, subprocess.CompletedProcess[str]] = field(default_factory=dict)
    scan: dict[str, Any] = field(default_factory=dict)  # of the head, before anything ran
    open: dict[str, set[int]] = field(default_factory=dict)  # ports by host, when agents had worked

    def farm(self, step: str, *words: str) -> str:
        self.said[step] = self.network.run("head", "farm", *words)
        return self.said[step].stdout


def wait_for(log: Path, words: str, times: int = 1) -> None:
    until = time.monotonic() + WAIT_S
    while (text := log.read_text(errors="replace")).count(words) < times:
        assert time.monotonic() < until, f"not within {WAIT_S:g} s: {words!r} in {log}:\n{text}"
        time.sleep(0.5)


def certify(hosts: Network) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert(hosts.address("head"))
    issued.private_key_pem.write_to_path(str(hosts.folder / "key.pem"))
    for i, blob in enumerate(issued.cert_chain_pems):
        blob.write_to_path(str(hosts.folder / "cert.pem"), append=i > 0)
    authority.cert_pem.write_to_path(str(hosts.folder / "ca.pem"))


def put(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    with network(tmp_path_factory.mktemp("hosts"), *HOSTS) as hosts:
        seen = Seen(hosts)
        certify(hosts)
        start_head(seen)
        start_workers(seen)
        intrude(seen)
        # All five have passed their exam, and there is enough for each.
        wait_for(hosts.home("head") / ".farm/log/coordinator.jsonl", '"exam passed"', times=5)
        seeds = [word for seed in range(8) for word in ("--seed", str(seed))]
        words = ("submit", "--op", "silu_mul", "--op", "rmsnorm", *seeds, "--backend", "twin", "--json")
        seen.farm("submit", *words)
        seen.open = {name: hosts.listening(name) for name in ("head", "ray-a")}
        yield seen


def start_head(seen: Seen) -> None:
    hosts, address = seen.network, seen.network.address("head")
    door = ("--gateway", f"{address}:{GATEWAY}", "--cert", "../cert.pem", "--key", "../key.pem")
    words = ("farm", "up", "--foreground", "--host", address, "--port", str(RAY), "--backend", "twin", *door)
    wait_for(hosts.start("head", *words), "gateway at https://")


def start_workers(seen: Seen) -> None:
    hosts, head = seen.network, seen.network.address("head")
    url = f"https://{head}:{GATEWAY}"
    ray_token = (hosts.home("head") / ".farm/token").read_text()
    logs = []
    for name in ("ray-a", "ray-b"):
        token = put(hosts.home(name) / "token", ray_token)
        words = (f"{head}:{RAY}", "--token-file", token, "--host", hosts.address(name))
        logs.append((hosts.start(name, "farm", "join", *words), "joined"))
    for name in ("pull-a", "pull-b", "revoked"):
        token = put(hosts.home(name) / "token", seen.farm(f"token {name}", "token", "new", name))
        words = ("workers", "pull", url, "--token-file", token, "--ca", "../ca.pem", "--backend", "twin")
        if name == "revoked":
            seen.farm("revoke", "token", "revoke", name)
            seen.said["revoked"] = hosts.run(name, *words)
        else:
            logs.append((hosts.start(name, *words), "at work for"))
    for log, word in logs:
        wait_for(log, word)


def intrude(seen: Seen) -> None:
    hosts, head = seen.network, seen.network.address("head")
    scan = hosts.run("stranger", "tests.deploy.stranger", head)
    assert scan.returncode == 0, scan.stderr
    seen.scan = json.loads(scan.stdout)
    (hosts.folder / "scan.json").write_text(scan.stdout)
    guess = put(hosts.home("stranger") / "token", "0" * 64)
    words = (f"{head}:{RAY}", "--token-file", guess, "--host", hosts.address("stranger"))
    seen.said["guessed Ray"] = hosts.run("stranger", "farm", "join", *words)
    guess = put(hosts.home("stranger") / "worker", f"{PREFIX}{'A' * 43}\n")
    pull = ("workers", "pull", f"https://{head}:{GATEWAY}", "--token-file", guess, "--ca", "../ca.pem")
    seen.said["guessed gateway"] = hosts.run("stranger", *pull, "--backend", "twin")


def test_the_campaign_completes(seen: Seen) -> None:
    said = seen.said["submit"]
    assert said.returncode == 0, said.stderr
    assert set(json.loads(said.stdout)["verdicts"]) == {"PASS"}
    with open_existing(f"sqlite:///{seen.network.home('head')}/.farm/farm.db").reading() as s:
        (row,) = campaigns(s)
        known = {each.device.slug for each in devices(s)}
        worked = s.execute(WORKED).all()
    assert (row.is_open, row.bad, row.done == row.jobs > 0) == (False, 0, True)
    assert len(known) == 5, known  # the head, two nodes of Ray, two workers at the gateway; nobody else
    assert {slug for slug, _ in worked} == known, worked
    assert sorted(trust for _, trust in worked) == ["own"] * 3 + ["rented"] * 2, worked


def test_a_revoked_token_lets_nobody_in(seen: Seen) -> None:
    said = seen.said["revoked"]
    assert (said.returncode, "the token is revoked" in said.stderr) == (1, True), said.stderr


def test_a_stranger_who_guesses_gets_nothing(seen: Seen) -> None:
    for step, why in (("guessed Ray", "refuses the token in"), ("guessed gateway", "the token is unknown")):
        said = seen.said[step]
        assert (said.returncode, why in said.stderr) == (1, True), said.stderr


def test_a_stranger_who_tries_every_port_hears_nothing(seen: Seen) -> None:
    assert seen.scan["heard"][f"{GATEWAY}"] == ""
    assert seen.scan["heard"][f"{GATEWAY} tls"].startswith("HTTP/1.1 401 ")
    secret = (seen.network.home("head") / ".farm/token").read_text().strip()
    for port, heard in seen.scan["heard"].items():
        assert secret not in heard, port
        assert not re.search(r"HTTP/1\.\d 2\d\d|silu_mul|rmsnorm", heard), (port, heard[:300])


def test_the_ports_that_a_head_told_are_all_that_it_opened(seen: Seen) -> None:
    head = json.loads((seen.network.home("head") / ".farm/head.json").read_text())
    told = (seen.network.home("head") / "log").read_text()
    assert f"ports {ray_ports.told(head['ports'])}; only with the token" in told
    for found in (set(seen.scan["open"]), seen.open["head"]):
        assert {RAY, GATEWAY} < found <= {GATEWAY, *head["ports"], *ray_ports.WORKER_PORTS}
    assert GATEWAY not in head["ports"]


def test_the_ports_that_a_node_told_are_all_that_it_opened(seen: Seen) -> None:
    log = (seen.network.home("ray-a") / "log").read_text()
    (told,) = re.findall(r"Ray listens on every interface here, ports ([0-9, ]+) and", log)
    own = set(map(int, told.split(", ")))
    assert own <= set(ray_ports.NODE_PORTS)
    assert len(own) == len(ray_ports.OPTIONS)
    assert own < seen.open["ray-a"] <= {*own, *ray_ports.WORKER_PORTS}
