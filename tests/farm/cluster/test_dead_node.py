"""What the watch over a campaign does when Ray's own processes are gone, with a Ray that only says so."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from db.session import open_database
from farm.cluster.private import Farm
from farm.progress import Bar
from kernels.errors import FarmError


class SilentRay:
    """Its actors never answer; its one node is alive for so many looks."""

    exceptions = SimpleNamespace(GetTimeoutError=TimeoutError, RayTaskError=ValueError)

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def remote(self, _: type) -> Any:
        actor = SimpleNamespace(progress=SimpleNamespace(remote=lambda campaign_id: "an answer"))
        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=lambda *_: actor))

    def get(self, _: str, timeout: float | None = None) -> Any:
        assert timeout is not None, "would wait for good"
        raise TimeoutError

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(get_node_id=lambda: "0f" * 28)

    def nodes(self) -> list[dict[str, bool]]:
        self.looks -= 1
        return [{"Alive": self.looks >= 0}]


def test_a_campaign_whose_node_died_ends_with_one_line(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path}/farm.db")
    ray = SilentRay(looks=2)
    with pytest.raises(FarmError, match="Ray's node died; farm resume 7 continues"):
        Farm(ray, database, 7, Bar(Console(file=io.StringIO()))).watch([])
    assert ray.looks == -1
    database.close()
