"""What a backend that measures promises; the fake keeps it, so that others may be tested with it."""

from __future__ import annotations

import numpy as np
import pytest

from kernels import inputs, registry
from tests.workers.cases import matvec_case
from tests.workers.fakes.timed import FakeTimed
from workers.backends.twin import BACKEND as TWIN
from workers.timed import Rounds, Timed


def test_a_backend_that_only_runs_measures_nothing() -> None:
    assert isinstance(FakeTimed(), Timed)
    assert not isinstance(TWIN, Timed)


@pytest.mark.parametrize("wrong", [(0, 1, 0, 0), (1, 0, 0, 0), (1, 1, -1, 0), (2, 3, 0, 6), (2, 3, 0, -1)])
def test_rounds_without_a_pass_to_choose_are_refused(wrong: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="pass"):
        Rounds(*wrong)


def test_the_chosen_pass_reads_its_own_copy() -> None:
    case = matvec_case(rows=5)
    plan = registry.kernel("matvec/block").plan(case)
    first = inputs.images(case, plan, registry.op("matvec").operands(case))
    second = {**first, "x": np.zeros_like(first["x"])}
    rounds = Rounds(batches=2, passes=2, warmups=0, chosen=3)
    timing = FakeTimed(lambda batch: float(batch)).time(
        plan, [first, second], TWIN.devices()[0], rounds, turn=0
    )
    assert timing.pass_us == (0.0, 1.0)
    assert (plan.buffer("out").view(timing.run.images["out"]) == 0).all()
