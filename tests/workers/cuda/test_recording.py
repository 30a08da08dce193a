"""What is recorded on a machine gives the same boards when it is played back."""

from __future__ import annotations

import json
import sys

import pytest

from kernels.errors import FarmError
from tests.workers.fakes.boards import FakeNvml, driver_of, recorded
from workers.cuda import nvml
from workers.cuda.recording import main, record


@pytest.mark.parametrize("name", ["pascal", "volta", "mig", "blackwell"])
def test_a_recording_played_back_is_the_machine_that_was_recorded(name: str) -> None:
    told = recorded(name)
    made = json.loads(json.dumps(record(FakeNvml(told), driver_of(told, {}))))
    played = FakeNvml(made)
    assert nvml.read(played) == nvml.read(FakeNvml(told))
    for facts in nvml.read(played).boards:
        assert nvml.state(played, facts.uuid) == nvml.state(FakeNvml(told), facts.uuid)
    assert driver_of(made, {})() == driver_of(told, {})()


def test_where_there_is_no_board_nothing_is_recorded() -> None:
    with pytest.raises(FarmError, match="nothing to record: there is no NVIDIA driver"):
        record(FakeNvml(recorded("none")), driver_of(recorded("none"), {}))


def test_the_command_says_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(recorded("none")))
    assert main() == 1
    assert capsys.readouterr().err == "recording: nothing to record: there is no NVIDIA driver\n"
