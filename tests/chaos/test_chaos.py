"""A farm loses nothing, whatever is killed, frozen, cut off, filled up or put back: the short version.

python -m tests.chaos is the long one; docs/CHAOS.md says what was seen.
"""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import pytest

from db.session import open_database
from kernels import codec
from tests.chaos.audit import audit, figures
from tests.chaos.clockwork import campaign_of, jumper, work
from tests.chaos.runs import QUICK, play, short
from workers.sim.plan import Shares, SimPlan

SLUGS = ("sim-large-0", "sim-large-1", "sim-small-0")


@pytest.mark.slow
def test_clocks_that_jump_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases end all at once, dates go back by days, heads follow one another; no job is worse for it.

    A job may be LOST, since to the coordinator all its workers were silent three times. No board is flaky:
    one that is may be set aside, and where all of a class are, its jobs wait for another.
    """
    made_of = SimPlan(11, Shares(crash=0, hang=0, wrong=5_000, slow=5_000, lie=0, flaky=0), slow_s=0.4)
    (tmp_path / "plan.json").write_text(codec.canonical(made_of))
    monkeypatch.setenv("FARM_SIM", str(tmp_path / "plan.json"))
    url = f"sqlite:///{tmp_path}/farm.db"
    with closing(open_database(url)) as database:
        campaign_of(database, seeds=40)
        jumps = work(database, tmp_path, made_of, SLUGS, jumper(random.Random(1)))
    assert audit(url, made_of) == []
    seen = figures(url)
    assert jumps > 5
    assert seen["epochs"] == 1 + jumps // 5
    assert seen["jobs"] == 2 * 2 * 2 * 2 * 40
    assert seen["attempts that lost their worker"] > 0


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.timeout(900)
def test_a_ray_farm_on_postgresql_loses_nothing(tmp_path: Path) -> None:
    report = play(short("ray", "postgresql"), tmp_path)
    assert report.broken == (), "\n".join(report.said)
    assert set(report.done) == set(QUICK)
    assert (
        report.figures["jobs"] > 500
    )  # a class whose machines are away gets none of a campaign that ends before


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_gateway_on_sqlite_loses_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = play(short("gateway", "sqlite"), tmp_path)
    with capsys.disabled():
        for line in report.refused:
            print(f"\nNOT DONE: {line}")
    assert report.broken == (), "\n".join(report.said)
    wanted = {"kill a worker", "kill the gateway", "freeze a machine", "many writers"}
    wanted |= {"cut a network"} if not any("network" in line for line in report.refused) else set()
    wanted |= {"fill the disk"} if not any("disk" in line for line in report.refused) else set()
    assert set(report.done) == wanted
    assert (
        report.figures["jobs"] > 500
    )  # a class whose machines are away gets none of a campaign that ends before
