"""A board is believed when it knows what is right, and what is wrong."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from kernels.evidence import Evidence, Verdict
from workers.exam import RIGHT, admit, question
from workers.isolate import Isolated
from workers.machine import cpu_device
from workers.request import Request


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARM_STATE", str(tmp_path))


class Bent(Isolated):
    """A slot of a board that answers what somebody makes of the right answers."""

    said: Verdict | None = None
    digest = ""

    def run(self, request: Request, deadline_s: float) -> Evidence:
        line = super().run(request, deadline_s)
        return replace(
            line, verdict=self.said or line.verdict, output_digest=self.digest or line.output_digest
        )


def admitted(said: Verdict | None = None, digest: str = "") -> str:
    with closing(Bent()) as slot:
        slot.said, slot.digest = said, digest
        return admit(slot, cpu_device(), "twin")


def test_an_honest_board_is_admitted() -> None:
    assert admitted() == ""


def test_a_board_that_passes_everything_is_not() -> None:
    assert admitted(Verdict.PASS).startswith("exam: silu_mul/known_wrong was PASS, FAIL is right")


def test_a_board_that_fails_everything_is_not() -> None:
    assert admitted(Verdict.FAIL).startswith("exam: matvec/coalesced was FAIL, PASS is right")


def test_a_board_with_other_bits_is_not() -> None:
    assert admitted(digest="ab" * 32).startswith("exam: matvec/coalesced put out abababababab, ")


def test_no_question_is_asked_twice() -> None:
    assert len({question(*RIGHT).id for _ in range(8)}) == 8
