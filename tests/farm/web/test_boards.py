"""A board's page: the first driver that was good, and how the board stands among those of its class."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from db.session import open_existing
from farm.held import Holder
from farm.web.reader import Reader
from kernels.errors import UnknownName
from kernels.evidence import Evidence, Verdict
from kernels.model import Device
from tests.farm.grids import GPU
from tests.farm.lines import case_of, database_with, line_of

DAY_US = 86_400_000_000
NEIGHBOUR = replace(GPU, slug="rtx-3060-dddd", uuid="GPU-0123")


def with_driver(board: Device, version: str) -> Device:
    return replace(board, fingerprint=(*board.fingerprint, ("driver", version)))


def on_day(day: int, verdict: Verdict, board: Device, kind: str = "Q4_0") -> Evidence:
    line = line_of(verdict, case_of(kind), board)
    return replace(line, backend="cuda", started_us=day * DAY_US, finished_us=day * DAY_US + 5)


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    """The board failed with its first driver and passed with the next two; its neighbour still fails."""
    lines = [
        on_day(1, Verdict.FAIL, with_driver(GPU, "550.54")),
        on_day(2, Verdict.PASS, with_driver(GPU, "560.10")),
        on_day(3, Verdict.PASS, with_driver(GPU, "575.57")),
        on_day(3, Verdict.PASS, with_driver(GPU, "575.57"), "Q4_K"),
        on_day(3, Verdict.FAIL, with_driver(NEIGHBOUR, "575.57")),
        on_day(3, Verdict.PASS, with_driver(NEIGHBOUR, "575.57"), "Q4_K"),
    ]
    database = open_existing(database_with(tmp_path, lines))
    return Reader(database, Holder(database))


def test_the_first_driver_known_good_is_the_oldest_whose_lines_are(reader: Reader) -> None:
    found = reader.device(GPU.slug)
    states = {state["label"]: state["good"] for state in found["states"]}
    assert states == {"driver 550.54": False, "driver 560.10": True, "driver 575.57": True}
    assert found["first_good"]["label"] == "driver 560.10"
    assert reader.device(NEIGHBOUR.slug)["first_good"] is None


def test_a_board_stands_apart_where_no_other_of_its_class_agrees(reader: Reader) -> None:
    found = reader.device(NEIGHBOUR.slug)
    (cell,) = found["apart"]
    assert (cell["row"], cell["others"]) == ("cuda/matvec/block/Q4_0/exact", {"PASS": 1})
    assert found["class"][GPU.slug]["verdicts"] == {"PASS": 2}
    assert found["class"][NEIGHBOUR.slug]["verdicts"] == {"PASS": 1, "FAIL": 1}
    assert [cell["verdict"] for cell in found["bad"]] == [Verdict.FAIL]


def test_a_board_that_nobody_saw_is_said(reader: Reader) -> None:
    with pytest.raises(UnknownName, match="rtx-3060-cccc"):
        reader.device("rtx-9999")
