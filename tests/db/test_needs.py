"""What cases need is matched to boards when jobs are made, and to workers when they are leased."""

from __future__ import annotations

from dataclasses import replace

import pytest

from db import campaign, capability, evidence
from db.job import PlannedCase, Target, add_targets, jobs_of
from db.needs import NOTHING, Needs, Offer, absent_file, needs_of, offer_of, old_driver, unmet_by_class
from kernels.evidence import Rule, Verdict
from kernels.model import Case, Device
from tests.db.making import BOARD, SOURCE, WORKER, Farm, case

FILE = "f" * 64
PASCAL = Device("gtx-0", "gtx-1080", "GTX 1080", "u", 1, (("sm", "sm_61"), ("memory_bytes", str(8 << 30))))


def submit(farm: Farm, needs: Needs, board: Device = BOARD, of: Case | None = None) -> int:
    """A campaign of one job with these needs, on the host backend of a board's class."""
    planned = [PlannedCase(of or case(1), 1, SOURCE, "", needs)]
    targets = [Target("host", board.device_class, board=board)]
    with farm.database.writing() as s:
        return campaign.create(s, selection="{}", rule=Rule.BOUND, planned=planned, targets=targets, now_us=1)


def test_a_board_tells_what_it_has_and_what_it_does_not_tell_refuses_nothing() -> None:
    assert offer_of(PASCAL) == Offer(61, 8 << 30)
    assert offer_of(BOARD) == Offer()
    everything = Needs(900, 1 << 60, "999")
    assert unmet_by_class(everything, Offer()) == old_driver(everything, Offer()) == ""
    assert offer_of(replace(BOARD, fingerprint=(("sm", "gfx906"), ("memory_bytes", "much")))) == Offer()


@pytest.mark.parametrize(
    ("needs", "why"),
    [
        (Needs(sm=80), "needs sm_80, this is sm_61"),
        (Needs(memory_bytes=9 << 30), "needs 9.0 GiB of device memory, the board has 8.0"),
    ],
)
def test_what_no_board_of_the_class_can_run_is_skip_at_once(farm: Farm, needs: Needs, why: str) -> None:
    assert unmet_by_class(needs, offer_of(PASCAL)) == why
    campaign_id = submit(farm, needs, PASCAL)
    with farm.database.writing() as s:
        (job,) = jobs_of(s, campaign_id)
        assert (job.state, job.verdict) == ("done", Verdict.SKIP)
        (stored,) = evidence.of_case(s, case(1).id)
        assert (stored.line.reason, stored.line.origin, stored.folded) == (why, "coordinator", True)
        assert stored.line.evidence_id == job.evidence_id
        assert [cell.verdict for cell in capability.cells(s, device=PASCAL.slug)] == [Verdict.SKIP]
        assert campaign.close_finished(s, 2) == (campaign_id,)


@pytest.mark.parametrize("needs", [NOTHING, Needs(sm=61, memory_bytes=8 << 30)])
def test_what_the_class_can_run_waits(farm: Farm, needs: Needs) -> None:
    campaign_id = submit(farm, needs, PASCAL)
    with farm.database.reading() as s:
        assert [job.state for job in jobs_of(s, campaign_id)] == ["waiting"]


def test_needs_hold_for_a_class_that_joins_later(farm: Farm) -> None:
    campaign_id = submit(farm, Needs(sm=80))
    with farm.database.writing() as s:
        assert add_targets(s, campaign_id, [Target("cuda", "gtx-1080", board=PASCAL)], 2) == 1
        assert [job.state for job in jobs_of(s, campaign_id)] == ["waiting", "done"]


def test_an_older_driver_is_not_given_the_job(farm: Farm) -> None:
    submit(farm, Needs(driver="525.60"))
    old, new = (replace(WORKER, offer=Offer(driver=version)) for version in ("520.9", "525.60.13"))
    assert farm.lease(worker=old) == ()
    assert not farm.owes(old)
    assert len(farm.lease(worker=new)) == 1


def test_a_file_case_goes_to_who_holds_the_file(farm: Farm) -> None:
    submit(farm, Needs(files=(FILE,)))
    holder = replace(WORKER, worker_id="w2", offer=Offer(files=frozenset({FILE})))
    assert farm.lease(peers=(WORKER, holder)) == ()
    assert farm.owes(WORKER)  # should the holder go
    assert len(farm.lease(worker=holder, peers=(WORKER, holder))) == 1


def test_a_file_case_that_nobody_can_run_is_given_to_who_asks(farm: Farm) -> None:
    """The worker says then that the file isn't here: SKIP, with evidence."""
    submit(farm, Needs(files=(FILE,)))
    assert len(farm.lease(peers=(WORKER,))) == 1


def test_needs_are_read_as_they_were_written() -> None:
    needs = Needs(80, 1 << 30, "525.60", ("a" * 64, FILE))
    assert needs_of(needs.to_text()) == needs
    assert (NOTHING.to_text(), needs_of("")) == ("", NOTHING)
    assert needs.of_worker == Needs(driver="525.60", files=("a" * 64, FILE))
    assert absent_file(needs, Offer(files=frozenset({FILE}))) == "a" * 64
