"""Dollars for what leases held."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from db import device
from db.lease_time import Held
from db.session import Database, open_existing
from db.tables import attempt
from farm import prices
from farm.cli import main
from farm.cost import HOUR_US, spent, total
from farm.hourly import Tariff, by_board
from kernels import codec
from kernels.errors import FarmError
from kernels.model import Device
from tests.farm.lines import database_with, line_of
from tests.farm.test_rental import offer
from workers.machine import cpu_device
from workers.sim import plan as plans
from workers.sim.plan import Shares, SimPlan


def lease(campaign: int, board: str, charged_us: int) -> Held:
    return Held(campaign, board, board.partition("-")[0], "cuda", "c" * 64, 0, charged_us, charged_us)


def test_a_lease_costs_what_its_board_did_when_it_began() -> None:
    known = {"a-0": Tariff((Fraction(1), None, Fraction(4)), (10, 20))}
    leases = [replace(lease(1, "a-0", HOUR_US), leased_us=us) for us in (0, 9, 10, 19, 20, 99)]
    (row,) = spent(leases, known, lambda one: one.device)
    assert (row.usd, row.unpriced_us, row.held_us) == (1 + 1 + 4 + 4, 2 * HOUR_US, 6 * HOUR_US)


def test_a_price_that_a_worker_is_told_later_changes_nothing_of_before(database: Database) -> None:
    states = [(5, "0.22"), (50, "36"), (90, "0.22")]
    with database.writing() as s:
        for seen_us, usd in states:
            device.see(s, Device("r-0", "r", "R", "GPU-0", 1, (("price", f"{usd} USD/h"),)), seen_us)
    with database.reading() as s:
        tariff = by_board(s, {"r-0"})["r-0"]
    assert [tariff.at(us) for us in (0, 5, 49, 50, 89)] == [Fraction("0.22")] * 3 + [36] * 2


def test_sums_are_exact_whatever_they_are_added_up_by() -> None:
    leases = [lease(1, "a-0", 7), lease(2, "a-1", HOUR_US // 3), lease(1, "b-0", 11)]
    known = {"a-0": Tariff((Fraction("0.1"),)), "a-1": Tariff((Fraction(3),)), "b-0": Tariff((None,))}
    by_campaign = spent(leases, known, lambda one: str(one.campaign_id))
    by_class = spent(leases, known, lambda one: one.device_class)
    want = Fraction("0.1") * 7 / HOUR_US + 1
    assert total(by_campaign).usd == total(by_class).usd == want
    assert {row.name: (row.usd, row.unpriced_us) for row in by_class} == {"a": (want, 0), "b": (0, 11)}
    assert [row.name for row in by_campaign] == ["2", "1"]


@pytest.mark.parametrize(
    ("words", "price"),
    [
        ((("price", "1.19 USD/h"),), Fraction("1.19")),
        ((("price", "2usd/h"),), Fraction(2)),
        ((("price", "1,19 EUR"),), None),
        ((("price", "0 USD/h"),), Fraction(0)),
        ((("price", "9" * 400 + " USD/h"),), None),  # more than a float holds
        ((("sm", "sm_86"),), None),
        *(((("price", text),), None) for text in ("nan USD/h", "inf USD/h", "-1 USD/h", "1e309 USD/h")),
        *(((("price", text),), None) for text in ("0.40 EUR/h", "0.40", "٣ EUR/h", "1000 USD/h", "")),
    ],
)
def test_a_board_tells_its_price_in_its_fingerprint(words, price) -> None:
    assert prices.said(words) == price


@pytest.mark.parametrize("price", [Fraction("0.40"), Fraction(2), Fraction("0.3456789"), Fraction("999.99")])
def test_a_price_is_read_as_it_is_written(price: Fraction) -> None:
    assert prices.said([("price", prices.as_said(price))]) == price


@pytest.mark.parametrize(
    ("words", "is_rented", "given", "costs"),
    [
        ((("price", "1.19 USD/h"),), True, "7", Fraction("1.19")),
        ((), True, "7", Fraction(7)),
        ((), False, "7", Fraction(7)),
        ((), True, "", Fraction("0.22")),
        ((), False, "", Fraction(0)),
    ],
)
def test_a_label_outranks_the_table_given_and_that_the_list_which_is_for_rented_boards(
    words, is_rented, given, costs
) -> None:
    board = Device("rtx-3090-0", "rtx-3090", "RTX 3090", "GPU-0", fingerprint=words)
    table = {"rtx-3090": offer("rtx-3090", given)} if given else {}
    listed = {"rtx-3090": offer("rtx-3090", "0.22")}
    assert prices.hourly(board, is_rented, table, listed) == costs
    assert prices.hourly(board, True, {}, {}) == prices.said(words)


def test_a_price_of_a_cpu_board_is_in_its_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARM_LABELS", "price=0.05 USD/h,provider=hetzner")
    found = dict(cpu_device().fingerprint)
    assert (found["price"], found["provider"]) == ("0.05 USD/h", "hetzner")


@pytest.mark.parametrize(
    "price", ["0.40 EUR/h", "0.40", "nan USD/h", "-1 USD/h", "1e309 USD/h", "5000 USD/h"]
)
def test_a_price_that_is_none_is_refused_where_it_is_told(
    monkeypatch: pytest.MonkeyPatch, price: str
) -> None:
    """Else the board would cost what the farm's list says, or nothing."""
    monkeypatch.setenv("FARM_LABELS", f"provider=vast,price={price}")
    refused = CliRunner().invoke(main, ["submit", "--all-kinds", "--backend", "twin", "--local"])
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
    assert f"FARM_LABELS: price is '{price}'; dollars an hour below 1000 are wanted" in refused.stderr


def test_the_farms_own_prices_are_of_target_boards_and_say_whose_they_are() -> None:
    found = prices.offers()
    assert len(found) > 10
    assert all(offer.source and offer.road in prices.ROADS for offer in found)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", r"has no \[\[offer\]\]"),
        ("offer = 3", r"has no \[\[offer\]\]"),
        ("[[offer]", "p.toml: "),
        ("[[offer]]\naccelerator='A'\nusd_hour=1\nprovider='x'", "offer 1: device_class is None"),
        ("[[offer]]\ndevice_class='a'\naccelerator='A'\nusd_hour=-1\nprovider='x'", "usd_hour is -1"),
        ("[[offer]]\ndevice_class='a'\naccelerator='A'\nprovider='x'", "usd_hour is None"),
        ("[[offer]]\ndevice_class='a'\naccelerator='A'\nusd_hour=nan\nprovider='x'", "usd_hour is nan"),
        (
            "[[offer]]\ndevice_class='a'\naccelerator='A'\nusd_hour=1e-320\nprovider='x'",
            "0.001 or more and below",
        ),
        ("[[offer]]\ndevice_class='a'\naccelerator='A'\nusd_hour='1'\nprovider='x'", "usd_hour is '1'"),
        (
            "[[offer]]\ndevice_class='a'\naccelerator='A'\nusd_hour=1\nprovider='x'\nusd_hours=2",
            "no field is called 'usd_hours'; there are device_class, ",
        ),
        (
            "[[offer]]\ndevice_class='a'\naccelerator='A'\nusd_hour=1\nprovider='x'\nroad='sea'",
            "road is 'sea'",
        ),
        (
            "[[offer]]\ndevice_class='a'\naccelerator='A'\nusd_hour=1\nprovider='x'\nspot='no'",
            "spot is 'no'; true or false is wanted",
        ),
        ("[[offer]]\ndevice_class='a; rm x'\naccelerator='A'\nusd_hour=1\nprovider='x'", "'a; rm x'; a name"),
        ("a = " + "[" * 3000 + "]" * 3000, "p.toml: "),
    ],
)
def test_a_wrong_price_file_is_one_line(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "p.toml"
    path.write_text(text)
    with pytest.raises(FarmError, match=why) as error:
        prices.offers(path)
    assert "\n" not in str(error.value).strip()


def test_skypilots_catalog_outranks_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "v7" / "runpod"
    folder.mkdir(parents=True)
    (folder / "vms.csv").write_text(
        "InstanceType,AcceleratorName,AcceleratorCount,Price,SpotPrice\n"
        "1x,RTX4090,1.0,0.69,0.34\n2x,RTX4090,2.0,1.38,\n1x,Unknown,1.0,0.01,\n"
        "1x,RTX4090,1.0,0,0.0\nshort\n1x,RTX4090,1.0,1,,too,long\n"
    )
    found = prices.sky_offers(tmp_path)
    assert {(o.device_class, o.usd_hour, o.spot) for o in found} == {
        ("rtx-4090", Fraction("0.69"), False),
        ("rtx-4090", Fraction("0.34"), True),
        ("rtx-4090", Fraction(1), False),
    }
    assert prices.cheapest(found)["rtx-4090"].spot


@pytest.mark.parametrize(
    ("where", "row"),
    [
        ("v7/runpod", "1x,RTX4090,1.0,0.01,"),  # an older schema's, which SkyPilot no longer renews
        ("v8/gcp", ",RTX4090,1.0,0.01,"),  # the board without its host
        ("v8/hyperbolic", "1x,RTX4090,1.0,0.01,"),  # SkyPilot can't end a machine there
    ],
)
def test_an_offer_of_skypilots_catalog_that_would_not_hold_is_left_out(
    tmp_path: Path, where: str, row: str
) -> None:
    for folder, line in (("v8/runpod", "1x,RTX4090,1.0,0.69,"), (where, row)):
        (tmp_path / folder).mkdir(parents=True)
        text = f"InstanceType,AcceleratorName,AcceleratorCount,Price,SpotPrice\n{line}\n"
        (tmp_path / folder / "vms.csv").write_text(text)
    assert [offer.usd_hour for offer in prices.sky_offers(tmp_path)] == [Fraction("0.69")]


def test_skypilots_catalog_is_looked_for_where_skypilot_puts_it(tmp_path: Path) -> None:
    assert prices.sky_folder({"SKY_RUNTIME_DIR": str(tmp_path)}) == tmp_path / ".sky/catalogs"
    assert prices.sky_folder({}) == Path.home() / ".sky/catalogs"


def test_a_damaged_catalog_of_skypilot_is_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "v7" / "runpod"
    folder.mkdir(parents=True)
    (folder / "vms.csv").write_bytes(b"AcceleratorName\n\xff\n")
    with pytest.raises(FarmError, match=r"vms\.csv: .*; --prices FILE instead"):
        prices.sky_offers(tmp_path)


@pytest.mark.parametrize("labels", ["price=0.40 USD/h", "price=1.19 USD/h,provider=vast", ""])
def test_the_command_is_exact_for_a_simulated_farm(
    farm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, labels: str
) -> None:
    """To the microsecond: attempts of one board that works through its cases one after the other."""
    path = tmp_path / "plan.json"
    path.write_text(codec.canonical(SimPlan(1, Shares(0, 0, 0, 0, 0, 0))))
    monkeypatch.setenv(plans.PLAN_FILE, str(path))
    monkeypatch.setenv(plans.BOARDS, "sim-large-0")
    monkeypatch.setenv("FARM_LABELS", labels)
    words = ("submit", "--kernel", "matvec/block", "--kind", "Q4_0", "--shape", "3x64", "--backend", "sim")
    ran = farm(*words, "--local", "--json")
    assert ran.exit_code == 0, ran.stderr
    with open_existing(f"sqlite:///{tmp_path}/.farm/farm.db").reading() as s:
        spans = [tuple(row) for row in s.execute(sa.select(attempt.c.leased_us, attempt.c.ended_us))]
    held_us = covered(spans)
    price = prices.said([("price", labels.partition("=")[2].partition(",")[0])]) or Fraction()
    want = price * held_us / HOUR_US
    for by in ("campaign", "class", "board", "cell"):
        total = json.loads(farm("cost", "--by", by, "--json").stdout)["total"]
        assert total["leases"] == len(spans) > 0
        assert (total["held_us"], Fraction(total["usd_exact"]), total["unpriced_us"]) == (held_us, want, 0)


def covered(spans: list[tuple[int, int]]) -> int:
    """Microseconds that at least one span covers."""
    whole, at = 0, 0
    for begin, end in sorted(spans):
        whole, at = whole + max(0, end - max(at, begin)), max(at, end)
    return whole


def test_the_command_adds_up_nothing_where_nothing_was_leased(tmp_path: Path) -> None:
    url = database_with(tmp_path, [line_of()])
    said = CliRunner().invoke(main, ["cost", "--db", url, "--json"])
    assert (said.exit_code, json.loads(said.stdout)["total"]["usd_exact"]) == (0, "0/1")
    unknown = CliRunner().invoke(main, ["cost", "7", "--db", url])
    assert (unknown.exit_code, unknown.stderr.count("\n")) == (2, 1)
    assert "no campaign 7" in unknown.stderr
