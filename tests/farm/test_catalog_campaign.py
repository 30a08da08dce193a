"""A user's catalog through a campaign: stored, fetched, judged, stale when it changes, carried in bundles."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from db import pack
from db.campaign import campaigns
from db.session import open_existing
from farm.cli import main
from tests.workers.catalogs import DATA
from workers import packs
from workers.command import main as workers_main

SHAPES = ("--shape", "9x64", "--shape", "1x32")
NAME = "matvec/rows"
Farm = Callable[..., Result]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(DATA / "walk", tmp_path / "walk")
    return tmp_path / "walk"


@pytest.fixture
def farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Farm:
    """The command line in a folder and a state of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FARM_STATE", str(tmp_path / "state"))
    return lambda *words: CliRunner().invoke(main, [*map(str, words)])


def submit(farm: Farm, folder: Path, *words: str) -> Result:
    return farm("submit", "--catalog", folder, *SHAPES, "--local", "--json", *words)


def cells(farm: Farm) -> dict[str, tuple[str | None, list[str]]]:
    """Build to verdict and flags, of the catalog's kernel on the host."""
    told = json.loads(farm("export", "--format", "json").stdout)
    mine = [cell for cell in told["cells"] if (cell["kernel"], cell["backend"]) == ("rows", "host")]
    return {cell["build"]: (cell["verdict"], cell["flags"]) for cell in mine}


def change(folder: Path, old: str, new: str) -> None:
    path = folder / "rows.cu"
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def test_a_catalog_passes_in_its_three_builds_and_nothing_else_runs(farm: Farm, folder: Path) -> None:
    said = submit(farm, folder)
    assert said.exit_code == 0, said.stderr
    assert json.loads(said.stdout)["verdicts"] == {"PASS": 6}
    assert cells(farm) == dict.fromkeys(("exact", "default", "declared"), ("PASS", []))


def test_a_broken_copy_fails_and_the_old_verdict_is_stale_meanwhile(farm: Farm, folder: Path) -> None:
    submit(farm, folder)
    change(folder, "step = 16", "step = 8")
    said = submit(farm, folder, "--build", "exact")
    assert said.exit_code == 3, said.stderr
    assert json.loads(said.stdout)["verdicts"] == {"FAIL": 2}
    assert cells(farm) == {
        "exact": ("FAIL", []),
        "default": ("PASS", ["stale"]),
        "declared": ("PASS", ["stale"]),
    }
    shown = farm("show", f"cpu-x86_64/host/{NAME}/Q8_0/exact").stdout
    assert "farm run --catalog DIR --case" in shown


def test_a_kernel_that_crashes_is_a_crash_and_not_lost(farm: Farm, folder: Path) -> None:
    change(folder, "out[row] = sum;", "out[row + (1 << 28)] = sum;")
    said = submit(farm, folder, "--build", "exact")
    assert said.exit_code == 3, said.stderr
    assert json.loads(said.stdout)["verdicts"] == {"CRASH": 2}


def test_a_retry_takes_the_catalog_that_was_submitted(farm: Farm, folder: Path, tmp_path: Path) -> None:
    change(folder, "step = 16", "step = 8")
    assert submit(farm, folder, "--build", "exact").exit_code == 3
    change(folder, "step = 8", "step = 16")
    submit(farm, folder, "--build", "exact")
    shutil.rmtree(folder)
    said = farm("retry", "1", "--local", "--json")
    assert said.exit_code == 3, said.stderr
    assert json.loads(said.stdout)["verdicts"] == {"FAIL": 2}
    with open_existing(f"sqlite:///{tmp_path}/.farm/farm.db").reading() as s:
        packs_of = {row.id: row.pack for row in campaigns(s)}
    assert packs_of[3] == packs_of[1] != packs_of[2]
    assert farm("retry", "2", "--verdict", "PASS", "--local").exit_code == 0


def test_another_machine_fetches_the_catalog_from_the_database(
    farm: Farm, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalog's folder and the state of whoever submitted are gone when the work is done."""
    assert submit(farm, folder, "--detach").exit_code == 0
    shutil.rmtree(folder)
    monkeypatch.setenv("FARM_STATE", str(tmp_path / "elsewhere"))
    said = farm("resume", "--local", "--json", "--db", f"sqlite:///{tmp_path}/.farm/farm.db")
    assert said.exit_code == 0, said.stderr
    assert json.loads(said.stdout)["verdicts"] == {"PASS": 6}
    assert len(list((tmp_path / "elsewhere" / "packs").iterdir())) == 1


def test_a_catalog_that_the_database_lost_is_an_error_and_no_verdict_about_the_kernel(
    farm: Farm, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(farm, folder, "--detach")
    database = open_existing(f"sqlite:///{tmp_path}/.farm/farm.db")
    with database.writing() as s:
        s.exec_driver_sql("UPDATE blob SET content = x'00' WHERE sha256 IN (SELECT address FROM pack)")
    said = farm("resume", "--local", "--json")
    assert said.exit_code == 3
    assert json.loads(said.stdout)["verdicts"] == {"ERROR": 6}
    with database.reading() as s:
        (row,) = campaigns(s)
        (address,) = {row.pack}
        assert address in pack.newest(s).values()


def test_a_bundle_brings_its_catalog_along(farm: Farm, folder: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "box.jsonl"
    words = ("run", "--catalog", folder, "--shape", "matvec:9x64", "--build", "exact", "--bundle", bundle)
    assert workers_main([*map(str, words)]) == 0
    said = farm("import", bundle)
    assert (said.exit_code, said.stdout) == (0, f"{bundle}: 1 new, 0 were here already\n")
    assert cells(farm)["exact"] == ("PASS", [])


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (
            ("--kernel", "matvec/block"),
            "no kernel of the catalog named 'matvec/block'; there are matvec/rows",
        ),
        (("--gguf", "x.gguf"), "--catalog and --gguf don't go together"),
        (("--shape", "9x33x1"), "shape '9x33x1' is not one of matvec's"),
    ],
)
def test_words_that_do_not_fit_a_catalog(farm: Farm, folder: Path, words: tuple[str, ...], why: str) -> None:
    said = farm("submit", "--catalog", folder, *words)
    assert said.exit_code == 2
    assert why in said.stderr
    assert said.stderr.count("\n") == 1


def test_a_mistake_is_said_before_anything_is_stored(farm: Farm, folder: Path, tmp_path: Path) -> None:
    path = folder / "rows.toml"
    path.write_text(path.read_text().replace('"rows", "blocks"]', '"rows", "blocsk"]'))
    said = submit(farm, folder)
    assert said.exit_code == 2
    assert said.stderr.startswith("farm: rows.toml:22: no buffer, scalar or size named")
    assert not (tmp_path / ".farm").exists()


@pytest.mark.parametrize("text", ["", "!", "AAAA", packs.shipped(b"x")[:-6]])
def test_what_came_damaged_is_no_catalog(text: str) -> None:
    with pytest.raises(packs.FarmError, match="the catalog that came is"):
        packs.received(text)


def test_a_catalog_that_would_unpack_to_too_much_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packs, "MOST_STREAM_BYTES", 1000)
    assert packs.received(packs.shipped(b"x" * 1000)) == b"x" * 1000
    with pytest.raises(packs.FarmError, match="more than 1,000 bytes"):
        packs.received(packs.shipped(b"x" * 100_000))
