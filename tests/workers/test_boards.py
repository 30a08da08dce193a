"""What this machine can run on, and which of it is meant."""

from __future__ import annotations

import pytest

from kernels.errors import FarmError, UnknownName
from kernels.model import Device
from workers import backend as backends
from workers import boards
from workers.backend import Unavailable
from workers.boards import Board, Survey

CARD = Device("rtx-3060-ab12", "rtx-3060", "NVIDIA GeForce RTX 3060", "GPU-ab12")
HERE = Survey((Board(CARD, ("cuda",)),), ("host is unavailable because there is no compiler",))


@pytest.mark.parametrize("pattern", ["*", "rtx-3060", "RTX-*", "*geforce*", "GPU-ab12", "rtx-3060-ab??"])
def test_a_glob_matches_class_name_slug_and_uuid(pattern: str) -> None:
    assert boards.matching(HERE, pattern) == HERE.boards


def test_a_glob_that_matches_nothing_says_what_there_is() -> None:
    with pytest.raises(FarmError, match=r"'h100\*'; there are rtx-3060 \(NVIDIA GeForce RTX 3060\)"):
        boards.matching(HERE, "h100*")


def test_a_machine_without_any_board_says_why() -> None:
    with pytest.raises(FarmError, match="host is unavailable because there is no compiler"):
        boards.matching(Survey((), HERE.unavailable), "*")


def test_the_default_backends_are_those_that_this_catalog_has() -> None:
    chosen = boards.wanted_backends(())
    assert "host" in chosen
    assert "twin" not in chosen
    assert set(chosen) <= set(backends.names())


def test_named_backends_are_taken_once_and_unknown_ones_refused() -> None:
    assert boards.wanted_backends(("twin", "twin")) == ("twin",)
    with pytest.raises(UnknownName, match="twin"):
        boards.wanted_backends(("twin", "opencl"))


def test_backends_that_share_a_board_are_put_together() -> None:
    found = boards.survey(("twin", "twin"))
    assert len(found.boards) == 1


def test_gpus_are_resources_of_their_own_and_processors_are_none() -> None:
    part = Device("a100-mig-1", "a100-mig", "A100 MIG", "MIG-cd34")
    processor = Device("cpu-1", "cpu", "a processor", "0123456789abcdef")
    assert boards.resources((CARD, part, processor)) == {"board:GPU-ab12": 1.0, "board:MIG-cd34": 1.0}


def test_an_unavailable_backend_is_a_reason_and_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Away:
        name = "away"

        def devices(self) -> tuple[Device, ...]:
            raise Unavailable("nobody is there; install somebody")

    monkeypatch.setattr(backends, "backend", lambda name: Away())
    found = boards.survey(("away",))
    assert found == Survey((), ("away is unavailable because nobody is there; install somebody",))
