"""model: identities see what matters and nothing else, and plans give views without copies."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from kernels.model import (
    Buffer,
    BufferArg,
    Build,
    Case,
    Device,
    FromFile,
    Launch,
    Layout,
    Plan,
    Role,
    ScalarArg,
    Seeded,
    Shape,
    packed,
)

CASE = Case(
    op="matvec",
    kernel="block",
    kinds=("Q4_0",),
    shape=Shape.of(rows=37, cols=864),
    weights=Seeded("ordinary", 1, 1),
    x=Seeded("tiny", 1, 1),
    build=Build.EXACT,
    scalars=(("eps", 1e-5),),
)
OTHER_INPUTS = [
    {"op": "mul_mm"},
    {"kinds": ("Q8_0",)},
    {"shape": Shape.of(rows=37, cols=896)},
    {"weights": Seeded("ordinary", 2, 1)},
    {"weights": FromFile("ab" * 32)},
    {"x": Seeded("ordinary", 1, 1)},
    {"x": Seeded("tiny", 1, 2)},
    {"layout": Layout(row_padding=64)},
    {"layout": Layout(x_slack=64)},
    {"scalars": (("eps", 1e-6),)},
    {"x_dtype": "f16"},
    {"packing": "q4_linear_f16"},
]
SAME_INPUTS = [{"kernel": "coalesced"}, {"build": Build.DEFAULT}]


def test_ids_are_what_they_always_were() -> None:
    """A field that comes later changes no id that databases and bundles hold."""
    assert CASE.id == "2e44f50c664dd843000626a1162131fe6d3171319bb573b00f8965610d435573"
    assert CASE.inputs_key == "0af3f0926b6cf68279deb38e9219eacda10e9ccaf05291814dc03f80df44d4ba"


@pytest.mark.parametrize("change", [*OTHER_INPUTS, *SAME_INPUTS, {"out_dtype": "f16"}], ids=str)
def test_the_id_sees_every_field(change: dict[str, object]) -> None:
    assert replace(CASE, **change).id != CASE.id
    assert replace(CASE).id == CASE.id


@pytest.mark.parametrize("change", OTHER_INPUTS, ids=str)
def test_the_inputs_key_sees_what_changes_a_byte(change: dict[str, object]) -> None:
    assert replace(CASE, **change).inputs_key != CASE.inputs_key


@pytest.mark.parametrize("change", SAME_INPUTS, ids=str)
def test_the_inputs_key_is_blind_to_kernel_and_build(change: dict[str, object]) -> None:
    assert replace(CASE, **change).inputs_key == CASE.inputs_key


@pytest.mark.parametrize(
    ("kinds", "label"),
    [((), "F32"), (("Q4_0",), "Q4_0"), (("Q4_K",) * 3, "Q4_K"), (("Q4_K", "Q4_K", "Q6_K"), "Q4_K+Q4_K+Q6_K")],
)
def test_a_cells_kind_is_one_label(kinds: tuple[str, ...], label: str) -> None:
    assert replace(CASE, kinds=kinds).kind == label


def test_the_family_is_that_of_the_activations() -> None:
    assert CASE.family == "tiny"
    assert replace(CASE, x=FromFile("ab" * 32)).family == "file"


def test_a_shape_reads_as_its_grammar() -> None:
    shape = Shape.of(rows=37, cols=768)
    assert str(shape) == "37x768"
    assert (shape["rows"], shape["cols"]) == (37, 768)
    assert shape != Shape.of(cols=768, rows=37)


def test_a_packed_buffer_is_contiguous() -> None:
    buffer = packed("out", (3, 5), Role.OUT)
    assert (buffer.strides, buffer.nbytes, buffer.offset) == ((20, 4), 60, 0)
    assert buffer.view(np.zeros(60, np.uint8)).flags.c_contiguous
    assert packed("w", (2, 18), Role.IN, "u1").nbytes == 36


def test_a_view_is_no_copy_and_keeps_to_pitch_and_offset() -> None:
    buffer = Buffer("w", "u1", (2, 3), (5, 1), 2, 12, Role.IN)
    image = np.zeros(12, np.uint8)
    buffer.view(image)[:] = 7
    assert image.tolist() == [0, 0, 7, 7, 7, 0, 0, 7, 7, 7, 0, 0]


def test_a_view_past_its_image_is_refused() -> None:
    buffer = packed("out", (4,), Role.OUT)
    with pytest.raises((TypeError, ValueError)):
        buffer.view(np.zeros(15, np.uint8))


def launched() -> Plan:
    args = (
        BufferArg("x", "act"),
        BufferArg("out", "y"),
        ScalarArg("n", "i4", 4),
        ScalarArg("eps", "f4", 0.5),
    )
    launch = Launch("rmsnorm/block", "", "entry", args, (1, 1, 1), (256, 1, 1))
    return Plan((packed("act", (4,), Role.IN), packed("y", (4,), Role.OUT)), (launch,), Build.EXACT)


def test_a_launch_knows_its_arguments_by_role() -> None:
    (launch,) = launched().launches
    assert launch.scalars == {"n": 4, "eps": 0.5}
    assert launch.buffers == {"x": "act", "out": "y"}


def test_a_plan_gives_views_by_role() -> None:
    plan = launched()
    images = {"act": np.zeros(16, np.uint8), "y": np.zeros(16, np.uint8)}
    arrays = plan.arrays(plan.launches[0], images)
    arrays["out"][:] = 1.0
    assert images["y"].view(np.float32).tolist() == [1.0] * 4
    assert plan.buffer("act").role is Role.IN


def test_a_fingerprint_is_of_the_whole_device() -> None:
    device = Device("cpu", "cpu-x86_64", "A CPU", "u", 1, (("driver", "1"),))
    assert device.fingerprint_digest != replace(device, fingerprint=(("driver", "2"),)).fingerprint_digest


def test_what_crosses_rooms_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        CASE.op = "mul_mm"
