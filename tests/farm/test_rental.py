"""What a budget rents."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from farm import prices
from farm.cli import main
from farm.cluster.head_file import HeadFile
from farm.prices import Offer
from farm.rental import HOUR_US, START_US, STOP_MINUTES, Plan, Wanted, plan
from farm.rental_text import commands
from tests.deploy.tools import ROOT
from tests.farm.lines import database_with


def offer(device_class: str, usd_hour: str, road: str = "gateway") -> Offer:
    return Offer(device_class, device_class.upper(), Fraction(usd_hour), "somebody", road, False, "a test")


def cells(device_class: str, count: int, case_us: int = 60_000_000, stale: bool = True) -> list[Wanted]:
    return [Wanted(device_class, f"op/k{n:05}/Q4_K/exact", stale, case_us) for n in range(count)]


STARTS_MINUTES = 5
OFFERS = {"cheap": offer("cheap", "0.10"), "dear": offer("dear", "3.00")}


def test_what_gives_most_cells_for_a_dollar_comes_first_and_all_that_fits_is_bought() -> None:
    found = plan([*cells("dear", 5), *cells("cheap", 5)], OFFERS, Fraction(10))
    assert [rental.offer.device_class for rental in found.rentals] == ["cheap", "dear"]
    assert found.usd == (Fraction("0.10") + 3) * (START_US + 5 * 60_000_000) / HOUR_US
    assert (found.unoffered, found.unaffordable) == ((), ())


def test_a_budget_is_never_passed_and_a_class_in_part_gets_its_quickest_cells() -> None:
    slow = [Wanted("cheap", "op/slow/Q4_K/exact", True, 10 * HOUR_US)]
    found = plan([*slow, *cells("cheap", 3)], OFFERS, Fraction("0.5"))
    assert found.most_usd <= Fraction("0.5")
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
    assert 0 < found.usd < found.most_usd <= 20


def worst_usd(found: Plan) -> Fraction:
    """What the machines of the printed commands cost that live for as long as those let them."""
    launches = [line for line in commands(found) if "sky launch" in line]
    assert len(launches) == len(found.rentals)
    whole = Fraction()
    for rental, line in zip(found.rentals, launches, strict=True):
        assert f"-c farm-{rental.offer.device_class} " in line
        runs, idle = re.search(r"MINUTES=(\d+) ", line), re.search(r"--idle-minutes-to-autostop (\d+) ", line)
        assert runs
        assert idle
        minutes = STARTS_MINUTES + int(runs[1]) + STOP_MINUTES + int(idle[1])
        whole += rental.offer.usd_hour * minutes / 60
    return whole


@given(
    st.lists(
        st.tuples(st.decimals("0.01", "9", places=2), st.sampled_from(prices.ROADS)), min_size=1, max_size=6
    ),
    st.integers(0, 60),
    st.integers(1, 20 * HOUR_US // 60),
    st.decimals("0.01", "30", places=2),
)
@settings(deadline=None)
def test_whatever_the_machines_do_the_budget_holds(kinds, count, case_us, budget) -> None:
    offers = {f"c{n}": offer(f"c{n}", str(price), road) for n, (price, road) in enumerate(kinds)}
    wanted = [cell for name in offers for cell in cells(name, count, case_us + len(name), count % 2 == 0)]
    found = plan(wanted, offers, Fraction(budget))
    assert worst_usd(found) == found.most_usd <= Fraction(budget)
    work = sum(
        (rental.usd - rental.offer.usd_hour * START_US / HOUR_US for rental in found.rentals), Fraction()
    )
    caps = [Fraction(cap) for cap in re.findall(r"--max-cost ([\d.]+)", "\n".join(commands(found)))]
    assert sum(caps) <= work + Fraction(len(caps), 10_000)
    if not any(rental.offer.road == "bundle" for rental in found.rentals):
        assert sum(caps) >= work


def test_each_class_has_a_capped_campaign_for_its_stale_cells_and_one_for_those_never_run() -> None:
    mixed = [*cells("cheap", 2), *cells("cheap", 3, stale=False), *cells("dear", 1)]
    lines = commands(plan(mixed, OFFERS, Fraction(30)))
    submits = [line.partition(" &&     # ")[::2] for line in lines if line.startswith("farm submit")]
    head = "farm submit --all-kinds --backend cuda --device"
    assert submits == [
        (f"{head} cheap --only never --max-cost 0.0050 --detach", "3 cells"),
        (f"{head} cheap --only stale --max-cost 0.0034 --detach", "2 cells"),
        (f"{head} dear --only stale --max-cost 0.0500 --detach", "1 cells"),
    ]
    assert not [line for line in lines if "leaves out" in line]
    part = commands(plan(cells("dear", 500, HOUR_US // 60), OFFERS, Fraction(9)))
    assert any(re.match(r"# dear: its campaigns may run some of the \d+ cells that", line) for line in part)


def head_at(address: str, gateway: str) -> HeadFile:
    return HeadFile(1, 1, address, (), "sqlite:///farm.db", gateway)


def test_a_head_is_started_where_the_roads_lead_unless_it_runs_there() -> None:
    offers = {"cheap": OFFERS["cheap"], "dear": offer("dear", "3.00", "ray")}
    found = plan([*cells("cheap", 3), *cells("dear", 3)], offers, Fraction(9))
    lines = commands(found)
    assert lines[:6] == [
        "# FARM_HOST=NAME first: by which machines elsewhere reach this one",
        'deploy/wireguard.sh head "${FARM_HOST:?}"',
        "sudo wg-quick up .farm/wireguard/farm.conf && sudo sysctl -w net.ipv4.ip_forward=1",
        "deploy/wireguard.sh firewall 6379 | sudo nft -f -",
        'FARM_SECRETS=.farm/tls deploy/secrets.sh "${FARM_HOST:?}"',
        "farm up --host 10.66.0.1 --firewalled --gateway 0.0.0.0:8443 --cert .farm/tls/gateway.pem "
        "--key .farm/tls/gateway.key",
    ]
    (ray,) = [line for line in lines if "ray-worker.yaml" in line]
    assert "WIREGUARD=$(cat farm-dear.conf) sky launch" in ray
    assert "--env HEAD=10.66.0.1:6379 --secret TOKEN --secret WIREGUARD " in ray
    there = commands(found, head_at("10.66.0.1:7000", "https://0.0.0.0:9443"))
    assert there[1].startswith("farm token new farm-cheap ")
    assert any("--env HEAD=10.66.0.1:7000 " in line for line in there)
    assert any('--env GATEWAY=https://"${FARM_HOST:?}":9443 ' in line for line in there)
    for head, why in (
        (head_at("10.66.0.1:6379", ""), "has no gateway"),
        (
            head_at("192.168.1.2:6379", "https://0.0.0.0:8443"),
            "is at 192.168.1.2:6379, and not at 10.66.0.1, ",
        ),
    ):
        assert commands(found, head)[1].startswith(f"farm down     # the head that runs here {why}")
    bundle = commands(plan(cells("x", 2), {"x": offer("x", "0.10", "bundle")}, Fraction(2)))
    assert bundle[0] == "# x: its bundle begins the whole catalog, the most valuable cases first"


def test_what_ends_the_machines_names_them_alone() -> None:
    """A head that deploy/sky/head.yaml started is called farm-head."""
    assert commands(plan(cells("cheap", 3), OFFERS, Fraction(1)))[-1].startswith("sky down farm-cheap ")


def test_a_machine_is_called_as_none_is_yet() -> None:
    found = plan([*cells("cheap", 3), *cells("dear", 3)], OFFERS, Fraction(9))
    lines = commands(found, taken={"farm-cheap", "farm-cheap-2"})
    assert lines[-1].startswith("sky down farm-cheap-3 farm-dear ")
    named = [line for line in lines if re.search(r"farm-cheap\b(?!-3)", line)]
    assert named == []


TOOLS = {
    "farm": 'echo "farm $*" >>said\n[ "$1" != token ] || exec "$PYTHON" -m farm "$@"',
    "sky": 'echo "sky $1 $3 $TOKEN" >>said',
    "sudo": 'echo "sudo $1" >>said',
    "openssl": "exit 1",
}


def run_commands(folder: Path, lines: list[str], **environ: str) -> subprocess.CompletedProcess[str]:
    """As somebody pastes them; `farm` makes tokens, and notes all else as the others do."""
    (folder / "bin").mkdir(exist_ok=True)
    for name, script in TOOLS.items():
        (folder / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / "bin" / name).chmod(0o755)
    own = {"PATH": f"{folder}/bin:/usr/bin:/bin", "PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        ["bash", "-s"], input="\n".join(lines), env=own | environ, cwd=folder, capture_output=True, text=True
    )


def test_commands_that_are_run_twice_or_without_a_host_rent_nothing(tmp_path: Path) -> None:
    found = plan([*cells("cheap", 2), *cells("cheap", 3, stale=False)], OFFERS, Fraction(1))
    lines = commands(found, head_at("10.0.0.1:6379", "https://0.0.0.0:8443"))
    environ = {"FARM_DB": f"sqlite:///{tmp_path}/farm.db", "FARM_HOST": "farm.example.org"}
    (tmp_path / ".farm/tls").mkdir(parents=True)
    (tmp_path / ".farm/tls/gateway.pem").write_text("a certificate")
    first = run_commands(tmp_path, lines, **environ)
    secret = (tmp_path / "farm-cheap.token").read_text().strip()
    assert (tmp_path / "farm-cheap.token").stat().st_mode & 0o777 == 0o600
    heads = [
        " ".join(line.split()[: 4 if "launch" in line else 3])
        for line in (tmp_path / "said").read_text().splitlines()
    ]
    assert heads == [
        "farm token new", "farm submit --all-kinds", "farm submit --all-kinds",
        f"sky launch farm-cheap {secret}", "farm status --watch", "farm cost", "sky down",
    ], first.stderr  # fmt: skip
    (tmp_path / "said").unlink()
    again = run_commands(tmp_path, lines, **environ)
    assert "farm: farm-cheap.token: File exists; name a file that isn't there yet" in again.stderr
    assert (tmp_path / "farm-cheap.token").read_text().strip() == secret
    assert "launch" not in (tmp_path / "said").read_text()
    assert "submit" not in (tmp_path / "said").read_text()
    del environ["FARM_HOST"]
    fresh = commands(found, head_at("10.0.0.1:6379", "https://0.0.0.0:8443"), taken={"farm-cheap"})
    unset = run_commands(tmp_path, fresh, **environ)
    assert "FARM_HOST: parameter null or not set" in unset.stderr
    assert "launch" not in (tmp_path / "said").read_text()


def test_the_commands_name_a_token_for_a_worker_outside() -> None:
    lines = commands(plan(cells("cheap", 3), OFFERS, Fraction(1)))
    assert "farm token new farm-cheap --device cheap --days 1 --output farm-cheap.token &&" in lines
    (launch,) = [line for line in lines if "deploy/sky/gateway-worker.yaml" in line]
    assert launch.startswith("TOKEN=$(cat farm-cheap.token) sky launch ")
    assert " --secret TOKEN " in launch


def test_the_command_plans_for_every_target_that_nobody_ran(tmp_path: Path) -> None:
    url = database_with(tmp_path, [])
    words = ["plan", "--db", url, "--budget", "1", "--device", "rtx-30*"]
    said = json.loads(CliRunner().invoke(main, [*words, "--json"]).stdout)
    assert {rental["device_class"] for rental in said["rentals"]} == {"rtx-3060", "rtx-3080", "rtx-3090"}
    assert 0 < said["usd"] <= said["most_usd"] <= 1
    for rental in said["rentals"]:
        assert (len(rental["never"]), rental["stale"]) == (rental["cells"], [])
        assert "matvec/block/Q4_K/exact" in rental["never"]
    assert {rental["case_time"] for rental in said["rentals"]} == {"assumed"}
    text = CliRunner().invoke(main, words).stdout
    assert "sky launch -c farm-rtx-3060 " in text
    assert "\nto run:\n" in text
    assert "; --json names them\n" in text


def test_the_command_takes_no_name_of_a_token_or_peer_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".farm/wireguard").mkdir(parents=True)
    (tmp_path / ".farm/wireguard/farm-rtx-3080.peer").touch()
    url = database_with(tmp_path, [])
    made = CliRunner().invoke(main, ["token", "new", "farm-rtx-3060", "--db", url])
    assert made.exit_code == 0
    said = CliRunner().invoke(main, ["plan", "--db", url, "--budget", "1", "--device", "rtx-30*"]).stdout
    found = re.search(r"sky down (.*?)  ", said)
    assert found
    assert set(found[1].split()) == {"farm-rtx-3060-2", "farm-rtx-3080-2", "farm-rtx-3090"}


def test_a_price_file_of_classes_that_nobody_knows_is_told(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    named = "accelerator='A'\nprovider='vast'\nusd_hour=0.1\nsource='today'"
    path.write_text(f"[[offer]]\ndevice_class='rtx3060'\n{named}\n[[offer]]\ndevice_class='t4'\n{named}\n")
    words = ["plan", "--db", database_with(tmp_path, []), "--budget", "1", "--prices", str(path)]
    said = CliRunner().invoke(main, words)
    assert said.stderr.startswith(
        f"farm: {path}: no GPU here or among the targets is a rtx3060; there are a10, "
    )
    assert said.stderr.count("\n") == 1
    assert "; prices: today; --json names them\n" in said.stdout


@pytest.mark.parametrize("budget", ["0", "-1", "nan", "inf", "1e400", "ten"])
def test_a_budget_that_is_none_is_one_line(tmp_path: Path, budget: str) -> None:
    refused = CliRunner().invoke(main, ["plan", "--db", database_with(tmp_path, []), "--budget", budget])
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
    assert "--budget" in refused.stderr
