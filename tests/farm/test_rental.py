"""What a budget rents."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner

from farm.cli import main
from farm.prices import Offer
from farm.rental import HOUR_US, START_US, Wanted, plan
from farm.rental_text import commands
from tests.farm.lines import database_with


def offer(device_class: str, usd_hour: str, road: str = "gateway") -> Offer:
    return Offer(device_class, device_class.upper(), Fraction(usd_hour), "somebody", road, False, "a test")


def cells(device_class: str, count: int, case_us: int = 60_000_000, stale: bool = True) -> list[Wanted]:
    return [Wanted(device_class, f"op/k{n:05}/Q4_K/exact", stale, case_us) for n in range(count)]


OFFERS = {"cheap": offer("cheap", "0.10"), "dear": offer("dear", "3.00")}


def test_what_gives_most_cells_for_a_dollar_comes_first_and_all_that_fits_is_bought() -> None:
    found = plan([*cells("dear", 5), *cells("cheap", 5)], OFFERS, Fraction(10))
    assert [rental.offer.device_class for rental in found.rentals] == ["cheap", "dear"]
    assert found.usd == (Fraction("0.10") + 3) * (START_US + 5 * 60_000_000) / HOUR_US
    assert (found.unoffered, found.unaffordable) == ((), ())


def test_a_budget_is_never_passed_and_a_class_in_part_gets_its_quickest_cells() -> None:
    slow = [Wanted("cheap", "op/slow/Q4_K/exact", True, 10 * HOUR_US)]
    found = plan([*slow, *cells("cheap", 3)], OFFERS, Fraction("0.5"))
    assert found.usd <= Fraction("0.5")
    (rental,) = found.rentals
    assert ([cell.cell for cell in rental.cells], rental.left) == (
        [f"op/k{n:05}/Q4_K/exact" for n in range(3)],
        1,
    )


def test_a_start_that_is_not_affordable_rents_nothing() -> None:
    found = plan(cells("dear", 2), OFFERS, Fraction("0.01"))
    assert (found.rentals, found.unaffordable, commands(found)) == ((), (("dear", 2),), [])


def test_classes_that_nobody_offers_are_named() -> None:
    assert plan(cells("unknown", 4), OFFERS, Fraction(1)).unoffered == (("unknown", 4),)


def test_every_cell_is_in_one_place_of_the_plan() -> None:
    wanted = [cell for n in range(20) for cell in cells(f"class-{n}", 500, case_us=1_000_000 * (n + 1))]
    offers = {f"class-{n}": offer(f"class-{n}", f"{n + 1}.37") for n in range(15)}
    found = plan(wanted, offers, Fraction(20))
    counted = sum(len(rental.cells) + rental.left for rental in found.rentals)
    counted += sum(count for _, count in (*found.unoffered, *found.unaffordable))
    assert counted == len(wanted) == 10_000
    assert 0 < found.usd <= 20


def test_the_commands_cap_the_campaign_and_name_a_token_for_a_worker_outside() -> None:
    lines = commands(plan(cells("cheap", 3), OFFERS, Fraction(1)))
    assert any("--only stale --max-cost 0.02 --detach" in line for line in lines)
    assert any(line.startswith("(umask 077; farm token new farm-cheap --device 'cheap*'") for line in lines)
    (launch,) = [line for line in lines if "deploy/sky/gateway-worker.yaml" in line]
    assert launch.startswith("TOKEN=$(cat farm-cheap.token) sky launch ")
    assert " --secret TOKEN " in launch
    both = plan([*cells("cheap", 1), *cells("dear", 1, stale=False)], OFFERS, Fraction(9))
    assert any(" --backend cuda --max-cost" in line for line in commands(both))


def test_the_command_plans_for_every_target_that_nobody_ran(tmp_path: Path) -> None:
    url = database_with(tmp_path, [])
    words = ["plan", "--db", url, "--budget", "1", "--device", "rtx-30*"]
    said = json.loads(CliRunner().invoke(main, [*words, "--json"]).stdout)
    assert {rental["device_class"] for rental in said["rentals"]} == {"rtx-3060", "rtx-3080", "rtx-3090"}
    assert 0 < said["usd"] <= 1
    assert {rental["case_time"] for rental in said["rentals"]} == {"assumed"}
    text = CliRunner().invoke(main, words).stdout
    assert "sky launch -c farm-rtx-3060 " in text
    assert "\nto run:\n" in text


@pytest.mark.parametrize("budget", ["0", "-1", "nan", "inf", "1e400", "ten"])
def test_a_budget_that_is_none_is_one_line(tmp_path: Path, budget: str) -> None:
    refused = CliRunner().invoke(main, ["plan", "--db", database_with(tmp_path, []), "--budget", budget])
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
    assert "--budget" in refused.stderr
