"""Every weight layout gives back what it packed, has the sizes it says and differs from the others."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import kernels.layouts
from kernels import catalog, inputs, packing, registry, source
from kernels.errors import UnknownName
from kernels.inputs import FIXTURE_VERSION
from kernels.kind import Kind
from kernels.layout import WeightLayout
from kernels.model import BufferArg, Build, Case, Launch, Layout, Plan, Seeded
from kernels.op import Workload

LAYOUTS = list(registry.layouts().values())
HELD = [(layout, registry.kind(name)) for layout in LAYOUTS for name in layout.kinds]
SEEDED = Seeded("ordinary", 3, FIXTURE_VERSION)


def random_rows(kind: Kind, rows: int, blocks: int) -> np.ndarray:
    made = np.empty((rows, blocks * kind.block_bytes), np.uint8)
    inputs.fill(7, made.reshape(-1))
    return made


def test_every_layout_lies_in_a_file_of_its_id_with_its_own_code() -> None:
    folder = Path(kernels.layouts.__path__[0])
    assert {path.stem for path in folder.glob("[!_]*.py")} == set(registry.layouts())
    for layout in LAYOUTS:
        assert source._module(layout.pack).stem == source._module(layout.unpack).stem == layout.id


def test_unknown_layout_names_those_that_exist() -> None:
    with pytest.raises(UnknownName, match=r"no weight layout named 'q9'; there are q4_interleaved_f16, .*"):
        registry.layout("q9")


@pytest.mark.parametrize(("layout", "kind"), HELD, ids=lambda one: getattr(one, "id", None) or one.name)
def test_unpack_gives_back_every_byte(layout: WeightLayout, kind: Kind) -> None:
    """Random blocks, and with every 16-bit pattern as scale: NaNs keep their payloads."""
    rows = random_rows(kind, 1 << 16, 3)
    assert kind.poke is not None
    kind.poke(rows.reshape(-1).view(kind.block)[::3], np.arange(1 << 16, dtype=np.uint16))
    parts = layout.pack(kind, rows)
    assert np.array_equal(layout.unpack(kind, len(rows), 3 * kind.elements, parts), rows)


@pytest.mark.parametrize(("layout", "kind"), HELD, ids=lambda one: getattr(one, "id", None) or one.name)
def test_parts_have_the_shapes_and_types_they_say(layout: WeightLayout, kind: Kind) -> None:
    parts = layout.pack(kind, random_rows(kind, 5, 7))
    assert list(parts) == [part.name for part in layout.parts]
    for part in layout.parts:
        assert parts[part.name].shape == part.shape(kind, 5, 7 * kind.elements)
        assert parts[part.name].dtype == np.dtype(part.dtype)
        assert parts[part.name].nbytes == part.nbytes(kind, 5, 7 * kind.elements)


@pytest.mark.parametrize(
    ("layout", "block_bytes"),
    [("q4_interleaved_f32", 20), ("q4_interleaved_f16", 18), ("q4_linear_f16", 18)],
)
def test_bytes_of_32_weights(layout: str, block_bytes: int) -> None:
    parts = registry.layout(layout).parts
    assert sum(part.nbytes(registry.kind("Q4_0"), 1, 32) for part in parts) == block_bytes
    assert [part.align for part in parts] == [16, block_bytes - 16]


@pytest.mark.parametrize("element", range(32))
@pytest.mark.parametrize(
    ("layout", "order"),
    [
        ("q4_interleaved_f32", (0, 4, 1, 5, 2, 6, 3, 7)),
        ("q4_interleaved_f16", (0, 4, 1, 5, 2, 6, 3, 7)),
        ("q4_linear_f16", (0, 1, 2, 3, 4, 5, 6, 7)),
    ],
)
def test_one_weight_sets_one_nibble(layout: str, order: tuple[int, ...], element: int) -> None:
    kind = registry.kind("Q4_0")
    row = np.zeros((1, 18), np.uint8)
    row.view(kind.block)["qs"][0, 0, element % 16] = 0xF if element < 16 else 0xF0
    words = registry.layout(layout).pack(kind, row)["quants"].reshape(4)
    want = [0, 0, 0, 0]
    want[element // 8] = 0xF << 4 * order.index(element % 8)
    assert words.tolist() == want


def test_layouts_differ_on_random_blocks_and_agree_on_zeros() -> None:
    """So that a kernel that reads another layout is seen, as long as its weights are random."""
    kind = registry.kind("Q4_0")
    rows = random_rows(kind, 9, 5)
    ggml = rows.view(kind.block)["qs"].tobytes()
    images = {layout.id: image(layout, rows) for layout in LAYOUTS if layout.kinds == ("Q4_0",)}
    for (name, one), (other_name, other) in combinations(images.items(), 2):
        assert one != other, f"{name} and {other_name}"
    assert all(one[: len(ggml)] != ggml for one in images.values())
    zeros = {image(layout, np.zeros_like(rows))[: len(ggml)] for layout in LAYOUTS}
    assert zeros == {bytes(len(ggml))}


def image(layout: WeightLayout, rows: np.ndarray) -> bytes:
    return b"".join(part.tobytes() for part in layout.pack(registry.kind("Q4_0"), rows).values())


def case_of(layout: WeightLayout, at: Layout) -> Case:
    shape = catalog.parse_shape("5x96", registry.op("matvec"))
    kernel = registry.kernel("matvec/block")
    made = catalog.case_of(kernel, layout.kinds[:1], Workload(shape, layout=at), SEEDED, Build.EXACT)
    return replace(made, packing=layout.id)


def plan_of(layout: WeightLayout, at: Layout) -> Plan:
    """A launch that reads a matrix in the layout, as an ffn does: the role isn't the matrix' name."""
    buffers = packing.buffers(layout, "gate", registry.kind(layout.kinds[0]), (5, 96), at)
    args = packing.arguments(layout, "weights", "gate")
    launch = Launch("matvec/block", layout.kinds[0], "entry", args, (5, 1, 1), (256, 1, 1))
    return Plan(buffers, (launch,), Build.EXACT)


@pytest.mark.parametrize("at", [Layout(), Layout(row_padding=64, weights_offset=16)], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.id)
def test_inputs_are_drawn_as_ggml_blocks_and_judged_as_such(layout: WeightLayout, at: Layout) -> None:
    case, plan = case_of(layout, at), plan_of(layout, at)
    matrix = replace(registry.op("matvec").operands(case)[0], name="gate")
    plain_case = replace(case, layout=Layout(), packing="")
    plain_plan = registry.kernel("matvec/block").plan(plain_case)
    plain = replace(plain_plan.buffers[0], name="gate")
    want = inputs.images(plain_case, Plan((plain,), (), Build.EXACT), (matrix,))["gate"]

    images = inputs.images(case, plan, (matrix,))
    assert list(images) == [f"gate.{part.name}" for part in layout.parts]
    found = packing.unpacked(plan, plan.launches[0], images)
    assert list(found) == ["weights"]
    assert found["weights"].tobytes() == want.tobytes()
    for buffer in plan.buffers:
        assert (images[buffer.name][: buffer.offset] == inputs.BEFORE).all()


def test_a_part_that_a_launch_does_not_read_is_found_all_the_same() -> None:
    layout = registry.layout("q4_linear_f16")
    plan, case = plan_of(layout, Layout()), case_of(layout, Layout())
    matrix = replace(registry.op("matvec").operands(case)[0], name="gate")
    images = inputs.images(case, plan, (matrix,))
    reads_one = replace(plan.launches[0], args=(BufferArg("weights.scales", "gate.scales"),))
    whole = packing.unpacked(plan, plan.launches[0], images)["weights"]
    assert np.array_equal(packing.unpacked(plan, reads_one, images)["weights"], whole)


@pytest.mark.parametrize(
    ("at", "says"),
    [
        (Layout(weights_offset=8), "weights offset: got 8 bytes, want a multiple of 16, which "),
        (Layout(row_padding=24), "row pitch: got 72 bytes, want a multiple of 16, which "),
        (Layout(row_padding=64, weights_offset=16), ""),
        (Layout(), ""),
    ],
    ids=str,
)
def test_refuses_where_the_widest_load_cannot_start(at: Layout, says: str) -> None:
    said = packing.refuses(registry.layout("q4_linear_f16"), registry.kind("Q4_0"), (5, 96), at)
    assert said.startswith(says)
    assert bool(said) == bool(says)


def test_padding_is_refused_where_a_part_has_no_rows() -> None:
    layout = registry.layout("q4_linear_f16")
    flat = replace(layout.parts[0], shape=lambda kind, rows, cols: (rows * cols // 8,))
    tiled = replace(layout, parts=(flat, layout.parts[1]))
    said = packing.refuses(tiled, registry.kind("Q4_0"), (5, 96), Layout(row_padding=16))
    assert said == "row padding: got 16 bytes, want 0: q4_linear_f16's quants has no rows of its own"


def test_a_case_with_packing_has_an_id_and_inputs_of_its_own() -> None:
    case = case_of(LAYOUTS[0], Layout())
    plain = replace(case, packing="")
    assert plain.id != case.id
    assert plain.inputs_key != case.inputs_key


def test_another_packing_than_the_kernels_is_refused() -> None:
    case = case_of(registry.layout("q4_linear_f16"), Layout())
    assert registry.op("matvec").refuses(case) == "weight layout: got q4_linear_f16, want GGML's"
