"""A dashboard over one small campaign on the twin, and visitors with and without the token."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console
from starlette.testclient import TestClient

from db.session import Database, open_database
from farm import local
from farm.campaign import Order, plan, submit
from farm.progress import Bar
from farm.web.app import application
from farm.web.security import Door
from kernels.catalog import Selection
from workers.boards import Board
from workers.machine import cpu_device

SECRET = "web-secret"
BOARDS = [Board(cpu_device(), ("twin",))]
ORDER = Order(Selection(kernels=("matvec/block",), kinds=("Q4_0",), shapes=("9x64", "1x32")), ("twin",))


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a campaign that ran."""
    folder = tmp_path_factory.mktemp("web")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FARM_STATE", str(folder))
        database = open_database(f"sqlite:///{folder}/farm.db")
        campaign_id = submit(database, ORDER, plan(ORDER), BOARDS, 1).campaign_id
        row = local.run(database, campaign_id, BOARDS, Bar(Console(file=io.StringIO())))
        assert (row.done, row.bad, row.is_open) == (4, 0, False)
        database.close()
    return folder / "farm.db"


@pytest.fixture(scope="session")
def database(ran: Path) -> Database:
    return open_database(f"sqlite:///{ran}")


@pytest.fixture
def visitor(database: Database) -> TestClient:
    """A browser without the token, on loopback."""
    return TestClient(application(database, Door(SECRET, private=False, hosts=())))
