"""docs/CATALOGS.md shows the catalog that the tests run, and names every key that a declaration may have."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from kernels.declared.flags import WORDS
from kernels.declared.pack import SUFFIXES
from tests.workers.catalogs import DATA, edited

TEXT = (Path(__file__).parents[2] / "docs" / "CATALOGS.md").read_text(encoding="utf8")


def test_the_walk_is_the_catalog_that_passes():
    (shown,) = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    there = tomllib.loads((DATA / "walk" / "rows.toml").read_text())
    told = {key: value for key, value in there.items() if key not in ("author", "description", "arithmetic")}
    assert tomllib.loads(re.sub(r"^   ", "", shown, flags=re.MULTILINE)) == told
    edited("walk", {"rows.cu": (("b < blocks", "b < blocks - 1"),)})  # what the walk breaks is there


def test_every_suffix_and_flag_is_named():
    assert [suffix for suffix in SUFFIXES if suffix not in TEXT] == []
    assert [flag for flag in WORDS if flag.partition("=")[0] not in TEXT] == []
