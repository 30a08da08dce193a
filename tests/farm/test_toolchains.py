"""farm toolchains: what compiles for what, with and without the compiler."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from farm.cli import main
from farm.targets import target_gpus
from farm.toolchains import Standing, Toolchain, archs, known, standing, with_installed
from workers.backend import Unavailable
from workers.nvrtc import library
from workers.nvrtc.library import Nvrtc

OLD = Toolchain("12.6", 525, (61, 86), "a test")
NEW = Toolchain("13.0", 580, (86, 120), "a test")


@pytest.fixture
def without_the_extra(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    library.find.cache_clear()
    for binding in ("cuda.bindings", "cupy_backends.cuda.libs"):
        monkeypatch.setitem(sys.modules, binding, None)
    yield
    library.find.cache_clear()


def toolchains(*args: str) -> Result:
    return CliRunner().invoke(main, ["toolchains", *args])


@pytest.mark.parametrize(
    ("arch", "old", "new"),
    [
        (61, Standing.COMPILES, Standing.DROPPED),
        (86, Standing.COMPILES, Standing.COMPILES),
        (120, Standing.NEEDS_NEWER, Standing.COMPILES),
    ],
)
def test_standing_of_an_arch(arch: int, old: Standing, new: Standing) -> None:
    assert standing(arch, OLD, (OLD, NEW)) is old
    assert standing(arch, NEW, (OLD, NEW)) is new


def test_the_installed_version_says_itself_what_it_knows() -> None:
    every = with_installed((OLD, NEW), Nvrtc((13, 0), (86, 120, 130)))
    assert [(made.nvrtc, made.archs) for made in every] == [("12.6", (61, 86)), ("13.0", (86, 120, 130))]
    assert archs(every) == (61, 86, 120, 130)


@pytest.mark.parametrize(
    ("version", "order", "driver"),
    [
        ((12, 7), ["12.6", "12.7", "13.0"], 525),
        ((14, 1), ["12.6", "13.0", "14.1"], 580),
        ((11, 8), ["11.8", "12.6", "13.0"], 580),
    ],
)
def test_a_version_that_nobody_wrote_down_takes_its_place(
    version: tuple[int, int], order: list[str], driver: int
) -> None:
    every = with_installed((OLD, NEW), Nvrtc(version, (86,)))
    assert [made.nvrtc for made in every] == order
    assert every[order.index(".".join(map(str, version)))].driver == driver


def test_without_one_the_known_versions_stand() -> None:
    assert with_installed((OLD, NEW), None) == (OLD, NEW)


def test_the_table_is_in_order_and_each_row_has_a_source() -> None:
    versions = [made.version for made in known()]
    assert versions == sorted(set(versions))
    assert all(made.source and made.archs == tuple(sorted(made.archs)) for made in known())


def test_some_known_version_compiles_for_every_gpu_that_users_own() -> None:
    assert {gpu.sm for gpu in target_gpus()} <= {f"sm_{arch}" for arch in archs(known())}


def test_pascal_is_dropped_by_13_and_blackwell_needs_newer_than_12_6() -> None:
    by_name = {made.nvrtc: made for made in known()}
    assert standing(61, by_name["13.0"], known()) is Standing.DROPPED
    assert standing(120, by_name["12.6"], known()) is Standing.NEEDS_NEWER
    assert standing(61, by_name["12.9"], known()) is Standing.COMPILES


def test_without_the_extra_a_line_names_it_and_the_table_stands(without_the_extra: None) -> None:
    result = toolchains()
    assert result.exit_code == 0
    assert "./run pip install -e '.[nvrtc]'" in result.stdout.splitlines()[-1]
    row = next(line for line in result.stdout.splitlines() if line.startswith("sm_61"))
    assert row.count("compiles") == 4
    assert row.count("dropped") == 2
    assert "gtx-1080" in row
    assert "*" not in result.stdout


def test_json_says_the_same(without_the_extra: None) -> None:
    document = json.loads(toolchains("--json").stdout)
    assert document["installed"] is None
    assert "'.[nvrtc]'" in document["unavailable"]
    by_name = {made["nvrtc"]: made["archs"] for made in document["toolchains"]}
    assert by_name["12.6"]["sm_120"] == "needs newer"


def test_the_installed_one_is_marked() -> None:
    try:
        found = library.find()
    except Unavailable as why:
        pytest.skip(str(why))
    result = toolchains()
    assert f"{'.'.join(map(str, found.version))}*" in result.stdout
    assert f"* {found.label} is installed here" in result.stdout
