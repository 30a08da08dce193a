"""Dollars for what leases held."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner

from db.lease_time import Held
from farm import prices
from farm.cli import main
from farm.cost import HOUR_US, spent, total
from kernels.errors import FarmError
from tests.farm.lines import database_with, line_of


def lease(campaign: int, board: str, charged_us: int) -> Held:
    return Held(campaign, board, board.partition("-")[0], "cuda", "c" * 64, 0, charged_us, charged_us)


def test_sums_are_exact_whatever_they_are_added_up_by() -> None:
    leases = [lease(1, "a-0", 7), lease(2, "a-1", HOUR_US // 3), lease(1, "b-0", 11)]
    known = {"a-0": Fraction("0.1"), "a-1": Fraction(3)}
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
        ((("price", "0 USD/h"),), None),
        ((("price", "9" * 400 + " USD/h"),), None),  # more than a float holds
        ((("sm", "sm_86"),), None),
    ],
)
def test_a_board_tells_its_price_in_its_fingerprint(words, price) -> None:
    assert prices.said(words) == price


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


def test_a_damaged_catalog_of_skypilot_is_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "v7" / "runpod"
    folder.mkdir(parents=True)
    (folder / "vms.csv").write_bytes(b"AcceleratorName\n\xff\n")
    with pytest.raises(FarmError, match=r"vms\.csv: .*; --prices FILE instead"):
        prices.sky_offers(tmp_path)


def test_the_command_adds_up_nothing_where_nothing_was_leased(tmp_path: Path) -> None:
    url = database_with(tmp_path, [line_of()])
    said = CliRunner().invoke(main, ["cost", "--db", url, "--json"])
    assert (said.exit_code, json.loads(said.stdout)["total"]["usd_exact"]) == (0, "0/1")
    unknown = CliRunner().invoke(main, ["cost", "7", "--db", url])
    assert (unknown.exit_code, unknown.stderr.count("\n")) == (2, 1)
    assert "no campaign 7" in unknown.stderr
