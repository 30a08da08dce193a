"""A hang or a death is a kernel's only where its board has no trouble of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from kernels.errors import FarmError
from kernels.evidence import Evidence, Verdict
from tests.workers.cases import matvec_case, request_for
from tests.workers.fakes.boards import FakeNvml, recorded
from workers import watching
from workers.backends import cuda
from workers.cuda.libcuda import Answers
from workers.cuda.probe import Probe
from workers.cuda.trouble import Watch
from workers.isolate import Isolated
from workers.machine import cpu_device

FAKES = Path(__file__).parent / "fakes"
GOOD, HANGS = 3, 104  # rows, to the backend `moody`
LONG_S, SHORT_S = 60.0, 0.5
HUNG = "outlived its deadline of 0.5 s in phase launch and was killed"
MUTE = "the driver says nothing of the board within 0.05 s"


def ask(slot: Isolated, rows: int) -> Evidence:
    return slot.run(request_for(matvec_case(rows=rows), "moody"), SHORT_S if rows == HANGS else LONG_S)


def watched(trouble: Callable[[], str]) -> Isolated:
    """A slot whose board says that of itself."""
    return Isolated(FAKES, watch=lambda name, board: trouble)


def nvml_of_a_board() -> tuple[FakeNvml, Watch]:
    nvml = FakeNvml(recorded("turing"))
    return nvml, Watch(nvml, nvml.boards[0]["nvmlDeviceGetUUID"])


@pytest.mark.parametrize(
    ("rows", "xids", "lost", "reason"),
    [
        (101, [79], 0, "died of SIGSEGV in phase launch: Xid 79, the board has fallen off the bus"),
        (HANGS, [119], 0, f"{HUNG}: Xid 119, the board's system processor doesn't answer"),
        (HANGS, [109, 45], 15, f"{HUNG}: NVML says that the board is lost"),
        (110, [31, 79], 0, "wild access: Xid 79, the board has fallen off the bus"),
    ],
)
def test_a_board_with_trouble_of_its_own_is_blamed_and_runs_nothing_more(
    rows: int, xids: list[int], lost: int, reason: str
) -> None:
    nvml, watch = nvml_of_a_board()
    slot = watched(watch)
    assert ask(slot, GOOD).verdict is Verdict.PASS
    nvml.xids, nvml.lost = xids, lost
    evidence = ask(slot, rows)
    assert (evidence.verdict, evidence.reason) == (Verdict.ERROR, reason)
    with pytest.raises(FarmError, match=r"runs nothing more: (Xid|NVML)"):
        slot.start()


@pytest.mark.parametrize(("rows", "verdict"), [(101, Verdict.CRASH), (HANGS, Verdict.TIMEOUT)])
def test_a_kernel_is_blamed_where_the_board_has_no_trouble_of_its_own(rows: int, verdict: Verdict) -> None:
    nvml, watch = nvml_of_a_board()
    with closing(watched(watch)) as slot:
        ask(slot, GOOD)
        nvml.xids = [31, 109, 45]  # what a kernel can bring about
        assert ask(slot, rows).verdict is verdict
        assert ask(slot, GOOD).verdict is Verdict.PASS


def test_a_driver_that_says_nothing_of_its_board_is_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "ANSWER_S", 0.05)
    assert watching.ask(lambda: str(threading.Event().wait())) == MUTE
    silent = SimpleNamespace(watch=lambda board: threading.Event().wait())
    monkeypatch.setattr(watching, "backend", lambda name: silent)
    assert watching.watch("cuda", cpu_device())() == MUTE


def test_a_backend_whose_boards_tell_nothing_has_no_trouble() -> None:
    assert watching.watch("host", cpu_device())() == watching.watch("abacus", cpu_device())() == ""


def test_a_board_of_cuda_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml, _ = nvml_of_a_board()
    monkeypatch.setattr(cuda.BACKEND, "look", lambda: Probe(nvml, {}, lambda: Answers(12090, ())))
    board = replace(cpu_device(), uuid=nvml.boards[0]["nvmlDeviceGetUUID"])
    trouble = watching.watch("cuda", board)
    nvml.xids = [79]
    assert trouble() == "Xid 79, the board has fallen off the bus"
