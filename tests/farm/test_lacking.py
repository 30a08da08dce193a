"""What a class lacks: one rule for `--only` and for `farm plan`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from db.cell import Capability
from db.session import open_existing
from db.tables import planned
from farm.cli import main
from farm.lacking import Only, Ran
from kernels.evidence import Verdict
from kernels.model import Device
from tests.farm.grids import BLOCK, GPU, capability
from tests.farm.lines import database_with, line_of

SECOND = replace(GPU, slug="rtx-3060-dddd", uuid="GPU-cdef")
OLD = "0" * 64


def ran(device: Device, source: str, **what: object) -> Capability:
    return capability(device=device, backend="cuda", source=source, **what)


@pytest.mark.parametrize(
    ("known", "want"),
    [
        ((), Only.NEVER),
        ((ran(GPU, OLD),), Only.STALE),
        ((ran(GPU, OLD), ran(SECOND, "now")), None),  # one board of a class is enough
        ((ran(GPU, "now", flags=("suspect",)),), Only.NEVER),
        ((ran(GPU, "now", flags=("suspect",)), ran(SECOND, OLD)), Only.STALE),
        ((ran(GPU, "now"), ran(SECOND, "now", verdict=Verdict.FAIL)), Only.BAD),
        ((ran(GPU, OLD, verdict=Verdict.FAIL), ran(GPU, "now")), None),
    ],
)
def test_a_class_lacks_what_none_of_its_trusted_boards_ran(known: tuple[Capability, ...], want: Only) -> None:
    assert Ran(known, {}).lacks("rtx-3060", "cuda", BLOCK, "now") is want


@pytest.mark.parametrize("sources", [(OLD,), (OLD, ""), ("", OLD), ("",), (OLD, OLD)])
def test_the_plan_has_the_stale_cells_that_submit_runs(tmp_path: Path, sources: tuple[str, ...]) -> None:
    """Of a class of two boards, each with an older source or today's."""
    boards = zip((GPU, SECOND), sources, strict=False)
    lines = [replace(line_of(device=board, source=source), backend="cuda") for board, source in boards]
    url = database_with(tmp_path, lines)
    words = ("--db", url, "--device", "rtx-3060")
    said = CliRunner().invoke(main, ["plan", *words, "--budget", "9", "--json"])
    stale = {cell for rental in json.loads(said.stdout)["rentals"] for cell in rental["stale"]}
    submit = ("submit", "--all-kinds", "--backend", "cuda", "--only", "stale", "--detach", *words)
    stored = CliRunner().invoke(main, submit)
    with open_existing(url).reading() as s:
        cases = s.execute(sa.select(sa.func.count()).select_from(planned)).scalar()
    assert stale == ({"matvec/block/Q4_0/exact"} if "" not in sources else set())
    assert (stored.exit_code, bool(cases)) == ((0, True) if stale else (1, False)), stored.stderr
