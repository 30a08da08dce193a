"""A worker that pulls ends by itself: without a gateway, without work, or when its time is over."""

from __future__ import annotations

import threading
from collections import deque
from pathlib import Path

import pytest

from kernels import codec
from kernels.errors import FarmError, UsageError
from tests.workers.test_agent import FakeCoordinator
from workers.command import main
from workers.json_calls import answer
from workers.leaving import Leaving, Limits
from workers.protocol import Unreachable
from workers.pull import Pull, pull
from workers.sim.plan import SimPlan


class Hours:
    """A clock that each look moves by so many seconds."""

    def __init__(self, step_s: float = 0.0) -> None:
        self.now_s, self.step_s = 0.0, step_s

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


def leaving(limits: Limits) -> tuple[Leaving, Hours]:
    clock = Hours()
    return Leaving(limits, clock), clock


def test_without_limits_it_never_leaves() -> None:
    told, clock = leaving(Limits())
    clock.now_s = 1e9
    assert told.check(busy=False) == ""


def test_idle_counts_from_the_last_case() -> None:
    told, clock = leaving(Limits(idle=10))
    clock.now_s = 599
    assert told.check(busy=True) == ""
    clock.now_s += 599
    assert told.check(busy=False) == ""
    clock.now_s += 1
    assert told.check(busy=False) == "nothing to do for 10 minutes"


def test_life_ends_one_that_is_busy() -> None:
    told, clock = leaving(Limits(life=60, idle=5))
    clock.now_s = 3600
    assert told.check(busy=True) == "the 60 minutes of --minutes are over"


def test_away_counts_from_the_last_answer_and_a_refusal_is_one() -> None:
    told, clock = leaving(Limits(away=1))
    said = {"hello": "yes"}

    def carry(call: str, text: str) -> str:
        if call == "refused":
            raise FarmError("no")
        if call not in said:
            raise Unreachable("away")
        return said[call]

    noticed = told.hearing(carry)
    clock.now_s = 59
    assert noticed("hello", "") == "yes"
    clock.now_s = 100
    with pytest.raises(FarmError, match="no"):
        noticed("refused", "")
    clock.now_s = 159
    with pytest.raises(Unreachable):
        noticed("lease", "")
    assert told.check(busy=True) == ""
    clock.now_s = 160
    with pytest.raises(FarmError, match="no answer of the gateway for 1 minutes"):
        told.check(busy=True)


def test_pull_gives_a_gateway_up_that_never_answers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FARM_STATE", str(tmp_path))

    def carry(call: str, text: str) -> str:
        raise Unreachable("nobody there")

    with pytest.raises(FarmError, match="no answer of the gateway for 30 minutes"):
        pull(carry, Pull(("twin",), limits=Limits(life=90, away=30)), Hours(step_s=300))
    assert capsys.readouterr().err.count("no answer of the gateway") == 1


def test_pull_ends_when_idle_and_nothing_is_wrong(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FARM_STATE", str(tmp_path))
    nothing = FakeCoordinator(deque())
    ran = pull(
        lambda call, text: answer(nothing, call, text),
        Pull(("twin",), limits=Limits(life=90, away=900, idle=30)),
        Hours(step_s=300),
    )
    assert ran == 0
    assert "nothing to do for 30 minutes; ends" in capsys.readouterr().err


def test_pull_tells_at_once_of_a_board_whose_agent_failed_while_others_go_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FARM_STATE", str(tmp_path))
    plan = tmp_path / "plan.json"
    plan.write_text(codec.canonical(SimPlan(1)))
    monkeypatch.setenv("FARM_SIM", str(plan))
    monkeypatch.setenv("FARM_SIM_BOARDS", "sim-large-0,sim-small-0")
    nothing, told, hours = FakeCoordinator(deque()), [], Hours()

    def carry(call: str, text: str) -> str:
        if threading.current_thread().name == "sim-small-0":
            raise FarmError("no such board")
        told.append(capsys.readouterr().err)
        if "go on" in told[-1]:
            hours.step_s = 600
        return answer(nothing, call, text)

    with pytest.raises(FarmError, match="sim-small-0: no such board"):
        pull(carry, Pull(("sim",), limits=Limits(life=90, away=900, idle=30)), hours)
    said = "".join([*told, capsys.readouterr().err])
    assert said.count("sim-small-0 has ended and the others go on: no such board") == 1
    assert said.index("the others go on") < said.index("nothing to do for 30 minutes; ends")


@pytest.mark.parametrize("option", ["--minutes", "--patience-minutes", "--idle-minutes"])
@pytest.mark.parametrize("value", ["-1", "nan", "inf"])
def test_minutes_that_are_none_are_refused_in_one_line(
    option: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    token.chmod(0o600)
    assert main(["pull", "https://10.0.0.1:1", "--token-file", str(token), f"{option}={value}"]) == 2
    assert capsys.readouterr().err == f"workers: {option} is {value}; want minutes, 0 or more\n"


def test_limits_name_the_option_that_is_wrong() -> None:
    with pytest.raises(UsageError, match="--idle-minutes is -1; want minutes, 0 or more"):
        Limits(idle=-1)
