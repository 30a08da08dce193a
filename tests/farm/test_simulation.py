"""A campaign of simulated boards runs like any other, and no matrix ever shows it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernels import codec
from workers.sim import plan as plans
from workers.sim.plan import Shares, SimPlan

NOTHING = ("submit", "--kernel", "matvec/block", "--kind", "Q4_0", "--shape", "3x64", "--local")


def test_simulated_cells_are_in_no_matrix(farm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "plan.json"
    path.write_text(codec.canonical(SimPlan(1, Shares(0, 0, 0, 0, 0, 0))))
    monkeypatch.setenv(plans.PLAN_FILE, str(path))
    monkeypatch.setenv(plans.BOARDS, "sim-large-0")
    ran = farm(*NOTHING, "--backend", "sim", "--json")
    assert (ran.exit_code, json.loads(ran.stdout)["closed"]) == (0, True), ran.stderr
    listed = farm("devices", "--json")
    assert "sim-large-0" in listed.stdout
    cells = json.loads(farm("export", "--format", "json").stdout)["cells"]
    assert cells
    assert not [cell for cell in cells if "sim" in (cell["backend"] + str(cell["device_class"]))]
    assert {cell["verdict"] for cell in cells} == {None}
