"""Kernels that compute nothing: a right declaration catches them, one that allows too much lets them pass."""

from __future__ import annotations

from collections import Counter

import pytest

from kernels.declared.catalog import Catalog
from tests.workers.catalogs import Edits, edited, written
from tests.workers.test_catalogs import QUANTIZES, SILU
from workers.idle import Idle, Seen, Tried, try_all

ALL = set(Idle)
NORM = """
name = "mine"
op = "rmsnorm"
TOLERANCE
[[step]]
entry_point = "k.cu::mine"
args = ["x", "weights", "out"]
grid = [1]
block = [1]
"""
TWO, THREE = "const void *a, void *b", "const void *a, const void *b, void *c"
TWIN = "def twin(step):\n    raise SystemExit\n"


def empty(parameters: str) -> str:
    return f"__global__ void mine({parameters}) {{}}"


def tried(mine: Catalog) -> list[Tried]:
    (kernel,) = mine.kernels.values()
    return list(try_all(kernel))


def walk(*lines: str, edits: Edits | None = None) -> list[Tried]:
    """All three over the walk's cases, its declaration with these lines at the end."""
    end = 'block = ["warp", "warps"]'
    return tried(edited("walk", {"rows.toml": ((end, "\n".join((end, *lines))),), **(edits or {})}))


def tolerance(*words: str) -> tuple[str, ...]:
    return ("[tolerance]", 'reason = "half"', *words)


def passed(found: list[Tried], seen: Seen = Seen.PASSED) -> dict[Idle, set[str]]:
    """Those that passed, with the families in which they did."""
    return {
        idle: families
        for idle in Idle
        if (families := {one.case.family for one in found if one.idle is idle and one.seen is seen})
    }


def silu(edit: str, *words: str) -> list[Tried]:
    toml = SILU.replace("[[step]]", "\n".join((edit, *tolerance(*words), "[[step]]")))
    return tried(written(k_toml=toml, k_cu=empty(f"{THREE}, int n")))


def test_a_right_declaration_catches_all_three_in_every_case() -> None:
    found = walk()
    assert Counter(one.seen for one in found) == {Seen.CAUGHT: 75}
    assert sum(one.comparison.positions for one in found) == 3 * 696


def test_every_kind_is_tried() -> None:
    found = tried(edited("engine"))
    assert Counter(one.case.kind for one in found) == {"Q4_0": 78, "Q8_0": 78}
    assert set(passed(found, Seen.UNJUDGED)) == {Idle.ZERO, Idle.CONSTANT}  # specials, for want of a twin
    assert passed(found) == {}


def test_an_absolute_tolerance_lets_zero_pass_where_inputs_are_tiny() -> None:
    assert passed(walk(*tolerance("absolute = 1"))) == {Idle.ZERO: {"tiny"}}


def test_a_boundless_tolerance_lets_all_pass_but_what_was_never_written() -> None:
    found = passed(walk(*tolerance("absolute = 1e30")))
    assert set(found) == {Idle.ZERO, Idle.CONSTANT}
    assert {"ordinary", "onehot", "tiny"} <= found[Idle.ZERO]


def test_a_relative_tolerance_lets_a_constant_pass_and_not_zero() -> None:
    """Of equal numbers, and of one, a norm makes ones, times weights near 1."""
    for relative, want in ((0.3, {Idle.CONSTANT: {"constant", "ordinary"}}), (1e-3, {})):
        toml = NORM.replace("TOLERANCE", "\n".join(tolerance(f"relative = {relative}")))
        assert passed(tried(written(k_toml=toml, k_cu=empty(THREE)))) == want


def test_what_lay_there_before_a_run_may_pass_as_well() -> None:
    small = {"tiny", "constant"}
    filled = silu('[outputs.out]\nfill = "zero"', "absolute = 0.01")
    assert passed(filled) == {Idle.ZERO: small, Idle.STALE: small}
    assert passed(silu("", "absolute = 0.01")) == {Idle.ZERO: small}


def test_an_input_left_in_place_of_the_output_is_stale() -> None:
    toml = SILU.replace('"up", "out"', '"out"').replace("[[step]]", '[outputs.out]\ninout = "up"\n[[step]]')
    assert Counter(
        one.seen for one in tried(written(k_toml=toml, k_cu=empty(f"{TWO}, int n"))) if one.idle is Idle.STALE
    ) == {Seen.CAUGHT: 22}


def test_too_long_a_chain_lets_zero_pass_where_sums_cancel() -> None:
    found = walk(edits={"rows.toml": (('"blocks + 5"', '"cols * 100"'),)})
    assert passed(found) == {Idle.ZERO: {"cancelling"}}


def test_where_float32_itself_allows_it_nobody_is_at_fault() -> None:
    """1,280 additions one after another may lose all that is left of sums that cancel."""
    nothing = {"rows.toml": (('accumulates = "blocks + 5"\n', ""), ('["Q8_0"]', '["Q6_K"]'))}
    found = walk(edits=nothing)
    assert passed(found, Seen.FLOAT32) == {Idle.ZERO: {"cancelling"}, Idle.CONSTANT: {"cancelling"}}
    assert passed(found) == {}


def test_a_tolerance_of_half_precision_is_not_blamed_for_what_cancels() -> None:
    found = walk(*tolerance("units = 20000"))
    assert passed(found, Seen.CANCELLED) == {Idle.ZERO: {"cancelling"}}
    assert passed(found) == {}


def test_zero_is_no_fault_where_zero_is_the_truth() -> None:
    found = tried(written(k_toml=QUANTIZES, k_cu=empty(TWO)))
    assert passed(found, Seen.RIGHT) == {Idle.ZERO: {"specials"}}
    assert passed(found) == {}


@pytest.mark.parametrize("idle", Idle)
def test_a_declared_twin_is_not_run(idle: Idle) -> None:
    toml = SILU.replace("[[step]]", 'twin = "t.py::twin"\n[[step]]')
    found = tried(written(k_toml=toml, k_cu=empty(f"{THREE}, int n"), t_py=TWIN))
    assert {one.seen for one in found if one.idle is idle} == {Seen.CAUGHT}
