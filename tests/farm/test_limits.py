"""Campaigns that stop by themselves."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from db import campaign, device, lease_time
from db.session import open_existing
from farm import limits
from farm.campaign import Order
from farm.cli import main
from farm.coordinator import Coordinator
from farm.cost import HOUR_US
from farm.limits import Standing
from farm.steering import go_on
from kernels import codec
from kernels.catalog import Selection
from kernels.errors import FarmError
from kernels.evidence import Rule
from kernels.model import Device
from tests.db.making import HOST, WORKER, Farm, answer, case, planned
from tests.farm.lines import database_with
from workers.clock import wall_clock

PRICED = Device(WORKER.device, WORKER.device_class, "Some CPU", "uuid-0", 2, (("price", "3.60 USD/h"),))


def limited(farm: Farm, board: Device = PRICED, **what: float) -> int:
    order = Order(Selection(), ("host",), **what)
    with farm.database.writing() as s:
        device.see(s, board, 1)
        cases = planned([case(n) for n in range(1, 5)])
        return campaign.create(
            s, selection=codec.canonical(order), rule=Rule.BOUND, planned=cases, targets=(HOST,), now_us=1
        )


@pytest.fixture
def farm(tmp_path: Path) -> Farm:
    return Farm(open_existing(database_with(tmp_path, [])))


def stopped(farm: Farm, at_us: int) -> dict[int, str]:
    with farm.database.writing() as s:
        standings = limits.standings(s, at_us, farm.epoch)
        found = {number: one.why for number, one in standings.items() if one.why}
        limits.stop(s, found, at_us)
    return found


def test_hours_count_from_the_first_lease_and_what_is_past_them_is_leased_no_more(farm: Farm) -> None:
    number = limited(farm, max_hours=0.5)
    assert stopped(farm, 9 * HOUR_US) == {}
    (first,) = farm.lease(1)  # at 2
    assert stopped(farm, HOUR_US // 2 + 1) == {}
    assert stopped(farm, HOUR_US // 2 + 2) == {number: "0.50 of 0.5 hours are over"}
    assert stopped(farm, HOUR_US) == {}  # it is paused by now
    assert farm.lease(9) == ()
    assert not farm.owes()
    farm.complete(answer(first))  # what it held goes on
    with farm.database.reading() as s:
        assert campaign.campaign_row(s, number).done == 1


def test_dollars_are_what_its_boards_leases_cost(farm: Farm) -> None:
    number = limited(farm, max_usd=1.8)  # half an hour of a board for 3.60
    farm.lease(2)
    assert stopped(farm, HOUR_US // 2 + 1) == {}
    assert stopped(farm, HOUR_US // 2 + 2) == {number: "1.80 of 1.8 dollars are spent"}


UNPRICED = Device(WORKER.device, WORKER.device_class, "Some CPU", "uuid-0", 2)


def test_a_board_of_ones_own_costs_nothing_and_a_rented_one_without_a_price_is_named(
    farm: Farm,
) -> None:
    number = limited(farm, UNPRICED, max_usd=0.01)
    first, _ = farm.lease(2)
    with farm.database.reading() as s:
        assert limits.standings(s, HOUR_US, farm.epoch) == {number: Standing("", "--max-cost USD")}
    farm.complete(answer(first, trust="rented"))
    with farm.database.reading() as s:
        (found,) = limits.standings(s, HOUR_US, farm.epoch).values()
    assert (found.why, found.unpriced) == ("", (WORKER.device,))
    assert found.warning.startswith(f"--max-cost doesn't count {WORKER.device}: rented, and no price")
    status = ["status", "--db", str(farm.database.engine.url)]
    assert f"\n  {found.warning}\n" in CliRunner().invoke(main, status).stdout
    said = json.loads(CliRunner().invoke(main, [*status, "--json"]).stdout)
    assert said["campaigns"][0]["warning"] == found.warning


def test_a_coordinator_warns_once_of_what_a_limit_does_not_see(
    farm: Farm, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("farm.coordinator.LIMITS_S", 0.0)
    limited(farm, replace(UNPRICED, fingerprint=(("provider", "vast"),)), max_usd=0.01)
    farm.lease(1)
    coordinator = Coordinator(farm.database, "c" * 64)
    for _ in range(3):
        coordinator.reap()
    (line,) = [record for record in caplog.records if record.message == "campaign's cost isn't known"]
    assert (line.levelname, WORKER.device in vars(line)["reason"]) == ("WARNING", True)


def test_two_limited_campaigns_on_one_board_stop_by_their_own_shares(farm: Farm) -> None:
    """Together they have the board for an hour, at 3.60: what one spends the other doesn't."""
    one, two = limited(farm, max_usd=3.5), limited(farm, max_usd=0.1)
    farm.complete(*(answer(lease) for lease in farm.lease(4)))  # all of the first: 2 to 20
    farm.lease(2)  # at 2, of the second: its own from 20 on
    assert stopped(farm, 100_000_020 - 1) == {}
    assert stopped(farm, 100_000_020) == {two: "0.1000 of 0.1 dollars are spent"}
    assert stopped(farm, 9 * HOUR_US) == {}
    with farm.database.reading() as s:
        assert campaign.campaign_row(s, one).paused_us is None


def test_a_campaign_without_a_limit_goes_on(farm: Farm) -> None:
    limited(farm)
    farm.lease(2)
    assert stopped(farm, 1000 * HOUR_US) == {}


def test_leases_of_before_a_campaign_cost_it_nothing(farm: Farm) -> None:
    limited(farm)
    farm.complete(*(answer(lease) for lease in farm.lease()))  # 2 to 20
    with farm.database.reading() as s:
        assert sum(one.charged_us for one in lease_time.held(s, 50)) == 18
        assert lease_time.held(s, 50, since_us=21) == ()


def test_submit_stops_and_resume_wants_a_higher_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farm.coordinator.LIMITS_S", 0.0)
    url = f"sqlite:///{tmp_path}/farm.db"
    words = ["--op", "silu_mul", "--backend", "twin", "--local", "--db", url]
    said = CliRunner().invoke(main, ["submit", *words, "--max-hours", "0.000000001"])
    assert said.exit_code == 130, said.output
    why = "stopped by itself: 0.00 of 1e-09 hours are over; farm resume 1 --max-hours HOURS with more goes on"
    assert f"campaign 1 {why}\n" in said.stderr
    assert f"\n  {why}\n" in CliRunner().invoke(main, ["status", "--db", url]).stdout
    with pytest.raises(FarmError, match="1e-09 hours are over; farm resume 1 --max-hours HOURS with more"):
        go_on(open_existing(url), 1, wall_clock())
    again = CliRunner().invoke(main, ["resume", "1", "--local", "--db", url])
    assert (again.exit_code, again.stderr.count("\n")) == (1, 1)
    assert "campaign 1 stopped by itself: " in again.stderr
    assert "; farm resume 1 --max-hours HOURS with more goes on" in again.stderr
    done = CliRunner().invoke(main, ["resume", "1", "--local", "--max-hours", "9", "--json", "--db", url])
    assert done.exit_code == 0, done.output
    assert set(json.loads(done.stdout)["verdicts"]) == {"PASS"}


@pytest.mark.parametrize("words", [("--max-cost", "0"), ("--max-cost", "much"), ("--max-hours", "-1")])
def test_what_is_no_limit_is_one_line(words: tuple[str, ...]) -> None:
    said = CliRunner().invoke(main, ["submit", "--all-kinds", *words])
    assert (said.exit_code, said.stderr.count("\n")) == (2, 1)
