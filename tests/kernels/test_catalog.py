"""What a selection expands to, cell by cell and case by case."""

from __future__ import annotations

from collections import Counter, defaultdict
from copy import copy
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels import catalog, codec, registry
from kernels.catalog import CellName, Planned, Selection
from kernels.errors import UnknownName, UsageError
from kernels.families import FAMILIES
from kernels.kind import Kind
from kernels.model import Build, Case, Layout, Shape, kind_label
from kernels.ops._linear import NARROW, STRUCTURED

EVERYTHING = catalog.expand(Selection())
EVERY_ONE = frozenset(EVERYTHING)
BLOCK_Q4_0 = catalog.expand(Selection(kernels=("matvec/block",), kinds=("Q4_0",)))
MIX = "Q4_K+Q4_K+Q6_K"


def cell_of(case: Case) -> CellName:
    return CellName(case.op, case.kernel, case.kind, case.build)


def by_cell(planned: tuple[Planned, ...]) -> dict[CellName, list[Planned]]:
    found: dict[CellName, list[Planned]] = defaultdict(list)
    for one in planned:
        found[cell_of(one.case)].append(one)
    return found


def test_cells_are_every_kernel_by_every_kind_in_both_builds() -> None:
    counted = Counter((f"{cell.op}/{cell.kernel}", cell.build) for cell in catalog.cells())
    assert counted == {
        (kernel_id, build): len(kinds_served(kernel_id))
        for kernel_id, kernel in registry.all_kernels().items()
        for build in kernel.builds
    }
    kinds = len(registry.kinds())
    of_one = {"matvec/block": kinds, "ffn/block": kinds + 1, "rmsnorm/block": 1}
    assert {kernel_id: counted[kernel_id, Build.EXACT] for kernel_id in of_one} == of_one


def kinds_served(kernel_id: str) -> list[tuple[str, ...]]:
    """The kinds that a kernel's op has matrices of, and its mixes, where the kernel serves them."""
    kernel = registry.kernel(kernel_id)
    op = registry.op(kernel.op)
    pure = [(kind,) * len(op.matrices) for kind in registry.kinds()] if op.matrices else [()]
    return [kinds for kinds in (*pure, *op.mixes) if kernel.serves(kinds)]


def test_a_kernel_has_cells_and_cases_of_the_kinds_it_serves_only(monkeypatch: pytest.MonkeyPatch) -> None:
    block = registry.kernel("matvec/block")
    monkeypatch.setattr(type(block), "serves", lambda self, kinds: kinds == ("Q4_0",))
    served = {cell.kind for cell in catalog.cells() if (cell.op, cell.kernel) == ("matvec", "block")}
    assert served == {"Q4_0"}
    assert catalog.expand(Selection(kernels=("matvec/block",), kinds=("Q4_K",))) == ()
    assert catalog.expand(Selection(kernels=("matvec/block",), kinds=("Q4_0",))) == BLOCK_Q4_0
    refused = catalog.expand(Selection(kernels=("matvec/coalesced",), kinds=("Q4_K",)))[0].case
    with pytest.raises(UsageError, match="matvec/block doesn't exist for Q4_K"):
        catalog.check(replace(refused, kernel="block"))


def test_a_kernel_runs_the_families_that_it_takes_of_a_quick_workload(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    block = registry.kernel("matvec/block")
    monkeypatch.setattr(type(block), "families", lambda self, workload, kinds: workload.families[:1])
    fewer = catalog.expand(Selection(kernels=("matvec/block",), kinds=("Q4_0",)))
    assert {one.case.family for one in fewer} == {
        "ordinary",
        "specials",
        "extreme",
    }  # the latter have workloads of their own
    assert set(fewer) < set(BLOCK_Q4_0)
    named = Selection(kernels=("matvec/block",), kinds=("Q4_0",), shapes=("3x64",), families=("sparse",))
    assert [one.case.family for one in catalog.expand(named)] == ["sparse"] * 2  # asked for by name


def test_everything_fills_exactly_the_cells() -> None:
    assert set(by_cell(EVERYTHING)) == set(catalog.cells())


def test_case_ids_are_unique() -> None:
    ids = Counter(one.case.id for one in EVERYTHING)
    assert ids.most_common(1)[0][1] == 1


def test_cases_of_equal_inputs_are_neighbours() -> None:
    keys = [one.case.inputs_key for one in EVERYTHING]
    runs = [key for i, key in enumerate(keys) if i == 0 or keys[i - 1] != key]
    assert len(runs) == len(set(runs)) < len(keys) / 2


def test_nothing_of_the_quick_tier_is_refused() -> None:
    for one in EVERYTHING:
        kernel = registry.kernel(f"{one.case.op}/{one.case.kernel}")
        assert registry.op(one.case.op).refuses(one.case) + kernel.refuses(one.case) == ""
        catalog.check(one.case)


def test_every_family_but_last_row_is_in_the_quick_tier() -> None:
    """`last_row` says something about matrices of gigabytes only."""
    assert {one.case.family for one in EVERYTHING} == set(FAMILIES) - {"last_row"}


def is_narrow(cell: CellName) -> bool:
    return registry.kernel(f"{cell.op}/{cell.kernel}").narrow


FIRST_BUILDS = [
    cell for cell in catalog.cells() if cell.build is registry.kernel(f"{cell.op}/{cell.kernel}").builds[0]
]
WHOLE = [cell for cell in FIRST_BUILDS if not is_narrow(cell)]
NARROWED = [cell for cell in catalog.cells((Build.EXACT,)) if is_narrow(cell)]


@pytest.mark.parametrize("cell", NARROWED, ids=str)
def test_another_type_of_activations_has_fewer_quick_cases_of_the_families_that_matter(
    cell: CellName,
) -> None:
    planned, body = by_cell(EVERYTHING)[cell], cell.kernel.rpartition("_")[0]
    whole = by_cell(EVERYTHING)[replace(cell, kernel=body)]
    assert 6 <= len(planned) < len(whole) / 2
    assert {one.case.family for one in planned} == {*NARROW, "large"}
    assert {(one.case.shape, one.case.family, one.case.layout) for one in planned} < {
        (one.case.shape, one.case.family, one.case.layout) for one in whole
    }
    assert any(one.case.layout.x_offset for one in planned)
    assert any(one.case.layout.x_slack for one in planned)


@pytest.mark.parametrize("cell", WHOLE, ids=str)
def test_every_cell_has_eight_shapes_and_every_common_family_on_two(cell: CellName) -> None:
    planned = by_cell(EVERYTHING)[cell]
    assert len({one.case.shape for one in planned}) >= 8
    shapes: dict[str, set[Shape]] = defaultdict(set)
    for one in planned:
        shapes[one.case.family].add(one.case.shape)
    assert {family: len(shapes[family]) >= 2 for family in STRUCTURED} == dict.fromkeys(STRUCTURED, True)
    assert max(one.repeats for one in planned) == 3


@pytest.mark.parametrize("op", ["matvec", "mul_mm"])
@pytest.mark.parametrize("kind", registry.kinds().values(), ids=lambda kind: kind.name)
def test_matrices_cover_what_breaks_kernels(op: str, kind: Kind) -> None:
    cases = [one.case for one in EVERYTHING if (one.case.op, one.case.kind) == (op, kind.name)]
    blocks = {case.shape["cols"] // kind.elements for case in cases}
    assert any(count % 2 for count in blocks if count > 1)
    assert max(blocks) > 256
    assert any(case.shape["rows"] % 8 for case in cases)
    assert any(case.layout.row_padding for case in cases)
    assert any(case.layout.weights_offset and case.layout.x_offset for case in cases)
    assert any(case.layout.x_slack for case in cases)
    extreme = [case.shape["rows"] for case in cases if case.family == "extreme"]
    assert max(extreme) >= 256  # every E8M0 byte
    assert any(case.layout.weights_offset == kind.lane_align for case in cases)


def test_mul_mm_covers_batches() -> None:
    batches = {one.case.shape["batch"] for one in EVERYTHING if one.case.op == "mul_mm"}
    assert {1, 33, 129} <= batches


@pytest.mark.parametrize("op", ["rmsnorm", "add_rmsnorm"])
def test_norms_cover_lengths_and_eps(op: str) -> None:
    cases = [one.case for one in EVERYTHING if one.case.op == op]
    assert {1, 127, 128, 255, 256, 257, 2880} <= {case.shape["n"] for case in cases}
    assert {round(dict(case.scalars)["eps"], 9) for case in cases} == {0, 1e-6, 1e-5}


def test_kind_selects_pure_cells_and_mixes_with_it() -> None:
    kinds = {(one.case.op, one.case.kind) for one in catalog.expand(Selection(kinds=("q6_k",)))}
    assert {("matvec", "Q6_K"), ("mul_mm", "Q6_K"), ("ffn", "Q6_K"), ("ffn", MIX)} <= kinds
    assert {kind for _, kind in kinds} == {"Q6_K", MIX}


def test_a_mix_selects_itself_alone() -> None:
    assert {one.case.kind for one in catalog.expand(Selection(kinds=(MIX,)))} == {MIX}


def test_a_mix_that_no_op_lists_can_be_asked_for() -> None:
    planned = catalog.expand(Selection(kernels=("ffn/block",), kinds=("Q8_0+q8_0+Q4_0",), shapes=("64x96",)))
    assert {one.case.kinds for one in planned} == {("Q8_0", "Q8_0", "Q4_0")}


def test_f32_selects_its_cells_and_the_ops_without_kinds() -> None:
    chosen = catalog.expand(Selection(kinds=("f32",)))
    without = {one.case.op for one in chosen if not one.case.kinds}
    assert without == {name for name, op in registry.ops().items() if not op.matrices}
    assert without >= {"rmsnorm", "add_rmsnorm", "silu_mul"}
    of_kind = {one.case.op for one in chosen if one.case.kinds}
    assert of_kind == {one.case.op for one in catalog.expand(Selection(kinds=("BF16",)))}
    assert {one.case.kind for one in chosen} == {"F32"}


@pytest.mark.parametrize(
    ("kernels", "want"),
    [
        (("matvec/block",), {("matvec", "block")}),
        (("coalesced",), {(op, "coalesced") for op in ("matvec", "mul_mat_id", "multi_matvec", "ffn")}),
        (("flat", "fused"), {("silu_mul", "flat"), ("add_rmsnorm", "fused")}),
    ],
)
def test_kernels_are_named_with_or_without_their_op(
    kernels: tuple[str, ...], want: set[tuple[str, str]]
) -> None:
    chosen = catalog.expand(Selection(kernels=kernels))
    assert {(one.case.op, one.case.kernel) for one in chosen} == want


def test_op_and_kernel_together_leave_their_intersection() -> None:
    chosen = catalog.expand(Selection(ops=("ffn",), kernels=("block",)))
    assert {(one.case.op, one.case.kernel) for one in chosen} == {("ffn", "block")}
    assert catalog.expand(Selection(ops=("mul_mm",), kernels=("block",))) == ()


@pytest.mark.parametrize(
    ("selection", "words"),
    [
        (Selection(ops=("matvex",)), ("no op named 'matvex'", "mul_mm")),
        (Selection(kernels=("matvec/fast",)), ("no kernel named 'matvec/fast'", "matvec/block")),
        (Selection(kinds=("Q9_Z",)), ("no kind named 'Q9_Z'", "Q4_0")),
        (Selection(kinds=("Q4_K+Q9_Z+Q4_K",)), ("no kind named 'Q9_Z'", "Q4_0")),
        (Selection(families=("odd",)), ("no family named 'odd'", "onehot")),
        (Selection(shapes=("conv:1x2",)), ("no op named 'conv'", "matvec")),
    ],
)
def test_unknown_names_say_what_there_is(selection: Selection, words: tuple[str, ...]) -> None:
    with pytest.raises(UnknownName) as raised:
        catalog.expand(selection)
    assert all(word in str(raised.value) for word in words)


def test_families_and_seeds_are_those_asked_for() -> None:
    one_seed = catalog.expand(Selection(kernels=("matvec/block",), families=("onehot", "tiny")))
    two = catalog.expand(Selection(kernels=("matvec/block",), families=("onehot", "tiny"), seeds=(5, 6)))
    assert {one.case.family for one in one_seed} == {"onehot", "tiny"}
    assert len(two) == 2 * len(one_seed)
    assert {one.case.x.seed for one in two} == {one.case.weights.seed for one in two} == {5, 6}


def test_builds_are_exact_and_default_unless_named() -> None:
    assert {one.case.build for one in EVERYTHING} == {Build.EXACT, Build.DEFAULT}
    checked = catalog.expand(Selection(kernels=("flat",), builds=(Build.CHECK,)))
    assert {one.case.build for one in checked} == {Build.CHECK}


def test_shapes_replace_the_quick_tier() -> None:
    chosen = catalog.expand(Selection(ops=("matvec",), kinds=("Q4_0",), shapes=("37x96", "matvec:1x32")))
    assert {str(one.case.shape) for one in chosen} == {"37x96", "1x32"}
    assert {(one.case.family, one.repeats, one.case.layout) for one in chosen} == {("ordinary", 1, Layout())}


def test_a_prefixed_shape_runs_its_op_alone() -> None:
    chosen = catalog.expand(
        Selection(kinds=("Q4_0",), shapes=("mul_mm:4x64x2",), families=("tiny", "onehot"))
    )
    assert {(one.case.op, one.case.family) for one in chosen} == {("mul_mm", "tiny"), ("mul_mm", "onehot")}


def test_a_wrong_shape_for_a_kind_is_still_a_case() -> None:
    (one,) = catalog.expand(
        Selection(kernels=("matvec/block",), kinds=("Q4_K",), shapes=("4x48",), builds=(Build.EXACT,))
    )
    assert "K-tile" in registry.op("matvec").refuses(one.case)


@pytest.mark.parametrize(
    ("selection", "reason"),
    [
        (
            Selection(shapes=("64x256",)),
            f"shape '64x256' fits {len(registry.ops())} of the ops chosen; write OP:64x256",
        ),
        (
            Selection(ops=("ffn",), shapes=("matvec:64x256",)),
            "is for an op that isn't chosen; chosen are ffn",
        ),
        (
            Selection(kernels=("matvec/block",), shapes=("64",)),
            "is not one of matvec's: write matvec:ROWSxCOLS",
        ),
    ],
)
def test_shapes_that_fit_no_op_are_refused(selection: Selection, reason: str) -> None:
    with pytest.raises(UsageError, match="shape") as raised:
        catalog.expand(selection)
    assert reason in str(raised.value)


@pytest.mark.parametrize(
    ("text", "op", "want"),
    [
        ("64x256", "matvec", Shape.of(rows=64, cols=256)),
        ("matvec:64X256", "matvec", Shape.of(rows=64, cols=256)),
        ("mul_mm:4x64x2", "mul_mm", Shape.of(rows=4, cols=64, batch=2)),
        ("rmsnorm:768", "rmsnorm", Shape.of(n=768, rows=1)),
        ("768x7", "rmsnorm", Shape.of(n=768, rows=7)),
        ("ffn:64x96", "ffn", Shape.of(hidden=64, inner=96)),
    ],
)
def test_parse_shape(text: str, op: str, want: Shape) -> None:
    assert catalog.parse_shape(text, registry.op(op)) == want


@pytest.mark.parametrize("text", ["", "64", "64x", "64x-1", "64x2x3", "ax2", "ffn:64x256", "6٤x2", "64x256x"])
def test_parse_shape_refuses_with_the_grammar(text: str) -> None:
    with pytest.raises(UsageError, match="write matvec:ROWSxCOLS in whole numbers"):
        catalog.parse_shape(text, registry.op("matvec"))


@pytest.mark.parametrize(
    ("op", "words"), [("rmsnorm", "rmsnorm:N[xROWS]"), ("mul_mm", "mul_mm:ROWSxCOLSxBATCH")]
)
def test_grammar(op: str, words: str) -> None:
    assert catalog.grammar(registry.op(op)) == words


@settings(deadline=None)
@given(st.sampled_from(sorted(registry.ops())), st.data())
def test_parse_shape_reads_back_what_a_shape_prints(op_name: str, data: st.DataObject) -> None:
    op = registry.op(op_name)
    sizes = data.draw(st.tuples(*(st.integers(0, 2**40) for _ in op.axes)))
    shape = Shape(tuple((axis.name, size) for axis, size in zip(op.axes, sizes, strict=True)))
    assert catalog.parse_shape(f"{op_name}:{shape}", op) == shape


names = st.lists(st.sampled_from(sorted(registry.kinds())), max_size=3).map(tuple)
kernel_ids = st.lists(st.sampled_from(sorted(registry.all_kernels())), max_size=3).map(tuple)


@settings(deadline=None, max_examples=50)  # a slow machine is no fault
@given(names, kernel_ids)
def test_a_selection_gives_a_part_of_everything(kinds: tuple[str, ...], kernels: tuple[str, ...]) -> None:
    chosen = catalog.expand(Selection(kinds=kinds, kernels=kernels))
    assert EVERY_ONE.issuperset(chosen)
    if kinds:
        assert all(set(kinds) & set(one.case.kinds or (catalog.NO_KIND,)) for one in chosen)
    if kernels:
        assert all(f"{one.case.op}/{one.case.kernel}" in kernels for one in chosen)
    assert chosen == catalog.expand(Selection(kinds=kinds, kernels=kernels))


@pytest.mark.parametrize(
    ("kinds", "want"),
    [((), "F32"), (("Q4_0",), "Q4_0"), (("Q4_K",) * 3, "Q4_K"), (("Q4_K", "Q4_K", "Q6_K"), MIX)],
)
def test_kind_label(kinds: tuple[str, ...], want: str) -> None:
    assert kind_label(kinds) == want


def test_digest_is_one_for_the_whole_catalog() -> None:
    assert catalog.digest() == catalog.digest()
    assert len(catalog.digest()) == 64


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("op", "matvex", "no op named 'matvex'"),
        ("kernel", "fast", "no kernel named 'matvec/fast'"),
        ("kinds", ["Q9_Z"], "no kind named 'Q9_Z'"),
        ("kinds", ["q4_0"], "kind 'q4_0' of a case is written 'Q4_0'"),
        ("kinds", [], "kinds of matvec/block: got 0, want 1"),
        ("shape", [["rows", 4]], "axes of matvec: got ['rows'], want ['rows', 'cols']"),
        ("scalars", [["eps", 1.0]], "scalars of matvec: got ['eps'], want []"),
    ],
)
def test_check_refuses_a_case_typed_wrong(field: str, value: object, reason: str) -> None:
    typed = codec.encode(BLOCK_Q4_0[0].case) | {field: value}
    with pytest.raises(UsageError) as raised:
        catalog.check(codec.decode(Case, typed))
    assert reason in str(raised.value)


def test_the_build_declared_is_only_for_kernels_that_declare_one() -> None:
    kernel = registry.kernel("silu_mul/flat")
    assert catalog.builds_of(kernel) == (Build.EXACT, Build.DEFAULT)
    assert catalog.builds_of(kernel, (Build.CHECK, Build.DECLARED)) == (Build.CHECK,)
    declaring = copy(kernel)
    declaring.builds = (*kernel.builds, Build.DECLARED)
    assert catalog.builds_of(declaring)[-1] is Build.DECLARED
    assert catalog.builds_of(declaring, (Build.DECLARED,)) == (Build.DECLARED,)
    assert not catalog.expand(Selection(kernels=("silu_mul/flat",), builds=(Build.DECLARED,)))
