"""A farm across WireGuard as docs/DEPLOY.md has it: a stranger outside, a tunnel that is lost for a while."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from db.campaign import campaigns
from db.session import open_existing
from farm.cluster import ray_ports
from tests.deploy.network import ROOT, Network, network
from tests.deploy.test_hosts import RAY, WORKED, put, wait_for

HOSTS = ("head", "bench", "attic", "stranger")
INSIDE = {"head": "10.66.0.1", "bench": "10.66.0.2", "attic": "10.66.0.3"}
PUBLIC = "9.9.9.9"  # on the head's loopback: nothing is sent there
SCRIPT = str(ROOT / "deploy/wireguard.sh")
PROGRAMS = {"wg-quick": "wireguard-tools", "nft": "nftables", "sysctl": "procps"}

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(600)]


@dataclass
class Seen:
    """What happened, seen from outside."""

    network: Network
    said: dict[str, subprocess.CompletedProcess[str]] = field(default_factory=dict)
    open: dict[str, list[int]] = field(default_factory=dict)  # Ray's ports that a stranger found, by address

    def farm(self, step: str, *words: str) -> str:
        self.said[step] = self.network.run("head", "farm", *words)
        return self.said[step].stdout

    def do(self, name: str, *words: str) -> str:
        done = self.network.call(name, *words)
        assert done.returncode == 0, (name, words, done.stderr)
        return done.stdout


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    for program, package in PROGRAMS.items():
        if shutil.which(program) is None:
            pytest.skip(f"no {program} here, so no tunnel (Debian, Ubuntu: apt-get install {package})")
    with network(tmp_path_factory.mktemp("tunnel"), *HOSTS) as hosts:
        seen = Seen(hosts)
        demand_wireguard(hosts)
        try:
            dig(seen)
            start(seen)
            intrude(seen)
            work(seen)
            lose_a_tunnel(seen)
        finally:
            if (hosts.home("head") / ".farm/head.json").exists():
                seen.farm("cleanup", "down")
            for name in INSIDE:
                hosts.call(name, "ip", "link", "delete", "farm")  # its daemon ends with it
        yield seen


def demand_wireguard(hosts: Network) -> None:
    """The kernel's own, or the daemon that stands in for it."""
    if hosts.call("stranger", "ip", "link", "add", "probe", "type", "wireguard").returncode == 0:
        return
    if shutil.which("wireguard-go") is None or not Path("/dev/net/tun").exists():
        pytest.skip(
            "no WireGuard in this kernel, and no /dev/net/tun or wireguard-go (apt-get install wireguard-go)"
        )


def dig(seen: Seen) -> None:
    """Keys, configurations and tunnels; a public address on the head, and the rules that it then wants."""
    hosts = seen.network
    for name in HOSTS:
        for folder in ("run", "etc/wireguard"):
            (hosts.home(name) / "root" / folder).mkdir(parents=True)
    seen.do("head", SCRIPT, "head", hosts.address("head"))
    for name in ("bench", "attic"):
        put(hosts.home(name) / "root/etc/wireguard/farm.conf", seen.do("head", SCRIPT, "peer", name))
    seen.do("head", "wg-quick", "up", ".farm/wireguard/farm.conf")
    seen.do("head", "sysctl", "-w", "net.ipv4.ip_forward=1")
    for name in ("bench", "attic"):
        seen.do(name, "wg-quick", "up", "farm")
    seen.do("head", "ip", "address", "add", f"{PUBLIC}/32", "dev", "lo")
    seen.farm("without a firewall", "up", "--host", INSIDE["head"])
    for name in INSIDE:
        seen.do(name, "sh", "-ec", f"{SCRIPT} firewall {RAY} | nft -f -")


def start(seen: Seen) -> None:
    hosts = seen.network
    seen.farm("up", "up", "--host", INSIDE["head"], "--firewalled", "--backend", "twin")
    token = (hosts.home("head") / ".farm/token").read_text()
    for name in ("bench", "attic"):
        put(hosts.home(name) / "head.token", token)
        words = (f"{INSIDE['head']}:{RAY}", "--token-file", "head.token", "--host", INSIDE[name])
        hosts.start(name, "farm", "join", *words)
    for name in ("bench", "attic"):
        wait_for(hosts.home(name) / "log", "joined")


def intrude(seen: Seen) -> None:
    """By the outer addresses, and by the tunnel's: a machine answers for all that it has on any interface."""
    hosts = seen.network
    seen.do("stranger", "ip", "route", "add", "10.66.0.0/24", "via", hosts.address("head"))
    ports = [str(port) for port in (RAY, *ray_ports.NODE_PORTS, *ray_ports.WORKER_PORTS)]
    for address in (*INSIDE.values(), *map(hosts.address, INSIDE)):
        scan = hosts.run("stranger", "tests.deploy.stranger", address, *ports)
        assert scan.returncode == 0, scan.stderr
        seen.open[address] = json.loads(scan.stdout)["open"]
    peer = hosts.run("bench", "tests.deploy.stranger", INSIDE["attic"], *ports)
    seen.open["attic from bench"] = json.loads(peer.stdout)["open"]


def work(seen: Seen) -> None:
    wait_for(seen.network.home("head") / ".farm/log/coordinator.jsonl", '"exam passed"', times=3)
    seen.farm("submit", "submit", "--op", "matvec", "--kind", "Q4_K", "--backend", "twin", "--json")
    seen.farm("status", "status", "--json")


def lose_a_tunnel(seen: Seen) -> None:
    """One node's, while it holds jobs, until it has given the head up; others run them, and it comes back."""
    bench = seen.network.home("bench")
    seeds = [word for seed in range(2) for word in ("--seed", str(seed))]
    words = ("submit", "--op", "matvec", "--kind", "Q4_K", *seeds, "--backend", "twin", "--detach")
    seen.farm("detach", *words)
    (log,) = (bench / ".farm/log").glob("agent-*.jsonl")
    wait_for(log, '"campaign": 2')
    seen.do("bench", "ip", "link", "set", "farm", "down")
    wait_for(bench / "log", "is gone; joins again")
    seen.do("bench", "ip", "link", "set", "farm", "up")
    seen.farm("resume", "resume", "2", "--json")
    wait_for(bench / "log", "farm: joined", times=2)
    seen.farm("check", "db", "check")
    seen.network.end()
    seen.farm("down", "down")


def test_a_head_with_a_public_address_wants_a_firewall_first(seen: Seen) -> None:
    said = seen.said["without a firewall"]
    assert (said.returncode, said.stderr.count("\n")) == (1, 1), said.stderr
    assert f"this machine's address {PUBLIC} is public" in said.stderr


def test_nodes_of_ray_reach_each_other_through_the_head(seen: Seen) -> None:
    assert len(seen.open["attic from bench"]) >= len(ray_ports.OPTIONS)


@pytest.mark.parametrize("name", INSIDE)
def test_a_stranger_reaches_no_port_of_ray(seen: Seen, name: str) -> None:
    assert seen.open[INSIDE[name]] == []
    assert seen.open[seen.network.address(name)] == []


def test_every_board_works_across_the_tunnel(seen: Seen) -> None:
    said = seen.said["submit"]
    assert said.returncode == 0, said.stderr
    assert set(json.loads(said.stdout)["verdicts"]) == {"PASS"}
    assert seen.said["status"].returncode == 0, seen.said["status"].stderr
    with open_existing(f"sqlite:///{seen.network.home('head')}/.farm/farm.db").reading() as s:
        worked = s.execute(WORKED).all()
    assert sorted(trust for _, trust in worked) == ["own"] * 3, worked


def test_a_tunnel_that_is_lost_for_a_while_loses_nothing(seen: Seen) -> None:
    said = seen.said["resume"]
    assert said.returncode == 0, said.stderr
    with open_existing(f"sqlite:///{seen.network.home('head')}/.farm/farm.db").reading() as s:
        row = next(row for row in campaigns(s) if row.id == 2)
    assert (row.is_open, row.bad, row.done == row.jobs > 0) == (False, 0, True)
    assert (seen.said["check"].returncode, "nothing is wrong" in seen.said["check"].stdout) == (0, True)
    assert seen.said["down"].returncode == 0, seen.said["down"].stderr
