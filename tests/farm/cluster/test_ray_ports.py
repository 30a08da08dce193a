"""The ports that a node of Ray is kept to, and what is told of them."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from farm.cluster import ray_ports
from farm.cluster.head import rays_own
from farm.cluster.ray_process import RayProcess
from kernels.errors import FarmError


def test_every_port_of_a_node_is_named_and_within_the_ranges() -> None:
    words = dict(word.split("=") for word in ray_ports.port_words(ray_ports.node_ports()))
    workers = {"--min-worker-port": "10500", "--max-worker-port": "10999"}
    assert words.keys() == {*ray_ports.OPTIONS, *workers}
    assert workers.items() <= words.items()
    own = {int(words[option]) for option in ray_ports.OPTIONS}
    assert len(own) == len(ray_ports.OPTIONS)
    assert own <= set(ray_ports.NODE_PORTS)


@pytest.mark.ray
def test_a_port_that_is_opened_later_is_named_at_once(tmp_path: Path) -> None:
    process = RayProcess(("--help",), tmp_path / "log", dict(os.environ))
    try:
        assert len(set(process.ports()) & set(ray_ports.NODE_PORTS)) == len(ray_ports.OPTIONS)
    finally:
        process.stop()


def test_a_port_that_is_taken_is_left_out() -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(FarmError, match=rf"wants 1 free ports of {port}-{port}; there are 0"):
            ray_ports.free_ports(1, range(port, port + 1))
    assert ray_ports.free_ports(1, range(port, port + 1)) == (port,)


def test_what_is_open_is_told_and_what_may_be_later() -> None:
    told = ray_ports.told((6379, 10017, 10555))
    assert told == "6379, 10017 and, for processes that come and go, 10500-10999"


def test_a_gateways_port_is_none_of_rays() -> None:
    assert rays_own((6379, 8443), "https://[fd00::1]:8443") == (6379,)
    assert rays_own((6379, 8443), "") == (6379, 8443)
