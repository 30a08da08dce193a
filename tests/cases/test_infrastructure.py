"""Cases 13 and 17: what befalls a machine is never a kernel's fault, and no neighbour pays for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from db import capability
from db.campaign import campaign_row
from db.loss import LOSS_BUDGET
from db.session import open_database
from kernels.evidence import Verdict
from tests.db.making import Farm, answer, case


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Farm]:
    made = Farm(open_database(f"sqlite:///{tmp_path}/farm.db"))
    yield made
    made.database.close()


def verdicts(farm: Farm, campaign_id: int) -> dict[Verdict, int]:
    with farm.database.reading() as s:
        return dict(campaign_row(s, campaign_id).verdicts)


def test_case_17_a_host_that_dies_during_set_up_is_lost_and_never_fail(farm: Farm) -> None:
    campaign_id = farm.submit([case(1)])
    for turn in range(LOSS_BUDGET):
        leases = farm.lease()
        farm.start(leases)
        farm.lose(leases, now_us=100 + turn)
    assert verdicts(farm, campaign_id) == {Verdict.LOST: 1}
    with farm.database.reading() as s:
        assert [cell.verdict for cell in capability.cells(s)] == [Verdict.LOST]


def test_case_17_what_is_known_of_a_kernel_outlasts_the_hosts_trouble(farm: Farm) -> None:
    farm.submit([case(1)])
    farm.complete(answer(*farm.lease()))
    farm.submit([case(1)])
    farm.complete(answer(*farm.lease(), Verdict.ERROR, finished_us=99))
    with farm.database.reading() as s:
        (cell,) = capability.cells(s)
    assert cell.verdict is Verdict.PASS
    assert cell.reason == "last tried: ERROR, because ERROR"


def test_case_13_one_crash_in_a_campaign_leaves_every_neighbour_its_own_verdict(farm: Farm) -> None:
    campaign_id = farm.submit([case(rows) for rows in range(1, 31)])
    bad = case(15)
    while leases := farm.lease(8):
        farm.start(leases)
        farm.complete(
            *(answer(lease, Verdict.CRASH if lease.case == bad else Verdict.PASS) for lease in leases)
        )
    assert verdicts(farm, campaign_id) == {Verdict.CRASH: 1, Verdict.PASS: 29}
