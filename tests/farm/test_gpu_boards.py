"""A board of this machine as `farm devices` and `farm doctor` show it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from farm import checkup
from farm.cli import main
from tests.workers.fakes.boards import machine
from workers.backends.cuda import Cuda


@pytest.fixture
def with_a_board(monkeypatch: pytest.MonkeyPatch) -> None:
    """The backend's seam: what it looks with."""
    monkeypatch.setattr("workers.backends.cuda.BACKEND", Cuda(look=lambda: machine("ampere")))


def test_devices_shows_board_class_and_what_it_tells(with_a_board: None) -> None:
    result = CliRunner().invoke(main, ["devices"])
    assert result.exit_code == 0, result.output
    (line,) = (line for line in result.stdout.splitlines() if line.startswith("rtx-3060"))
    assert "NVIDIA GeForce RTX 3060" in line
    assert "sm_86, 12.0 GiB, driver 575.57.08" in line
    here = json.loads(CliRunner().invoke(main, ["devices", "--json"]).stdout)["here"]
    board = next(one for one in here if one["device_class"] == "rtx-3060")
    assert (board["backends"], board["slots"]) == (["cuda"], 1)
    assert board["fingerprint"]["sm"] == "sm_86"


def test_doctor_names_the_board(with_a_board: None) -> None:
    found = {check.name: check for check in checkup.backends()}
    assert found["backend cuda"].found == "rtx-3060 (sm_86, 12.0 GiB, driver 575.57.08)"
    assert found["backend host"].found.startswith("cpu-")
    assert "(" not in found["backend host"].found
