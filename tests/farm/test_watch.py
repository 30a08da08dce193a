"""farm status --watch: what a frame says, what a pipe gets, and a terminal: resized, then interrupted."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from dataclasses import fields, replace
from pathlib import Path

import pytest
from rich.console import Console

from db import campaign, evidence
from db.activity import Held
from db.campaign import CampaignRow
from db.device import DeviceRow
from db.job import PlannedCase, Target
from db.session import Database, open_existing
from farm.activity import Activity, BoardNow, CampaignNow, read_activity
from farm.matrix import Cell, Matrix
from farm.watch import EVERY_S, MATRIX_SHARE, SHARE, Watch, pause_s
from farm.watch_frame import Known, frame, known
from kernels.evidence import Rule, Verdict
from tests.farm.grids import CPU, GPU, capability, matrix_of
from tests.farm.lines import case_of, database_with, line_of

NOW_US = 1_000_000_000
HELD = Held(7, 1, CPU.slug, "host", case_of(), NOW_US - 5_000_000, NOW_US - 3_000_000)
VERDICTS = ((Verdict.FAIL, 1), (Verdict.PASS, 39))
ROW = CampaignRow(7, "{}", Rule.BOUND, 0, NOW_US - 60_000_000, None, 50, 10, VERDICTS)
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")


def activity(*boards: BoardNow, row: CampaignRow = ROW, eta_s: float | None = 90.0) -> Activity:
    return Activity(NOW_US, (CampaignNow(row, 40.0, eta_s),), 2, boards)


def drawn(seen: Activity, matrix: Matrix, width: int = 120, height: int = 0) -> str:
    out = io.StringIO()
    Console(file=out, width=width, markup=False, highlight=False).print(
        frame(seen, known(matrix, width, height), width, height)
    )
    return out.getvalue()


def test_a_frame_says_how_far_how_fast_how_long_and_what_runs_where() -> None:
    board = BoardNow(DeviceRow(CPU, 1, NOW_US), (HELD,), 4, 40.0, 61.4)
    text = drawn(activity(board), matrix_of([capability(Verdict.FAIL, reason="element 3")]))
    line = next(line for line in text.splitlines() if line.startswith("7 "))
    wanted = "7 ########------------ 40 % 40/100 40 about 1 min 30 s 1 FAIL · 39 PASS"
    assert " ".join(line.split()) == wanted
    runs = "host matvec/block Q4_0 3x256 ordinary exact, 4 next"
    assert re.search(rf"cpu-x86_64-aaaa +{runs} +3 s +40 +61$", text, re.MULTILINE)
    assert "… 2 older" in text
    assert re.search(r"matvec/block  F$", text, re.MULTILINE)
    assert "FAIL cpu-x86_64-aaaa/host/matvec/block/Q4_0/exact" in text


def test_what_a_machine_cannot_tell_and_what_does_not_move_is_said() -> None:
    idle = BoardNow(DeviceRow(GPU, 1, NOW_US), (), 0, 0.0, None)
    text = drawn(activity(idle, eta_s=None), matrix_of([]))
    assert re.search(r"rtx-3060-cccc +idle +– +–", text)
    assert "nobody works on it" in text
    assert "nothing has run yet" in text
    assert "nothing is bad" in text


def test_a_small_terminal_gets_a_small_frame() -> None:
    board = BoardNow(DeviceRow(CPU, 1, NOW_US), (HELD,), 0, 1.0, None)
    matrix = matrix_of([capability(device=device) for device in (CPU, GPU)], devices=(CPU, GPU))
    for width, height in ((40, 20), (80, 24), (200, 60)):
        lines = drawn(activity(board), matrix, width, height).splitlines()
        assert max(map(len, lines)) <= width
        assert width == 40 or len(lines) <= height


def test_a_turn_that_costs_more_is_followed_by_a_longer_rest() -> None:
    assert pause_s(0.01) == EVERY_S
    assert pause_s(1.0) == 1.0 / SHARE
    assert 1.0 / (1.0 + pause_s(1.0)) + MATRIX_SHARE <= 0.05


class Counted(Cell):
    """A cell that counts how often somebody asks where it is."""

    asked = 0

    def __getattribute__(self, name: str) -> object:
        if name == "device_class":
            Counted.asked += 1
        return super().__getattribute__(name)


def asked_of(classes: int) -> int:
    """How often the cells of so many classes are asked for a frame."""
    boards = [replace(GPU, slug=f"gpu-{at}-a", device_class=f"gpu-{at}") for at in range(classes)]
    made = matrix_of([capability(device=board) for board in boards], devices=boards)
    cells = tuple(Counted(**{f.name: getattr(cell, f.name) for f in fields(Cell)}) for cell in made.cells)
    Counted.asked = 0
    assert "P" in "".join(line.plain for line in known(replace(made, cells=cells), 120, 0).small.lines)
    return Counted.asked


def test_twice_as_many_classes_are_twice_the_work() -> None:
    assert 0 < asked_of(40) <= 2.1 * asked_of(20)


def test_lines_that_have_no_room_are_counted_and_not_made() -> None:
    boards = [replace(GPU, slug=f"gpu-{at}-a", device_class=f"gpu-{at}") for at in range(40)]
    made = matrix_of([capability(device=board) for board in boards], devices=boards)
    whole, some = known(made, 40, 0).small, known(made, 40, 5).small
    assert whole.total == some.total == len(whole.lines) == 41
    assert some.lines == whole.lines[:5]
    shown = drawn(activity(), made, 40, 20).splitlines()
    (said,) = [line for line in shown if "more lines; farm status shows all" in line]
    there = {line.plain for line in whole.lines}
    assert int(said.split()[1]) + sum(line.rstrip() in there for line in shown) == whole.total


def test_a_matrix_is_put_into_letters_once_for_a_size(
    open_campaign: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[tuple[int, int]] = []

    def counted(matrix: Matrix, width: int, height: int) -> Known:
        sizes.append((width, height))
        return known(matrix, width, height)

    monkeypatch.setattr("farm.watch.known", counted)
    monkeypatch.setattr("farm.watch.pause_s", lambda used_s: 0.0)
    out = Console(file=io.StringIO(), width=120, force_terminal=True)
    turns = iter([True, True, True, False])
    Watch(open_campaign, out).run(lambda: next(turns))
    assert len(sizes) == 1


@pytest.fixture
def open_campaign(tmp_path: Path) -> Database:
    database = open_existing(database_with(tmp_path, [line_of(Verdict.FAIL)]))
    with database.writing() as s:
        planned, target = [PlannedCase(case_of(), 1, "", "")], Target("host", CPU.device_class)
        campaign.create(s, selection="{}", rule=Rule.BOUND, planned=planned, targets=[target], now_us=1)
    return database


def test_activity_has_open_campaigns_and_every_board(open_campaign: Database) -> None:
    with open_campaign.reading() as s:
        seen = read_activity(s, NOW_US, {CPU.uuid: 50.0})
    assert [(one.row.id, one.eta_s) for one in seen.campaigns] == [(1, None)]
    (board,) = seen.boards
    assert (board.row.device.slug, board.is_busy, board.celsius) == (CPU.slug, False, 50.0)


def test_a_pipe_gets_one_plain_block_a_change(
    open_campaign: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farm.watch.pause_s", lambda used_s: 0.0)
    out, turns = io.StringIO(), iter([True, True, True, True, False])

    def goes_on() -> bool:
        turn = next(turns)
        if out.getvalue().count("==") == 1 and not open_campaign_changed:
            with open_campaign.writing() as s:
                evidence.import_lines(s, [line_of(case=case_of("Q4_K"))], 4_000_000)
            open_campaign_changed.append(True)
        return turn

    open_campaign_changed: list[bool] = []
    Watch(open_campaign, Console(file=out, width=120, markup=False)).run(goes_on)
    assert out.getvalue().count("== 20") == 2
    assert not CONTROL.search(out.getvalue().replace("\n", ""))


def read_until(terminal: int, wanted: bytes, seconds: float = 60.0) -> bytes:
    seen, until = b"", time.monotonic() + seconds
    while wanted not in seen and time.monotonic() < until:
        if select.select([terminal], [], [], 0.2)[0]:
            seen += os.read(terminal, 65536)
    assert wanted in seen, seen[-500:]
    return seen


def resize(terminal: int, rows: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


@pytest.mark.slow
def test_in_a_terminal_it_follows_the_size_and_ctrl_c_is_no_error(open_campaign: Database) -> None:
    ours, theirs = pty.openpty()
    resize(ours, 24, 90)
    words = [sys.executable, "-m", "farm", "status", "--watch", "--db", open_campaign.label]
    # A size in the environment would outweigh the terminal's.
    env = {name: text for name, text in os.environ.items() if name not in ("COLUMNS", "LINES")}
    env["TERM"] = "xterm"
    process = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=env)
    try:
        wide = read_until(ours, b"matvec/block")
        assert b"\x1b[?1049h" in wide  # the screen is given back at the end
        resize(ours, 24, 44)
        process.send_signal(signal.SIGWINCH)
        text = ESCAPE.sub("", read_until(ours, b"farm show").decode("utf8", "replace"))
        assert max(map(len, text.split("\r\n")[-10:])) <= 44
        process.send_signal(signal.SIGINT)
        last = read_until(ours, b"\x1b[?1049l")
        assert process.wait(60) == 0
        assert b"farm:" not in last  # no complaint
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        os.close(theirs)
