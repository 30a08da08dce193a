"""tiers: what each is for is in it, and what can't run says so by name."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from kernels import catalog, codec, models, registry
from kernels.catalog import Selection, expand
from kernels.families import FAMILIES
from kernels.model import Build, Case, Layout, Shape
from kernels.op import JudgedOp
from kernels.tiers import Tier, workloads

LINEAR = ("matvec", "mul_mm")


def cases(tier: Tier, op: str = "", kind: str = "Q4_K") -> list[Case]:
    """Of one kind, in the exact build; F32 for ops without."""
    ops = (op,) if op else ()
    chosen = Selection(ops=ops, kinds=(kind,), builds=(Build.EXACT,), tiers=(tier,))
    return [planned.case for planned in expand(chosen)]


def refusal(case: Case) -> str:
    kernel = registry.kernel(f"{case.op}/{case.kernel}")
    return registry.op(case.op).refuses(case) or kernel.refuses(case)


def test_no_tier_named_is_quick() -> None:
    assert expand(Selection()) == expand(Selection(tiers=(Tier.QUICK,)))


def test_a_selection_stored_before_there_were_tiers_is_read() -> None:
    stored = codec.encode(Selection(kinds=("Q4_K",)))
    del stored["tiers"]
    assert codec.decode(Selection, json.loads(json.dumps(stored))) == Selection(kinds=("Q4_K",))


def test_full_contains_quick_and_overlapping_tiers_count_a_case_once() -> None:
    quick, full = (expand(Selection(kinds=("Q4_0",), tiers=(tier,))) for tier in (Tier.QUICK, Tier.FULL))
    both = expand(Selection(kinds=("Q4_0",), tiers=(Tier.QUICK, Tier.FULL)))
    assert {one.case for one in quick} < {one.case for one in full}
    assert set(both) == set(full)
    assert Counter(one.case for one in both).most_common(1)[0][1] == 1
    assert max(one.repeats for one in both) == 3


@pytest.mark.parametrize("op", LINEAR)
def test_full_has_the_edges_of_rows_blocks_columns_and_bases(op: str) -> None:
    found = cases(Tier.FULL, op, "Q8_0")
    assert {case.shape["rows"] for case in found} >= {1, 7, 8, 9, 37, 63, 64, 65, 71, 65535, 65536, 65537}
    assert {case.shape["cols"] // 32 for case in found} >= {1, 2, 3, 27, 33, 256, 257}
    assert {case.layout for case in found} >= {Layout(weights_offset=offset) for offset in (1, 2, 4, 16)}
    assert {case.family for case in found} == set(FAMILIES)


def test_full_has_the_edges_of_batches() -> None:
    batches = {case.shape["batch"] for case in cases(Tier.FULL, "mul_mm")}
    assert batches >= {1, 2, 3, 31, 32, 33, 127, 128, 129, 133, 512}


def test_full_has_every_length_with_every_eps() -> None:
    for op in ("rmsnorm", "add_rmsnorm"):
        found = {(case.shape["n"], dict(case.scalars)["eps"]) for case in cases(Tier.FULL, op, "F32")}
        lengths = (1, 127, 128, 255, 256, 257, 2880, 3072, 8192, 16384)
        assert all(sum(n == length for n, _ in found) == 3 for length in lengths)


def test_full_refuses_by_name_what_wide_loads_and_blocks_cannot_take() -> None:
    reasons = {refusal(case) for case in cases(Tier.FULL, "matvec", "Q4_K")} - {""}
    assert "weights offset: got 2 bytes, want a multiple of 4, which Q4_K's lanes load at once" in reasons
    assert "cols 96 is not a whole number of Q4_K's 256-weight blocks; pad to 256" in reasons
    assert {refusal(case) for case in cases(Tier.FULL, "matvec", "Q8_0")} == {""}


def test_models_has_the_real_shapes_and_what_follows_from_them() -> None:
    shapes = {str(case.shape) for case in cases(Tier.MODELS, "matvec", "Q4_K")}
    for wanted in ("2048x2048", "512x2048", "14336x4096", "8192x28672", "128256x2048", "262144x1152",
                   "768x2048", "2048x768", "1024x2048", "2048x1024", "2880x2880"):  # fmt: skip
        assert wanted in shapes, wanted
    assert {str(case.shape) for case in cases(Tier.MODELS, "ffn", "Q4_K")} >= {"2048x8192", "4096x14336"}
    assert {case.shape["batch"] for case in cases(Tier.MODELS, "mul_mm")} == {512}
    qkv = {str(case.shape) for case in cases(Tier.MODELS, "multi_matvec", "Q4_K")}
    assert qkv >= {"4096x1024x4096", "1024x256x1152"}
    assert {case.op for case in cases(Tier.MODELS, kind="F32")} >= {"rmsnorm", "add_rmsnorm", "silu_mul"}


@pytest.mark.parametrize(("cols", "padded"), [(1152, 1280), (1408, 1536)])
def test_models_refuses_columns_that_no_k_quant_block_divides(cols: int, padded: int) -> None:
    for kind, refused in (("Q4_K", True), ("Q8_0", False)):
        (case,) = [
            case
            for case in cases(Tier.MODELS, "matvec", kind)
            if case.shape["cols"] == cols and case.shape["rows"] in (262144, 2048) and case.kernel == "block"
        ]
        want = f"cols {cols} is not a whole number of Q4_K's 256-weight blocks; pad to {padded}"
        assert refusal(case) == (want if refused else "")


def test_models_with_experts_have_them_in_mul_mat_id() -> None:
    shapes = {str(case.shape) for case in cases(Tier.MODELS, "mul_mat_id", "Q8_0")}
    assert {"768x2048x128x8x1x1", "2048x768x128x8x1x8", "1024x2048x64x8x4x1", "2880x2880x32x4x1x4"} <= shapes
    assert len(shapes) == 4 * 2 * 2


@pytest.mark.parametrize("kind", list(registry.kinds()))
def test_limits_start_their_last_expert_past_2_to_the_31_and_32(kind: str) -> None:
    row_bytes = registry.kind(kind).row_bytes(4096)
    found = [case for case in cases(Tier.LIMITS, "mul_mat_id", kind) if case.kernel == "block"]
    starts = [(case.shape["experts"] - 1) * 4 * row_bytes for case in found[:2]]
    for start, power in zip(starts, (2**31, 2**32), strict=True):
        assert abs(start - power) <= 4 * row_bytes
        assert start + 3 * row_bytes >= power  # where its last row starts
    assert refusal(found[2]).startswith("grid.x 17180917760 for 1048576 rows")


def test_models_are_named_once_and_their_matrices_fit() -> None:
    names = [model.name for model in models.all_models()]
    assert len(set(names)) == len(names) >= 9
    for model in models.all_models():
        assert all(model.hidden in sizes for sizes in model.attention)
        assert model.head == (model.vocabulary, model.hidden)
    assert len(workloads(registry.op("matvec"), Tier.MODELS, ())) < sum(
        len(model.layer) + 1 for model in models.all_models()
    )


@pytest.mark.parametrize("kind", list(registry.kinds()))
def test_limits_start_their_last_row_past_2_to_the_31_and_32(kind: str) -> None:
    row_bytes = registry.kind(kind).row_bytes(4096)
    block = [case for case in cases(Tier.LIMITS, "matvec", kind) if case.kernel == "block"]
    last = [(case.shape["rows"] - 1) * row_bytes for case in block]
    assert [0 <= start - power < row_bytes for start, power in zip(last, (2**31, 2**32), strict=True)] == [
        True,
        True,
    ]
    assert {case.family for case in block} == {"last_row"}


def test_limits_go_to_the_largest_grid_and_refuse_one_row_more() -> None:
    found = [case for case in cases(Tier.LIMITS, "mul_mm", "Q4_0") if case.kernel == "reference"]
    launches = {
        str(case.shape): registry.kernel("mul_mm/reference").plan(case).launches[0] for case in found[1:2]
    }
    assert [launch.grid for launch in launches.values()] == [(1, 65535, 1)]
    assert [refusal(case) for case in found if refusal(case)] == [
        "grid.y 65536 for 4194241 rows is past CUDA's 65535; at most 4194240 rows"
    ]
    assert any(case.shape["rows"] * case.shape["batch"] > 2**31 for case in found)


def test_an_op_without_tiers_of_its_own_has_the_quick_one() -> None:
    class Bare(JudgedOp):
        name = "bare"
        axes = ()

        def refuses(self, case):
            return ""

        def operands(self, case):
            return ()

        def quick(self, kinds):
            return (catalog.Workload(Shape.of(n=1)),)

        def truth(self, kernel, step):
            raise NotImplementedError

    assert [len(workloads(Bare(), tier, ())) for tier in Tier] == [1, 1, 0, 0]
