"""wireguard.sh: keys that only their machine has, numbers that nobody shares."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from farm.cluster.ray_ports import NODE_PORTS, WORKER_PORTS
from tests.deploy.tools import DEPLOY, said

pytestmark = pytest.mark.skipif(
    shutil.which("wg") is None, reason="no wg here (Debian, Ubuntu: apt-get install wireguard-tools)"
)
Wireguard = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def wireguard(tmp_path: Path) -> Wireguard:
    return lambda *words: said(DEPLOY / "wireguard.sh", *words, FARM_WIREGUARD=str(tmp_path / "net"))


def value(text: str, name: str) -> list[str]:
    return [line.partition(" = ")[2] for line in text.splitlines() if line.startswith(f"{name} = ")]


def test_a_peer_and_the_head_know_each_others_public_keys(wireguard: Wireguard, tmp_path: Path) -> None:
    assert wireguard("head", "203.0.113.7").returncode == 0
    peer = wireguard("peer", "bench").stdout
    head = (tmp_path / "net/farm.conf").read_text()

    def public(private: str) -> str:
        return said("wg", "pubkey", stdin=private).stdout.strip()

    assert value(head, "PublicKey") == [public(value(peer, "PrivateKey")[0])]
    assert value(peer, "PublicKey") == [public(value(head, "PrivateKey")[0])]
    assert value(peer, "Endpoint") == ["203.0.113.7:51820"]
    assert (value(peer, "Address"), value(head, "AllowedIPs")) == (["10.66.0.2/24"], ["10.66.0.2/32"])
    files = [*(tmp_path / "net").iterdir(), tmp_path / "net"]
    assert {path.stat().st_mode & 0o077 for path in files} == {0}
    assert value(peer, "PrivateKey")[0] not in "".join(path.read_text() for path in files[:-1])


def test_numbers_are_given_again_only_when_forgotten(wireguard: Wireguard) -> None:
    wireguard("head", "farm.example:5000")
    addresses = [value(wireguard("peer", name).stdout, "Address") for name in ("a", "b")]
    assert wireguard("forget", "a").returncode == 0
    addresses.append(value(wireguard("peer", "c").stdout, "Address"))
    assert addresses == [["10.66.0.2/24"], ["10.66.0.3/24"], ["10.66.0.2/24"]]


def test_the_firewall_closes_rays_ports_and_no_other(wireguard: Wireguard, tmp_path: Path) -> None:
    rules = wireguard("firewall", "6400").stdout
    closed = [line.split(" dport ")[1].split()[0] for line in rules.splitlines() if " dport " in line]
    assert closed == ["6400", f"{NODE_PORTS[0]}-{WORKER_PORTS[-1]}"]
    assert NODE_PORTS[-1] + 1 == WORKER_PORTS[0]
    assert not (tmp_path / "net").exists()


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        ((), 2, "want head HOST"),
        (("peer", "x"), 1, "no network in"),
        (("head", "a b"), 2, "want letters"),
        (("head", "h:12x"), 2, "is no HOST or HOST:PORT"),
        (("peer", "../x"), 2, "want letters"),
        (("firewall", "ray"), 2, "'ray' is no port"),
        (("firewall", "65536"), 2, "'65536' is no port"),
    ],
)
def test_bad_words_are_one_line(wireguard: Wireguard, words: tuple[str, ...], code: int, why: str) -> None:
    found = wireguard(*words)
    assert (found.returncode, found.stderr.count("\n")) == (code, 1)
    assert why in found.stderr
