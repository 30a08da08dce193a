"""What no case and no device reaches."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from db import device
from db.session import open_existing
from farm.cli import main
from farm.coverage import cover
from kernels import catalog
from kernels.catalog import Planned, Selection
from kernels.families import FAMILIES
from kernels.tiers import Tier
from tests.farm.grids import GPU
from tests.farm.lines import case_of, database_with, line_of

HOST = ("cpu-x86_64", "host")


def test_counts_are_of_the_planned_cases_alone() -> None:
    wanted, other = case_of(rows=3), case_of(rows=4)
    (one,) = cover([Planned(wanted, 1)], {HOST: {wanted.id, other.id}})
    assert (one.kernel, one.cases, one.reached, one.lacks(HOST)) == ("matvec/block", 1, ((HOST, 1),), 0)
    assert one.shapes_unreached == ()


def test_what_no_device_ran_is_named_and_what_no_case_has_apart_from_it() -> None:
    planned = [Planned(case_of(kind, rows=rows), 1) for kind in ("Q4_0", "Q4_K") for rows in (3, 4)]
    (one,) = cover(planned, {HOST: {planned[0].case.id}})
    assert (one.kinds_unreached, one.shapes_unreached) == (("Q4_K",), ("4x256",))
    assert (one.lacks(HOST), one.lacks(("rtx-3060", "cuda"))) == (3, 4)
    assert (one.families_unreached, set(one.no_case)) == ((), set(FAMILIES) - {"ordinary"})


def test_the_command_counts_and_says_what_to_submit(tmp_path: Path) -> None:
    (first, *rest) = catalog.expand(Selection(kernels=("matvec/block",), kinds=("Q4_0",)))
    url = database_with(tmp_path, [line_of(case=first.case)])
    words = ["coverage", "--db", url, "--kernel", "matvec/block", "--kind", "Q4_0"]
    (one,) = json.loads(CliRunner().invoke(main, [*words, "--json"]).stdout)["kernels"]
    assert (one["cases"], one["reached"]) == (1 + len(rest), {"cpu-x86_64/host": 1})
    assert one["would_add"] == {"cpu-x86_64/host": len(rest)}
    text = CliRunner().invoke(main, words).stdout
    line = "farm submit --kernel matvec/block --kind Q4_0 --backend host --device cpu-x86_64"
    assert f"{line}   # {len(rest)} cases more" in text
    assert "matvec/block: shapes on no device: " in text


def test_a_board_that_ran_nothing_lacks_everything(tmp_path: Path) -> None:
    url = database_with(tmp_path, [])
    with open_existing(url).writing() as s:
        device.see(s, GPU, 1)
    words = ["coverage", "--db", url, "--kernel", "matvec/block", "--kind", "Q4_0"]
    (one,) = json.loads(CliRunner().invoke(main, [*words, "--json"]).stdout)["kernels"]
    assert (one["reached"], one["would_add"]) == ({"rtx-3060/cuda": 0}, {"rtx-3060/cuda": one["cases"]})
    text = CliRunner().invoke(main, words).stdout
    assert f"--backend cuda --device rtx-3060   # {one['cases']} cases more" in text


def test_a_tier_that_is_named_is_the_one_that_is_counted(tmp_path: Path) -> None:
    url = database_with(tmp_path, [])
    words = [
        "coverage",
        "--db",
        url,
        "--kernel",
        "matvec/block",
        "--kind",
        "Q4_0",
        "--tier",
        "full",
        "--json",
    ]
    (one,) = json.loads(CliRunner().invoke(main, words).stdout)["kernels"]
    wanted = catalog.expand(Selection(kernels=("matvec/block",), kinds=("Q4_0",), tiers=(Tier.FULL,)))
    assert one["cases"] == len(wanted) > 100
    assert (one["reached"], one["kinds_on_no_device"]) == ({}, ["Q4_0"])


def test_unknown_names_list_what_there_is(tmp_path: Path) -> None:
    url = database_with(tmp_path, [])
    result = CliRunner().invoke(main, ["coverage", "--db", url, "--kind", "Q9_Z"])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "Q9_Z" in result.stderr
