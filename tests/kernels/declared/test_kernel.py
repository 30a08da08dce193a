"""Declared kernels: buffers as built-in ones have them, plans, refusals and digests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kernels import catalog, registry, source
from kernels.declared import catalog as declared
from kernels.declared.mistake import Misdeclared
from kernels.declared.twin import allowed
from kernels.errors import FarmError
from kernels.model import BufferArg, Build, Case, Device, Layout, Role, ScalarArg, Seeded, Shape
from kernels.op import JudgedOp, LaunchKernel, Step
from tests.kernels.declared.making import FILES, TOML, edited, kernel, mistakes, packed

DRAWN = Seeded("ordinary", 0, 1)
MINIMAL = {
    op.name: f'name = "mine"\nop = "{op.name}"\n'
    + ('kinds = ["Q8_0", "NVFP4", "Q4_0", "F16"]\n' if op.matrices else "")
    + '[[step]]\nentry_point = "k.cu::mine"\nargs = ["out"]\ngrid = 1\nblock = 1\n'
    for op in registry.ops().values()
    if isinstance(op, JudgedOp)
}
# Those whose op is judged: of an ffn's launches each has an op of its own.
BUILT_IN = [
    one for one in registry.built_in().values() if isinstance(one, LaunchKernel) and one.op in MINIMAL
]


def case(rows: int = 9, cols: int = 96, **changes: object) -> Case:
    whole = Case("matvec", "mine", ("Q8_0",), Shape.of(rows=rows, cols=cols), DRAWN, DRAWN, Build.EXACT)
    return replace(whole, **changes)


@pytest.mark.parametrize("built_in", BUILT_IN, ids=lambda one: one.id)
def test_inputs_and_output_are_those_of_built_in_kernels(built_in):
    text = MINIMAL[built_in.op]
    if built_in.packing:
        kinds = ", ".join(f'"{kind}"' for kind in registry.layout(built_in.packing).kinds)
        text = text.replace('"Q8_0", "NVFP4", "Q4_0", "F16"', kinds).replace(
            "kinds", f'layout = "{built_in.packing}"\nkinds'
        )
    if built_in.x_dtype != "f32":
        names = [
            v.name
            for v in registry.op(built_in.op).operands(example(built_in))
            if not getattr(v, "weights", True)
        ]
        text += "".join(f'[inputs.{name}]\ndtype = "{built_in.x_dtype}"\n' for name in names)
    if built_in.out_dtype != "f32":
        text += f'[outputs.out]\ndtype = "{built_in.out_dtype}"\n'
    mine = kernel(packed({"k.toml": text, "k.cu": "__global__ void mine(float *out) {}"}))
    compared = 0
    for planned in declared.quick_cases(mine):
        there = replace(planned, kernel=built_in.name)
        if (
            built_in.serves(there.kinds)
            and not registry.op(there.op).refuses(there)
            and not built_in.refuses(there)
        ):
            given, want = (
                {one.name: replace(one, align=1) for one in plan.buffers if one.role in (Role.IN, Role.OUT)}
                for plan in (mine.plan(planned), built_in.plan(there))
            )
            assert given == want
            compared += 1
    assert compared >= 8


def example(built_in: LaunchKernel) -> Case:
    op = registry.op(built_in.op)
    kinds = ("Q8_0",) * len(op.matrices)
    workload = op.quick(tuple(map(registry.kind, kinds)))[0]
    return catalog.case_of(built_in, kinds, workload, DRAWN, Build.EXACT)


def test_plan_has_the_launch_as_it_is_declared():
    plan = kernel(packed(FILES)).plan(case())
    (launch,) = plan.launches
    assert (launch.entry, launch.unit, launch.kernel, launch.kind) == ("mine", "k.cu", "matvec/mine", "Q8_0")
    assert (launch.grid, launch.block, launch.dynamic_shared_bytes) == ((3, 1, 1), (32, 4, 1), 0)
    assert launch.args == (
        BufferArg("weights", "weights"), BufferArg("x", "x"), BufferArg("out", "out"),
        ScalarArg("rows", "i4", 9), ScalarArg("row_bytes", "i8", 102),
    )  # fmt: skip
    assert [(one.name, one.role.value, one.align) for one in plan.buffers] == [
        ("weights", "in", 16), ("x", "in", 16), ("out", "out", 16), ("sums", "scratch", 16),
    ]  # fmt: skip
    assert (plan.setup, plan.deterministic, len(plan.checks)) == (0, True, 1)


def test_sizes_are_those_of_the_case():
    mine = kernel(packed(FILES))
    padded = case(layout=Layout(row_padding=64))
    scalars = mine.plan(padded).judged_as[0].scalars
    assert scalars == {
        "rows": 9, "cols": 96, "warp": 32, "block_bytes": 34, "block_elements": 32, "row_bytes": 166,
        "row_padding": 64, "blocks": 3, "batch": 1, "warps": 4,
    }  # fmt: skip


def test_symbols_are_filled_for_each_kind():
    mine = kernel(
        edited(
            "k.toml", ('["Q8_0"]', '["Q8_0", "q4_0"]'), ("k.cu::mine", "k.cu::mine<{block_bytes}, {kind}_t>")
        )
    )
    assert mine.serves(("Q4_0",))
    assert not mine.serves(("Q4_K",))
    assert [mine.plan(case(kinds=(kind,))).launches[0].entry for kind in ("Q8_0", "Q4_0")] == [
        "mine<34, q8_0_t>", "mine<18, q4_0_t>",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("constraint", "changes", "says"),
    [
        ("cols = { multiple_of = 64 }", {}, "cols 96 is not a multiple of 64, as declared"),
        ("rows = { least = 10 }", {}, "rows 9 is less than 10, as declared"),
        ("warps = { most = 3 }", {}, "warps 4 is more than 3, as declared"),
        ("row_padding = { most = 0 }", {"layout": Layout(row_padding=64)}, "row_padding 64 is more than 0"),
        ("cols = { multiple_of = 32, least = 1, most = 96 }", {}, ""),
    ],
)
def test_constraints_are_refusals_with_their_reason(constraint, changes, says):
    mine = kernel(edited("k.toml", ("[scratch", f"[constraints]\n{constraint}\n[scratch")))
    assert mine.refuses(case(**changes)).startswith(says)
    assert bool(mine.refuses(case(**changes))) is bool(says)


@pytest.mark.parametrize(
    ("name", "align", "layout", "cols", "says"),
    [
        (
            "weights",
            4,
            Layout(),
            96,
            "row pitch of weights: got 102 bytes, want a multiple of 4, as declared",
        ),
        ("weights", 4, Layout(), 64, ""),
        (
            "weights",
            32,
            Layout(weights_offset=16),
            512,
            "offset of weights: got 16 bytes, want a multiple of 32",
        ),
        ("x", 16, Layout(x_offset=4), 96, "offset of x: got 4 bytes, want a multiple of 16"),
        ("x", 16, Layout(x_offset=16), 96, ""),
    ],
)
def test_alignment_that_is_asked_for_is_given_or_refused(name, align, layout, cols, says):
    mine = kernel(edited("k.toml", ("[scratch", f"[inputs.{name}]\nalign = {align}\n[scratch")))
    planned = case(cols=cols, layout=layout)
    assert mine.refuses(planned).startswith(says)
    assert bool(mine.refuses(planned)) is bool(says)
    assert mine.plan(planned).buffer(name).align == align


@pytest.mark.parametrize(
    ("sm", "says"), [("sm_61", "declared for sm_75 and newer, this device is sm_61"), ("sm_86", ""), ("", "")]
)
def test_an_older_device_is_refused(sm, says):
    mine = kernel(edited("k.toml", ("[scratch", "[constraints]\nsm = 75\n[scratch")))
    device = Device("d", "d", "D", "u", fingerprint=(("sm", sm),) if sm else ())
    assert says in mine.refuses_device(device, executes=True)
    assert bool(mine.refuses_device(device, executes=True)) is bool(says)


def test_what_a_shape_makes_impossible_has_its_line():
    mine = kernel(edited("k.toml", ('"ceil_div(rows, warps)"]', '1, "rows"]')))
    assert mistakes(mine.pack) == []
    with pytest.raises(Misdeclared, match=r"k.toml:15: grid.y is 70000 by 'rows', want 1 to 65,535"):
        mine.plan(case(rows=70000))


DIGESTS = [
    ((), set()),
    ((("k.toml", 'name = "mine"', 'name = "other"\nauthor = "x"\ndescription = "y"'),), set()),
    ((("k.toml", "[axes]", "# a comment\n[axes]"),), set()),
    ((("k.toml", 'warps = "4"', 'warps = "2"'),), {"exact", "declared", "frame"}),
    ((("k.cu", "{\n}", "{ }"),), {"exact", "declared"}),
    ((("h.cuh", "once", "once\n#define A"),), {"exact", "declared"}),
    ((("twin.py", "['x']", "['x'] * 2"),), {"exact", "declared", "frame"}),
    ((("k.toml", "[axes]", '[build]\nflags = ["--use_fast_math"]\n[axes]'),), {"declared"}),
]


@pytest.mark.parametrize(("edits", "changed"), DIGESTS, ids=range(len(DIGESTS)))
def test_source_digests_change_with_what_may_change_a_result(edits, changed):
    files = dict(FILES)
    for file, old, new in edits:
        assert files[file].count(old) == 1
        files[file] = files[file].replace(old, new)
    first, other = digests(FILES), digests(files)
    # A [build] table that is new is part of what is told in every build, its flags of one.
    assert {name for name in first if first[name] != other[name]} - (
        {"exact", "frame"} if changed == {"declared"} else set()
    ) == changed


def digests(files: dict[str, str]) -> dict[str, str]:
    mine = kernel(packed(files))
    with registry.searching({mine.id: mine}):
        return {
            "exact": source.digest(mine.id, ("Q8_0",), Build.EXACT),
            "declared": source.digest(mine.id, ("Q8_0",), Build.DECLARED),
            "frame": source.frame_digest(mine.id, ("Q8_0",), Build.EXACT),
        }


def test_one_catalog_leaves_nothing_to_the_next():
    first, second = kernel(packed(FILES)), kernel(edited("k.cu", ("{\n}", "{ int second; }")))
    for mine, has in ((first, False), (second, True), (first, False)):
        with registry.searching({mine.id: mine}):
            assert ("second" in source.text(mine.id, "Q8_0")) is has
            assert source.digest(mine.id, ("Q8_0",), Build.EXACT) == mine.digest(("Q8_0",), Build.EXACT)
            assert [cell.build.value for cell in catalog.cells() if cell.kernel == "mine"] == [
                "exact",
                "default",
                "declared",
            ]


def test_a_twin_runs_where_it_is_allowed_and_nowhere_else():
    step = Step({"x": np.ones(3, np.float32)}, {}, None, "ordinary", True)
    with pytest.raises(
        FarmError, match=r"twin.py is a catalog's own code: it runs in the isolated child alone"
    ):
        kernel(packed(FILES)).twin(step)
    with allowed():
        assert kernel(packed(FILES)).twin(step).tolist() == [1, 1, 1]
        assert kernel(edited("k.toml", ('twin = "twin.py::matvec"\n', ""))).twin(step) is None
        doubled = kernel(edited("twin.py", ("['x']", "['x'].astype('f8')")))
        with pytest.raises(FarmError, match=r"twin.py: the twin gave a float64 array, want a float32 array"):
            doubled.twin(step)


def test_the_chain_is_as_declared_or_the_longest_there_is():
    step = Step(
        {"weights": np.zeros((2, 102), np.uint8), "x": np.ones((1, 96), np.float32)},
        {"blocks": 3},
        None,
        "ordinary",
        True,
    )
    assert kernel(packed(FILES)).chain(step) == 96
    assert kernel(packed({**FILES, "k.toml": 'accumulates = "blocks * 2"\n' + TOML})).chain(step) == 6
