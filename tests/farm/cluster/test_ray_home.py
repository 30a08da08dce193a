"""The private Ray's token, environment and ports."""

import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from farm.cluster import private, ray_home
from kernels.errors import FarmError


def test_the_token_is_secret_long_and_kept(tmp_path: Path) -> None:
    path = ray_home.token_file(tmp_path / ".farm")
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(path.read_text()) == 64
    assert ray_home.token_file(tmp_path / ".farm").read_text() == path.read_text()
    assert [entry.name for entry in path.parent.iterdir()] == ["token"]


def test_two_farms_have_two_tokens(tmp_path: Path) -> None:
    first, second = (ray_home.token_file(tmp_path / name).read_text() for name in "ab")
    assert first != second


def test_a_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    ray_home.token_file(tmp_path).chmod(0o644)
    with pytest.raises(FarmError, match="mode 644"):
        ray_home.token_file(tmp_path)


def test_the_environment_is_ours_inside_and_the_users_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "another farm's")
    before = dict(os.environ)
    with ray_home.ray_environment(tmp_path / "token", tmp_path):
        assert os.environ["RAY_AUTH_MODE"] == "token"
        assert os.environ["FARM_STATE"] == str(tmp_path)
        assert os.environ["RAY_AUTH_TOKEN_PATH"] == str(tmp_path / "token")
        assert not {"RAY_ADDRESS", "RAY_AUTH_TOKEN"} & set(os.environ)
    assert dict(os.environ) == before


FIB = """Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     |-- 10.66.0.0
        /24 link UNICAST
     |-- 10.66.0.1
        /32 host LOCAL
     |-- 10.66.0.255
        /32 link BROADCAST
Local:
     |-- 10.66.0.1
        /32 host LOCAL
     |-- 8.8.8.8
        /32 host LOCAL
"""
INET6 = "2a000001000000000000000000000002 02 40 00 80     eth0\n"
TWO = ("10.66.0.1", "8.8.8.8")  # of a machine with a private network beside its public address


def test_the_addresses_of_all_interfaces_are_known(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    assert ray_home.own_addresses(tmp_path) == ()
    (tmp_path / "net/fib_trie").write_text(FIB)
    (tmp_path / "net/if_inet6").write_text(INET6)
    assert ray_home.own_addresses(tmp_path) == (*TWO, "2a00:1::2")
    assert "127.0.0.1" in ray_home.own_addresses()


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.1.2.3", "192.168.0.9", "100.64.0.1", "fe80::1", "fd00::1"]
)
def test_a_private_address_may_have_a_ray(address: str) -> None:
    ray_home.refuse_public([address], False, "--firewalled")


@pytest.mark.parametrize("address", ["8.8.8.8", "2a00:1::2"])
def test_a_public_address_needs_a_declared_firewall(address: str) -> None:
    with pytest.raises(FarmError, match=f"{address} is public; .* say so with --firewalled"):
        ray_home.refuse_public(["10.66.0.1", address], False, "--firewalled")
    ray_home.refuse_public(["10.66.0.1", address], True, "--firewalled")


@pytest.fixture
def public(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_home, "own_addresses", lambda: TWO)
    monkeypatch.delenv("FARM_FIREWALLED", raising=False)


@pytest.mark.parametrize(
    "words", [("up", "--foreground"), ("join", "10.66.0.9:6379", "--token-file", "token")], ids=lambda w: w[0]
)
def test_a_public_address_beside_the_one_given_is_refused(
    words: tuple[str, ...], public: None, farm: Callable[..., Result]
) -> None:
    said = farm(*words, "--host", "10.66.0.1")
    assert (said.exit_code, said.stderr.count("\n")) == (1, 1)
    assert "address 8.8.8.8 is public" in said.stderr
    assert "with --firewalled\n" in said.stderr


def test_a_campaign_runs_without_ray_where_its_ports_would_be_open(
    public: None, farm: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private, "run", lambda *_: pytest.fail("a Ray was started"))
    words = ("submit", "--op", "rmsnorm", "--shape", "1024x1", "--backend", "twin")
    said = farm(*words)
    assert said.exit_code == 0, said.stderr
    assert "address 8.8.8.8 is public: this campaign runs without Ray, as with --local; " in said.stderr
    monkeypatch.setenv("FARM_FIREWALLED", "1")
    assert private.exposed() == ""


@pytest.mark.parametrize(
    "words", [("up",), ("join", "10.66.0.9:6379", "--token-file", "token")], ids=lambda words: words[0]
)
def test_a_host_that_is_no_address_is_refused_in_one_line(
    words: tuple[str, ...], farm: Callable[..., Result]
) -> None:
    said = farm(*words, "--host", "foo")
    assert (said.exit_code, said.stderr) == (
        2,
        "farm: --host 'foo' is no IP address; want this machine's own, as 10.0.0.5, or leave it out\n",
    )


def test_a_port_is_found_when_this_process_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert port in ray_home.listening_ports(os.getpid())
    assert port not in ray_home.listening_ports(os.getpid())


def test_the_folder_of_a_killed_farm_is_swept_and_no_other(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    dead, alive, strange = (tmp_path / f"farm-ray-{name}-x" for name in (ended.pid, os.getpid(), "notes"))
    for folder in (dead, alive, strange):
        folder.mkdir()
    made = Path(ray_home.make_folder(tmp_path))
    assert made.name.startswith(f"farm-ray-{os.getpid()}-")
    assert [folder.exists() for folder in (dead, alive, strange, made)] == [False, True, True, True]
