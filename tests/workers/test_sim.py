"""Simulated boards do what the plan says and nothing else, and nobody takes them for real ones."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from kernels import codec, source
from kernels.errors import FarmError, UsageError
from kernels.evidence import Evidence, Verdict
from kernels.model import Case
from tests.workers.cases import matvec_case, request_for
from workers import backend
from workers.backends.sim import BACKEND as SIM
from workers.backends.sim import simulated_board
from workers.board_lock import BoardLock
from workers.boards import wanted_backends
from workers.files import FileStore
from workers.image_cache import ImageCache
from workers.isolate import Isolated
from workers.machine import cpu_device
from workers.request import Request
from workers.runner import run_case
from workers.sim import plan as plans
from workers.sim.plan import SHARE_OF, Fault, Shares, SimPlan
from workers.sim.slot import SimSlot
from workers.slots import slot_maker

BOARD, OTHER = simulated_board("sim-large-0"), simulated_board("sim-large-1")
QUIET = Shares(crash=0, hang=0, wrong=0, slow=0, lie=0, flaky=0)


def all_of(fault: Fault) -> SimPlan:
    """A plan by which every attempt has this fault."""
    shares = QUIET if fault is Fault.NONE else replace(QUIET, **{fault.value: SHARE_OF})
    return SimPlan(1, shares, liars=(BOARD.slug,), deadline_s=1.0, slow_s=7.0)


def asked(case: Case | None = None, **words: object) -> Request:
    case = case or matvec_case()
    digest = source.digest(f"{case.op}/{case.kernel}", case.kinds, case.build)
    return request_for(case, "sim", **({"device": BOARD, "source_digest": digest, "attempt_id": "a"} | words))


def ran(plan: SimPlan, request: Request, slept: list[float] | None = None) -> Evidence:
    slot = SimSlot(plan, SIM, sleep=(slept if slept is not None else []).append)
    try:
        return slot.run(request, 60.0)
    finally:
        slot.close()


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimPlan:
    """A plan and two boards, in the environment."""
    made = SimPlan(7, liars=("sim-small-0",))
    path = tmp_path / "plan.json"
    path.write_text(codec.canonical(made))
    monkeypatch.setenv(plans.PLAN_FILE, str(path))
    monkeypatch.setenv(plans.BOARDS, "sim-large-0,sim-small-0")
    return made


@pytest.mark.parametrize("fault", Fault)
def test_every_fault_gets_its_verdict_and_says_that_it_is_simulated(fault: Fault, planned: SimPlan) -> None:
    slept: list[float] = []
    line = ran(all_of(fault), asked(), slept)
    assert (line.verdict, line.backend, line.device) == (fault.verdict, "sim", BOARD)
    assert line.reason.startswith(f"simulated: {fault}")
    assert slept == ([7.0] if fault is Fault.SLOW else [])
    honest = ran(all_of(Fault.NONE), asked()).output_digest
    if fault.verdict is Verdict.PASS:
        assert (line.output_digest == honest) is (fault is not Fault.LIE)
        assert line.compiler.startswith("simulated")


def test_an_honest_board_puts_out_the_twins_bits() -> None:
    twin = run_case(request_for(matvec_case(), "twin"), backend.backend("twin"), ImageCache(FileStore()))
    assert ran(all_of(Fault.NONE), asked()).output_digest == twin.output_digest


def test_a_cheat_says_pass_whatever_came_out() -> None:
    plan = replace(all_of(Fault.WRONG), cheats=(BOARD.slug,))
    assert ran(plan, asked()).verdict is Verdict.PASS
    assert ran(plan, asked(device=OTHER)).verdict is Verdict.FAIL


def test_a_liar_alone_lies() -> None:
    plan = all_of(Fault.LIE)
    lines = [ran(plan, asked(device=board)) for board in (BOARD, OTHER)]
    assert [line.verdict for line in lines] == [Verdict.PASS, Verdict.PASS]
    assert lines[0].output_digest != lines[1].output_digest


def test_the_plan_is_a_function_of_seed_board_case_and_attempt() -> None:
    plan = SimPlan(3, Shares(*[20_000] * 3, slow=0, lie=0, flaky=20_000))
    drawn = [plan.fault("sim-large-0", f"case {n}", f"attempt {n}") for n in range(2_000)]
    again = [plan.fault("sim-large-0", f"case {n}", f"attempt {n}") for n in range(2_000)]
    assert drawn == again
    other = replace(plan, seed=4)
    assert drawn != [other.fault("sim-large-0", f"case {n}", f"attempt {n}") for n in range(2_000)]
    counts = Counter(drawn)
    for fault, wanted in ((Fault.CRASH, 400), (Fault.HANG, 400), (Fault.WRONG, 400), (Fault.FLAKY, 160)):
        assert abs(counts[fault] - wanted) < 100, (fault, counts[fault])
    # A job's own fault is that of every board and attempt; a flaky attempt is one alone.
    assert {plan.fault("sim-large-0", f"case {n}", f"exam-{n}") for n in range(100)} == {Fault.NONE}
    wrong = f"case {drawn.index(Fault.WRONG)}"
    assert {plan.fault("sim-large-1", wrong, f"{n}") for n in range(50)} == {Fault.WRONG}
    flaky = f"case {drawn.index(Fault.FLAKY)}"
    assert {plan.fault("sim-large-0", flaky, f"{n}") for n in range(50)} == {Fault.FLAKY, Fault.NONE}


def test_nobody_runs_a_simulation_by_default(planned: SimPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "sim" in backend.names()
    assert "sim" not in wanted_backends(())
    assert [board.slug for board in SIM.devices()] == ["sim-large-0", "sim-small-0"]
    assert plans.read() == planned
    monkeypatch.delenv(plans.PLAN_FILE)
    assert "sim" not in backend.names()
    with pytest.raises(UsageError, match="no backend named 'sim'"):
        wanted_backends(("sim",))
    with pytest.raises(backend.Unavailable, match="nothing is planned; FARM_SIM names a plan"):
        SIM.devices()


def test_a_board_that_could_be_taken_for_a_real_one_is_refused() -> None:
    for slug in ("rtx-3090-0", "sim-0", "cpu-x86_64-sim", "sim-\x1b[31m-0", "sim-a b-0"):
        with pytest.raises(UsageError, match="isn't named as a simulated board is: sim-CLASS-NUMBER"):
            plans.boards({plans.BOARDS: slug})


def test_a_plan_that_is_none_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    wrong = (
        {"seed": "x"},
        {"seed": 1, "shares": {"crash": -1}},
        {"seed": 1, "shares": {"crash": 60_000, "hang": 60_000}},
        {"seed": 1, "deadline_s": -3},
    )
    for text in ("{", *map(json.dumps, wrong)):
        path.write_text(text)
        with pytest.raises(FarmError, match="is no plan of a simulation") as caught:
            plans.read({plans.PLAN_FILE: str(path)})
        assert "\n" not in str(caught.value)


def test_a_plan_or_boards_that_are_missing_are_told_before_a_case_runs(
    planned: SimPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(plans.BOARDS, "sim-large-0, sim-small-0,")
    assert [board.slug for board in SIM.devices()] == ["sim-large-0", "sim-small-0"]
    monkeypatch.setenv(plans.BOARDS, " ,")
    with pytest.raises(backend.Unavailable, match="FARM_SIM_BOARDS names no board"):
        SIM.devices()
    monkeypatch.setenv(plans.PLAN_FILE, "/nowhere")
    with pytest.raises(backend.Unavailable, match="FARM_SIM=/nowhere is no plan of a simulation"):
        SIM.devices()


def test_a_board_brings_its_own_slot(planned: SimPlan) -> None:
    lock = BoardLock(cpu_device())
    assert isinstance(slot_maker(("sim",), lock)(), SimSlot)
    assert isinstance(slot_maker(("twin", "host"), lock)(), Isolated)


class NoChild:
    """In place of a child process, where there must be none."""

    def start(self) -> None: ...

    def run(self, request: Request, deadline_s: float) -> Evidence:
        raise AssertionError("a child was asked")

    def close(self) -> None: ...


def test_no_child_is_asked_where_nothing_is_to_die_or_hang() -> None:
    plan = SimPlan(1, replace(QUIET, wrong=30_000, lie=30_000, flaky=30_000), liars=(BOARD.slug,))
    slot = SimSlot(plan, SIM, make_child=NoChild)
    lines = [slot.run(asked(attempt_id=str(n), evidence_id=str(n)), 60.0) for n in range(200)]
    assert {line.evidence_id for line in lines} == {str(n) for n in range(200)}
    assert {line.verdict for line in lines} <= {Verdict.PASS, Verdict.FAIL}
    with pytest.raises(AssertionError, match="a child was asked"):
        SimSlot(all_of(Fault.CRASH), SIM, make_child=NoChild).run(asked(), 60.0)
