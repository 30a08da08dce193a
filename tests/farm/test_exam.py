"""Boards prove themselves before they get jobs; those that can't, or contradict the twin, are set aside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from db import trust
from db.job import jobs_of
from db.session import Database
from farm.campaign import Submitted
from farm.coordinator import Coordinator
from farm.exam import Examiner, is_question, settles
from kernels import catalog
from kernels.evidence import Verdict
from kernels.model import Build, Layout, Seeded, Shape
from tests.farm.conftest import DEVICE, Clock, FakeAgent
from workers.backends.host import Host
from workers.board_thread import BoardThread
from workers.exam import WRONG, exam_catalog, question, twin_digest
from workers.files import FileStore
from workers.image_cache import ImageCache
from workers.machine import cpu_device
from workers.packs import keep, searched
from workers.protocol import Complete, Fetch, Lease, StaleEpoch
from workers.request import Request
from workers.runner import run_case

OTHER = replace(DEVICE, slug="cpu-test-2", uuid="uuid-2")


@pytest.fixture
def examining(database: Database, submitted: Submitted, clock: Clock) -> Iterator[Coordinator]:
    """A coordinator that examines, with six jobs waiting."""
    coordinator = Coordinator(database, catalog.digest(), clock=clock, examiner=Examiner(every_jobs=5))
    yield coordinator
    coordinator.close()


def greeted(coordinator: Coordinator, **fields: object) -> FakeAgent:
    agent = FakeAgent(coordinator, **fields)
    assert agent.hello().accepted
    return agent


def answer(agent: FakeAgent, *verdicts: Verdict, digest: str = "") -> tuple[Lease, ...]:
    """Sends answers to the questions whose right ones are PASS, and to the last: the first one's output."""
    questions = agent.ask().leases
    of_all = *[verdicts[0]] * (len(questions) - 1), verdicts[1]
    lines = [agent.line(one, verdict) for one, verdict in zip(questions, of_all, strict=True)]
    lines[0] = replace(lines[0], output_digest=digest or twin_digest(questions[0].case))
    agent.coordinator.complete(Complete(agent.worker_id, agent.epoch, tuple(lines)))
    return questions


def test_a_board_is_asked_what_is_known_before_it_gets_jobs(examining: Coordinator) -> None:
    agent = greeted(examining)
    asked = agent.ask()
    assert [is_question(one.attempt_id) for one in asked.leases] == [True] * 3
    assert not asked.drained
    assert agent.ask().leases == ()  # while they are open
    assert agent.renew(*asked.leases).dropped == ()
    right, pressed, wrong = asked.leases
    first = replace(agent.line(right, Verdict.PASS), output_digest=twin_digest(right.case))
    second = agent.line(pressed, Verdict.PASS)
    examining.complete(Complete(agent.worker_id, agent.epoch, (first, second)))
    assert agent.ask().leases == ()
    examining.complete(Complete(agent.worker_id, agent.epoch, (agent.line(wrong, Verdict.FAIL),)))
    assert len(agent.ask().leases) == 6


def test_every_exam_has_other_numbers(examining: Coordinator) -> None:
    first, second = greeted(examining), greeted(examining, device=OTHER)
    assert first.ask().leases[0].case != second.ask().leases[0].case


@pytest.mark.parametrize(
    ("verdicts", "digest", "why"),
    [
        ((Verdict.PASS, Verdict.PASS), "", "silu_mul/known_wrong was PASS, FAIL is right"),
        ((Verdict.FAIL, Verdict.FAIL), "", "matvec/coalesced was FAIL, PASS is right"),
        ((Verdict.ERROR, Verdict.ERROR), "", "matvec/coalesced was ERROR, PASS is right"),
        ((Verdict.PASS, Verdict.FAIL), "0" * 64, "matvec/coalesced put out 000000000000"),
    ],
)
def test_a_board_that_fails_is_set_aside(
    examining: Coordinator, database: Database, verdicts: tuple[Verdict, ...], digest: str, why: str
) -> None:
    agent = greeted(examining)
    answer(agent, *verdicts, digest=digest)
    with pytest.raises(StaleEpoch):
        agent.ask()
    again = agent.hello()
    assert not again.accepted
    assert why in again.reason
    assert "farm devices --readmit cpu-test-1" in again.reason
    with database.writing() as s:
        trust.readmit(s, DEVICE.slug, 9)
    assert agent.hello().accepted


def put_aside(database: Database, slug: str) -> None:
    """As `farm devices --set-aside` does, in another process."""
    with database.writing() as s:
        trust.set_aside(s, slug, "by hand", 9)


def test_a_board_that_a_person_sets_aside_is_turned_away_at_the_next_tick(
    coordinator: Coordinator, database: Database, clock: Clock
) -> None:
    bad, good = greeted(coordinator), greeted(coordinator, device=OTHER)
    held = bad.ask(4).leases
    put_aside(database, DEVICE.slug)
    coordinator.tick()
    with pytest.raises(StaleEpoch):
        bad.ask()
    again = bad.hello()
    assert (again.accepted, "by hand" in again.reason) == (False, True)
    clock.now += 7
    assert {one.job_id for one in held} <= {one.job_id for one in good.ask().leases}


def test_nothing_is_taken_from_a_board_that_was_set_aside_a_moment_ago(
    coordinator: Coordinator, database: Database
) -> None:
    agent = greeted(coordinator)
    (lease,) = agent.ask(1).leases
    put_aside(database, DEVICE.slug)
    with pytest.raises(StaleEpoch, match="cpu-test-1 is set aside"):
        agent.finish(lease)
    with database.reading() as s:
        assert s.execute(sa.text("SELECT count(*) FROM evidence")).scalar() == 0


def test_answers_are_no_evidence(examining: Coordinator, database: Database) -> None:
    agent = greeted(examining)
    answer(agent, Verdict.PASS, Verdict.FAIL)
    with database.reading() as s:
        assert s.execute(sa.text("SELECT count(*) FROM evidence")).scalar() == 0
        (one,) = trust.standings(s)
    assert (one.aside_us, one.examined_us is not None) == (None, True)


def test_an_exam_comes_back_after_so_many_jobs(examining: Coordinator) -> None:
    agent = greeted(examining)
    answer(agent, Verdict.PASS, Verdict.FAIL)
    leases = agent.ask().leases
    agent.finish(*leases[:4])
    assert agent.ask().leases == ()  # nothing waits
    agent.finish(leases[4])
    assert [is_question(one.attempt_id) for one in agent.ask().leases] == [True] * 3
    agent.finish(leases[5])  # what it holds counts all the same


def test_a_real_worker_on_the_twin_passes_and_finishes(
    examining: Coordinator,
    submitted: Submitted,
    database: Database,
    tmp_path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FARM_STATE", str(tmp_path))
    thread = BoardThread(examining, DEVICE, ("twin",))
    thread.start()
    assert thread.ended.wait(120)
    assert thread.failure == ""
    row = examining.progress(submitted.campaign_id)
    assert (row.is_open, row.done, row.bad) == (False, 6, 0)
    with database.reading() as s:
        assert len(trust.standings(s)) == 1


def test_the_known_wrong_kernel_is_wrong_on_the_host_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FARM_STATE", str(tmp_path))
    pack = exam_catalog().pack
    keep(pack, tmp_path / "packs")
    request = Request(
        "id", question(*WRONG), "host", cpu_device(), pack=pack.address, packs=str(tmp_path / "packs")
    )
    with searched(request):
        line = run_case(request, Host(), ImageCache(FileStore(tmp_path / "files")))
    assert line.verdict is Verdict.FAIL, line.reason
    assert line.comparison is not None
    assert line.comparison.bad > 900


def test_its_catalog_is_fetched_as_any_other(examining: Coordinator) -> None:
    agent = greeted(examining)
    address = agent.ask().leases[1].pack
    assert address == exam_catalog().pack.address
    assert examining.fetch(Fetch(agent.worker_id, agent.epoch, address)).content


def test_a_board_that_contradicts_the_twin_is_set_aside_and_its_jobs_run_again(
    examining: Coordinator, database: Database, submitted: Submitted, make_agent: Callable[..., FakeAgent]
) -> None:
    """The liar reports first; the second board's other bits make the twin the judge between them."""
    liar, honest = greeted(examining), greeted(examining, device=OTHER)
    for agent in (liar, honest):
        answer(agent, Verdict.PASS, Verdict.FAIL)
    leases = liar.ask(3).leases
    exact = [one for one in leases if one.case.build is Build.EXACT]
    lied = tuple(replace(liar.line(one, Verdict.PASS), output_digest="0" * 64) for one in leases)
    examining.complete(Complete(liar.worker_id, liar.epoch, lied))
    of = exact[0].case
    told = replace(liar.line(exact[0], Verdict.PASS), evidence_id="another", attempt_id="", device=OTHER)
    examining.complete(
        Complete(honest.worker_id, honest.epoch, (replace(told, output_digest=twin_digest(of)),))
    )
    with database.reading() as s:
        assert "put out 000000000000" in trust.why_aside(s, DEVICE.slug)
        assert trust.why_aside(s, OTHER.slug) == ""
        waiting = [job for job in jobs_of(s, submitted.campaign_id) if job.state == "waiting"]
    assert len(waiting) == 6
    with pytest.raises(StaleEpoch):
        liar.ask()


def meet(examining: Coordinator, verdicts: tuple[Verdict, Verdict], digests: tuple[str, str], **of: object):
    """Two examined boards that say something of one exact case; the agents, and what was said."""
    agents = [greeted(examining), greeted(examining, device=OTHER)]
    for agent in agents:
        answer(agent, Verdict.PASS, Verdict.FAIL)
    lease = next(one for one in agents[0].ask(6).leases if one.case.build is Build.EXACT)
    lease = replace(lease, case=replace(lease.case, **of))
    right = "" if all(digests) else twin_digest(lease.case)
    for agent, verdict, digest in zip(agents, verdicts, digests, strict=True):
        line = replace(agent.line(lease, verdict), output_digest=digest or right)
        line = replace(line, attempt_id="") if agent.device is OTHER else line
        examining.complete(Complete(agent.worker_id, agent.epoch, (line,)))
    return agents


def test_a_board_that_fails_what_another_of_its_class_passed_is_set_aside(
    examining: Coordinator, database: Database
) -> None:
    meet(examining, (Verdict.PASS, Verdict.FAIL), ("", "0" * 64))
    with database.reading() as s:
        assert trust.why_aside(s, DEVICE.slug) == ""
        assert "put out 000000000000" in trust.why_aside(s, OTHER.slug)


def test_boards_that_agree_are_noted(examining: Coordinator, database: Database) -> None:
    meet(examining, (Verdict.PASS, Verdict.PASS), ("", ""))
    with database.reading() as s:
        pairs = s.execute(sa.text("SELECT device, other, verdict FROM agreement ORDER BY device")).all()
    assert pairs == [(DEVICE.slug, OTHER.slug, "PASS"), (OTHER.slug, DEVICE.slug, "PASS")]


def test_boards_that_differ_where_the_twin_cannot_tell_are_examined_again(
    examining: Coordinator, database: Database
) -> None:
    """The twin settles seeded cases alone up to a size; here neither board can be said to be wrong."""
    large = Shape.of(rows=4000, cols=4096)
    agents = meet(examining, (Verdict.PASS, Verdict.FAIL), ("a" * 64, "b" * 64), shape=large)
    with database.reading() as s:
        assert [one.aside_us for one in trust.standings(s)] == [None, None]
    assert [is_question(one.attempt_id) for agent in agents for one in agent.ask().leases] == [True] * 6


@pytest.mark.parametrize(
    "of",
    [
        {"kinds": ("Q9_Z",)}, {"op": "ffn", "kernel": "block", "kinds": ()}, {"shape": Shape.of(n=1)},
        {"shape": Shape.of(rows=-1, cols=32)}, {"layout": Layout(row_padding=1 << 60)},
        {"x": Seeded("nobody", -1, 99)},
    ],
    ids=str,
)  # fmt: skip
def test_a_case_that_a_worker_made_up_is_not_run_by_the_head(
    examining: Coordinator, database: Database, of: dict[str, object]
) -> None:
    """Its lines are stored as any other's, and the boards that differ over it are examined."""
    agents = meet(examining, (Verdict.PASS, Verdict.PASS), ("a" * 64, "b" * 64), **of)
    with database.reading() as s:
        assert s.execute(sa.text("SELECT count(*) FROM evidence")).scalar() == 2
        assert [one.aside_us for one in trust.standings(s)] == [None, None]
    assert [is_question(one.attempt_id) for agent in agents for one in agent.ask().leases] == [True] * 6


def test_the_twin_settles_small_exact_seeded_cases_without_approximations(agent: FakeAgent) -> None:
    lease = agent.ask().leases[0]
    line = agent.line(lease, Verdict.PASS)
    exact = replace(line, case=replace(line.case, build=Build.EXACT))
    assert settles(exact)
    for case in (
        replace(exact.case, build=Build.DEFAULT),
        replace(exact.case, kernel="nobody"),
        replace(exact.case, op="silu_mul", kernel="flat", kinds=()),
    ):
        assert not settles(replace(exact, case=case))


def test_a_worker_that_was_silent_for_long_is_forgotten_by_all(examining: Coordinator, clock: Clock) -> None:
    """Every life of an agent has an id of its own: a farm meets more of them than it can keep."""
    for _ in range(20):
        greeted(examining).ask()
    kept = greeted(examining)
    assert (len(examining._roll), examining._examiner.workers) == (21, 21)
    for _ in range(3):
        clock.now += 50.0
        kept.renew()
    clock.now += 7.0
    kept.renew()
    assert (len(examining._roll), examining._examiner.workers) == (1, 1)
    assert kept.hello().accepted


def test_a_forgotten_worker_is_asked_for_a_hello_and_examined_again(
    examining: Coordinator, clock: Clock
) -> None:
    agent = greeted(examining)
    answer(agent, Verdict.PASS, Verdict.FAIL)
    clock.now += 200.0
    examining.reap()
    with pytest.raises(StaleEpoch, match="say hello again"):
        agent.ask()
    assert agent.hello().accepted
    assert is_question(agent.ask().leases[0].attempt_id)
