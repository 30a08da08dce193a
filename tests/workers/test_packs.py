"""A user's folder becomes a pack, is kept under its address, and is loaded by the child that runs it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from kernels import registry
from kernels.catalog import case_of
from kernels.errors import FarmError, UsageError
from kernels.evidence import Verdict
from kernels.model import Build, Seeded, Shape
from kernels.op import Workload
from tests.workers.cases import request_for
from tests.workers.catalogs import DATA, edited
from workers import packs
from workers.isolate import Isolated
from workers.request import Request


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of a small catalog, with files that are no part of it."""
    target = packs.keep(packs.read(DATA / "walk"), tmp_path / "store").rename(tmp_path / "mine")
    for name in (".hidden.toml", "README.md", "rows.o"):
        (target / name).write_text("[")
    (target / "__pycache__").mkdir()
    (target / "__pycache__" / "x.py").write_text("")
    return target


def test_a_pack_has_the_files_of_a_catalog_and_no_others(folder):
    assert [name for name, _ in packs.read(folder).files] == ["rows.cu", "rows.toml"]
    assert packs.read(folder) == packs.read(DATA / "walk")


def test_links_are_refused_by_name(folder):
    (folder / "link.cuh").symlink_to("/etc/passwd")
    with pytest.raises(UsageError, match=r"mine/link.cuh is a symbolic link; copy what it points at"):
        packs.read(folder)
    (folder / "link.cuh").unlink()
    (folder / "up").symlink_to("..", target_is_directory=True)
    with pytest.raises(UsageError, match=r"mine/up is a symbolic link"):
        packs.read(folder)


def test_what_is_no_regular_file_is_refused(folder):
    os.mkfifo(folder / "pipe.cu")
    with pytest.raises(UsageError, match=r"pipe.cu is no regular file"):
        packs.read(folder)


def test_a_large_file_is_refused_before_it_is_read(folder):
    with (folder / "big.cubin").open("wb") as file:
        file.truncate(20 << 20)
    with pytest.raises(UsageError, match=r"big.cubin has 20,971,520 bytes, the most .* 16,777,216"):
        packs.read(folder)


def test_too_many_files_are_refused(folder):
    for number in range(1000):
        (folder / f"{number}.h").touch()
    with pytest.raises(UsageError, match=r"a catalog of 1,001 files, the most are 1,000"):
        packs.read(folder)


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"nowhere is no folder; name one with a .toml declaration"):
        packs.read(tmp_path / "nowhere")


def test_a_pack_is_kept_once_and_loaded_by_its_address(tmp_path):
    pack = packs.read(DATA / "engine")
    target = packs.keep(pack, tmp_path)
    (target / "mark").touch()
    assert packs.keep(pack, tmp_path) == target
    assert [one.name for one in tmp_path.iterdir()] == [pack.address]
    assert list(packs.load(pack.address, tmp_path).kernels) == ["matvec/int8"]


def test_a_pack_that_is_away_or_changed_is_no_catalog(tmp_path):
    pack = packs.read(DATA / "walk")
    with pytest.raises(
        FarmError, match=rf"catalog {pack.address[:12]} is not here; it is looked for in {tmp_path}"
    ):
        packs.load(pack.address, tmp_path)
    (packs.keep(pack, tmp_path) / "rows.cu").write_text("")
    with pytest.raises(FarmError, match=rf"is not catalog {pack.address[:12]} any more but"):
        packs.load(pack.address, tmp_path)


def asked(tmp_path: Path, edits: tuple[tuple[str, str], ...] = (), **changes: object) -> Request:
    """A request for the walk catalog's kernel, with edits of its text, kept below `tmp_path`."""
    mine = edited("walk", {"rows.cu": edits})
    packs.keep(mine.pack, tmp_path)
    drawn = Seeded("ordinary", 0, 1)
    case = case_of(
        mine.kernels["matvec/rows"], ("Q8_0",), Workload(Shape.of(rows=5, cols=64)), drawn, Build.EXACT
    )
    whole = replace(request_for(case, "host"), pack=mine.pack.address, packs=str(tmp_path))
    return replace(whole, **changes)


def test_one_child_runs_one_catalog_after_another(tmp_path):
    wrong = (("lane == 0", "lane == 1"),)
    slot = Isolated()
    try:
        answers = [
            slot.run(request, 60)
            for request in (
                asked(tmp_path),
                asked(tmp_path, wrong),
                asked(tmp_path),
                asked(tmp_path, pack=""),
            )
        ]
        away = slot.run(asked(tmp_path, packs=str(tmp_path / "other")), 60)
    finally:
        slot.close()
    assert [one.verdict for one in answers] == [Verdict.PASS, Verdict.FAIL, Verdict.PASS, Verdict.ERROR]
    assert answers[0].source_digest == answers[2].source_digest != answers[1].source_digest
    assert "no kernel named 'matvec/rows'" in answers[3].reason
    assert (away.verdict, "is not here; it is looked for in" in away.reason) == (Verdict.ERROR, True)
    assert "matvec/rows" not in registry.all_kernels()
