"""A board's faults in a child: which verdict they come to, and in which process the next case runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kernels.evidence import Evidence, Verdict
from kernels.model import Build
from tests.workers.cases import matvec_case, request_for
from tests.workers.fakes.cuda_driver import DEVICE
from workers.isolate import Isolated

FAKES = Path(__file__).parents[1] / "fakes"
DEADLINE_S = 120.0


@pytest.fixture(scope="module")
def slot() -> Iterator[Isolated]:
    with closing(Isolated(FAKES)) as made:
        yield made


def ran(slot: Isolated, rows: int) -> Evidence:
    kind = "Q8_0" if rows == 205 else "Q4_0"  # a module that isn't loaded yet
    case = matvec_case(rows=rows, build=Build.DEFAULT, kinds=(kind,))
    return slot.run(request_for(case, "faulty_board", device=DEVICE), DEADLINE_S)


@pytest.mark.parametrize(
    ("rows", "verdict", "replaced"),
    [
        (201, Verdict.CRASH, True),
        (202, Verdict.TIMEOUT, True),
        (203, Verdict.ERROR, True),
        (204, Verdict.SKIP, False),
        (205, Verdict.REJECT, False),
        (206, Verdict.ERROR, True),
    ],
)
def test_a_fault_has_its_verdict_and_the_next_case_a_board_that_works(
    slot: Isolated, rows: int, verdict: Verdict, replaced: bool
) -> None:
    before, fault, after = ran(slot, 3), ran(slot, rows), ran(slot, 3)
    assert (before.verdict, fault.verdict, after.verdict) == (Verdict.PASS, verdict, Verdict.PASS)
    assert (before.compiler != after.compiler) is replaced
    assert before.output_digest == after.output_digest
