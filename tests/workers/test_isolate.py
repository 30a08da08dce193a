"""Isolation: one bad kernel spoils no neighbour, and no child is left behind."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernels.errors import FarmError
from kernels.evidence import Evidence, Verdict
from tests.workers.cases import matvec_case, request_for
from workers import child_process, sanitizer
from workers.backend import names
from workers.child_process import MARK, marked
from workers.isolate import MEMORY_SHARE, Isolated, cause_of_death
from workers.machine import memory_bytes

FAKES = Path(__file__).parent / "fakes"
GOOD = 3
LONG_S = 60.0
SHORT_S = 0.5
HUNG = "outlived its deadline of 0.5 s in phase launch and was killed"


@pytest.fixture
def slot() -> Iterator[Isolated]:
    isolated = Isolated(FAKES)
    yield isolated
    isolated.close()


def ask(slot: Isolated, rows: int, deadline_s: float = LONG_S) -> Evidence:
    return slot.run(request_for(matvec_case(rows=rows), "moody"), deadline_s)


def children() -> set[int]:
    """Processes that any child of this test's process marked."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            text = entry.read_bytes()
        except OSError:
            continue
        if f"{MARK}=".encode() in text and f"FARM_TEST={os.getpid()}".encode() in text:
            found.add(int(entry.parent.name))
    return found


@pytest.fixture(autouse=True)
def marked_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARM_TEST", str(os.getpid()))


def test_child_is_kept_when_cases_pass(slot: Isolated) -> None:
    first, second = ask(slot, GOOD), ask(slot, GOOD + 1)
    assert (first.verdict, second.verdict) == (Verdict.PASS, Verdict.PASS)
    assert first.compiler == second.compiler
    assert first.compiler != f"process {os.getpid()}"


def test_every_case_gets_its_verdict_when_the_third_crashes(slot: Isolated) -> None:
    verdicts = [ask(slot, rows).verdict for rows in (3, 4, 101, 5, 6, 7)]
    assert verdicts == [Verdict.PASS] * 2 + [Verdict.CRASH] + [Verdict.PASS] * 3
    slot.close()
    assert not children()


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (101, "died of SIGSEGV in phase launch"),
        (102, "died of SIGABRT in phase launch"),
        (107, "died of SIGABRT in phase launch"),
        (110, "wild access"),
        (111, "exited with status 7 in phase launch"),
    ],
)
def test_verdict_is_crash_when_a_case_ends_its_child(slot: Isolated, rows: int, reason: str) -> None:
    evidence = ask(slot, rows)
    assert (evidence.verdict, evidence.reason) == (Verdict.CRASH, reason)
    assert not children()


def test_verdict_is_crash_when_a_case_closes_the_connection(slot: Isolated) -> None:
    evidence = ask(slot, 113)
    assert evidence.verdict is Verdict.CRASH
    assert evidence.reason.startswith(("closed its connection", "exited with status 1"))


@pytest.mark.parametrize("rows", [103, 104, 106])
def test_verdict_is_timeout_when_a_case_outlives_its_deadline(slot: Isolated, rows: int) -> None:
    ask(slot, GOOD)  # which imports what a case needs
    evidence = ask(slot, rows, SHORT_S)
    assert (evidence.verdict, evidence.reason) == (Verdict.TIMEOUT, HUNG)
    assert not children()
    assert ask(slot, GOOD).verdict is Verdict.PASS


def test_verdict_is_error_when_a_signal_came_from_outside(slot: Isolated) -> None:
    evidence = ask(slot, 112)
    assert evidence.verdict is Verdict.ERROR
    assert "SIGKILL" in evidence.reason


def test_verdict_is_error_when_memory_is_over_the_limit() -> None:
    slot = Isolated(FAKES, memory_bytes=4 << 30)
    evidence = ask(slot, 105)
    slot.close()
    assert evidence.verdict is Verdict.ERROR
    assert "Unable to allocate 1.00 TiB" in evidence.reason


def test_crash_is_tried_again_alone_when_the_child_was_used(slot: Isolated) -> None:
    ask(slot, GOOD)
    evidence = ask(slot, 109)
    assert evidence.verdict is Verdict.PASS
    assert evidence.reason == (
        "flaky: crashed behind other cases, not alone (died of SIGSEGV in phase launch)"
    )


def test_child_is_replaced_when_a_guard_band_broke(slot: Isolated) -> None:
    before = ask(slot, GOOD)
    broken = ask(slot, 114)
    after = ask(slot, GOOD)
    assert (broken.verdict, broken.reason) == (Verdict.FAIL, "1 byte behind out")
    assert before.compiler == broken.compiler != after.compiler


def test_child_is_replaced_when_the_board_gave_an_error_under_a_kernel(slot: Isolated) -> None:
    before, error, after = ask(slot, GOOD), ask(slot, 115), ask(slot, GOOD)
    assert (error.verdict, error.reason) == (Verdict.ERROR, "uncorrectable ECC error")
    assert after.verdict is Verdict.PASS
    assert before.compiler != after.compiler


def test_board_is_retired_when_its_child_can_not_be_killed(
    slot: Isolated, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(slot, GOOD)  # which imports what a case needs
    child = slot._child
    assert child is not None
    with monkeypatch.context() as patch:
        patch.setattr(child_process, "KILLED_S", 0.1)
        patch.setattr(child_process, "GRACE_S", 0.1)
        patch.setattr(child_process, "kill_marked", lambda mark: None)
        patch.setattr(os, "killpg", lambda *_: None)  # as if every signal were held back by a driver
        evidence = ask(slot, 104, SHORT_S)
    assert child.is_alive()
    assert evidence.verdict is Verdict.TIMEOUT
    with pytest.raises(FarmError, match=f"child process {child.pid} can't be killed: its board runs nothing"):
        slot.start()
    os.kill(child.pid, signal.SIGKILL)
    wait_for_end(child.pid)
    assert not child.is_alive()


CHECKER = """#!/bin/sh
while [ "${1#--}" != "$1" ]; do shift; done
echo "========= COMPUTE-SANITIZER"
"$@"
echo "========= Invalid __global__ write of size 4 bytes"
echo "=========     at bad+0x40 in bad.cu:6"
echo "=========         Host Frame: [0x2774ec]"
echo "========= ERROR SUMMARY: 1 error"
"""


@pytest.fixture
def checker(tmp_path: Path) -> Path:
    program = tmp_path / "compute-sanitizer"
    program.write_text(CHECKER)
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(("rows", "reason"), [(101, "died of SIGSEGV in phase launch"), (110, "wild access")])
def test_a_crash_is_repeated_under_the_checker_when_one_is_installed(
    checker: Path, rows: int, reason: str
) -> None:
    """Whether the child dies of it, or answers and would wait for the next case."""
    asked: list[str] = []

    def find(backend: str) -> str:
        asked.append(backend)
        return str(checker)

    checked = Isolated(FAKES, checker=find)
    began = time.monotonic()
    crash, took_s = ask(checked, rows), time.monotonic() - began
    fine = ask(checked, GOOD)
    checked.close()
    assert (crash.verdict, crash.reason) == (
        Verdict.CRASH,
        f"{reason}; compute-sanitizer says: Invalid __global__ write of size 4 bytes, "
        "at bad+0x40 in bad.cu:6",
    )
    assert took_s < sanitizer.REPORT_S
    assert (fine.verdict, asked) == (Verdict.PASS, ["moody"])
    assert not children()


def test_the_checker_is_looked_for_in_the_toolkit_and_for_its_backend_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "compute-sanitizer"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert (sanitizer.find("cuda"), sanitizer.find("host")) == (str(program), "")


def test_a_child_has_a_memory_limit_unless_told_otherwise(slot: Isolated) -> None:
    slot.start()
    assert slot._child is not None
    limits = Path(f"/proc/{slot._child.pid}/limits")
    ask(slot, GOOD)
    soft = next(
        line.split()[3] for line in limits.read_text().splitlines() if line.startswith("Max data size")
    )
    assert int(soft) == int(memory_bytes() * MEMORY_SHARE)


def test_evidence_arrives_when_a_case_prints_what_looks_like_a_message(slot: Isolated) -> None:
    assert ask(slot, 108).verdict is Verdict.PASS


def test_reason_has_the_last_lines_when_a_crash_printed_some(slot: Isolated, tmp_path: Path) -> None:
    (tmp_path / "chatty.py").write_text("import os\nprint('oops', flush=True)\nos.abort()\n")
    chatty = Isolated(tmp_path)
    evidence = chatty.run(request_for(matvec_case(), "chatty"), LONG_S)
    assert (evidence.verdict, evidence.reason) == (
        Verdict.ERROR,
        "died of SIGABRT in phase start; printed: oops",
    )


def test_next_case_gets_a_new_child_when_the_idle_one_was_killed(slot: Isolated) -> None:
    pid = int(ask(slot, GOOD).compiler.split()[1])
    os.kill(pid, signal.SIGKILL)
    wait_for_end(pid)
    assert ask(slot, GOOD).verdict is Verdict.PASS


def test_child_imports_the_farm_when_the_current_folder_has_packages_of_the_same_name(
    slot: Isolated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("kernels", "workers", "numpy"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('not the farm')")
    monkeypatch.chdir(tmp_path)
    assert ask(slot, GOOD).verdict is Verdict.PASS


def test_no_case_gets_a_verdict_when_no_child_can_be_started(
    slot: Isolated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(FarmError, match="the child process did not start: it said nothing"):
        ask(slot, GOOD)


def test_verdict_is_error_when_the_backend_is_unknown(slot: Isolated) -> None:
    evidence = slot.run(request_for(matvec_case(), "abacus"), LONG_S)
    assert evidence.verdict is Verdict.ERROR
    there = sorted([*names(), *(path.stem for path in FAKES.glob("[a-z]*.py"))])
    assert evidence.reason == f"no backend named 'abacus'; there are {', '.join(there)}"


@pytest.mark.parametrize("rows", [GOOD, 103, 104, 106])
def test_no_child_is_left_when_its_agent_is_killed(rows: int) -> None:
    script = (
        "import sys; from pathlib import Path; from tests.workers.test_isolate import *\n"
        "slot = Isolated(FAKES); slot.start(); slot._ready(); print(slot._child.pid, flush=True)\n"
        f"ask(slot, {rows}); ask(slot, 103)"
    )
    agent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, cwd=FAKES.parents[2])
    assert agent.stdout is not None
    pid = int(agent.stdout.readline())
    child = os.pidfd_open(pid)
    agent.kill()
    agent.wait()
    agent.stdout.close()
    assert select.select([child], [], [], 20)[0], "the child outlived its agent"
    os.close(child)


def wait_for_end(pid: int) -> None:
    descriptor = os.pidfd_open(pid)
    assert select.select([descriptor], [], [], 20)[0]
    os.close(descriptor)


@pytest.mark.parametrize(
    ("status", "late", "phase", "verdict"),
    [
        (None, True, "launch", Verdict.TIMEOUT),
        (None, True, "inputs", Verdict.ERROR),
        (None, True, "open", Verdict.ERROR),
        (None, True, "compile", Verdict.ERROR),
        (-signal.SIGSEGV, False, "compile", Verdict.ERROR),
        (None, True, "", Verdict.ERROR),
        (-signal.SIGSEGV, False, "compare", Verdict.CRASH),
        (-signal.SIGSEGV, True, "launch", Verdict.CRASH),
        (-signal.SIGSEGV, False, "inputs", Verdict.ERROR),
        (-signal.SIGTERM, False, "launch", Verdict.ERROR),
        (-40, False, "launch", Verdict.CRASH),
        (1, False, "launch", Verdict.CRASH),
    ],
)
def test_only_the_kernels_own_phases_are_blamed_on_it(
    status: int | None, late: bool, phase: str, verdict: Verdict
) -> None:
    assert cause_of_death(status, late, phase, 1.0)[0] is verdict


def test_marked_finds_nothing_when_no_process_has_the_mark() -> None:
    assert list(marked("0" * 32)) == []
