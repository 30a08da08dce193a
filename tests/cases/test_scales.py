"""Cases from the field about scales: subnormal and extreme ones are decoded, not flushed or saturated."""

from __future__ import annotations

import numpy as np
import pytest

from kernels import inputs, registry
from kernels.evidence import Verdict
from kernels.model import Case
from tests.cases.making import KINDS, LINEAR, RunCase, found, linear_case, positions, tokens
from tests.workers.zoo import Wrong

EVERY_BYTE, EVERY_HALF = 256, 2560  # rows with which the family `extreme` has had them all


def scales(case: Case) -> set[int]:
    """The bits of the last scale field of every block."""
    kind = registry.kind(case.kinds[0])
    plan = registry.kernel(f"{case.op}/{case.kernel}").plan(case)
    images = inputs.images(case, plan, registry.op(case.op).operands(case))
    blocks = plan.buffer("weights").view(images["weights"]).view(kind.block)
    field = blocks["e" if "e" in (kind.block.names or ()) else "d"]
    return set(np.ascontiguousarray(field).view(np.uint8 if field.dtype == np.uint8 else np.uint16).flat)


def test_case_08_subnormal_and_extreme_scales_are_all_there() -> None:
    halves = scales(linear_case("matvec/block", "Q8_0", EVERY_HALF, 1, "extreme"))
    assert halves >= set(range(0x0001, 0x0400)) | set(range(0x8001, 0x8400)) | {0x7BFF, 0xFBFF}
    for kind in ("MXFP4", "NVFP4"):
        assert scales(linear_case("matvec/block", kind, EVERY_BYTE, 1, "extreme")) == set(range(256))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kernel", LINEAR[:2])  # decode16 and decode_lane
def test_case_08_subnormal_and_extreme_scales_are_decoded(run: RunCase, kernel: str, kind: str) -> None:
    line = run(linear_case(kernel, kind, EVERY_BYTE, 1, "extreme"))
    assert found(line) == (Verdict.PASS, EVERY_BYTE * tokens(kernel))
    assert line.comparison is not None
    assert line.comparison.bit_exact


@pytest.mark.parametrize("kernel", LINEAR)
def test_case_08_every_subnormal_float16_is_decoded(run: RunCase, kernel: str) -> None:
    line = run(linear_case(kernel, "Q8_0", EVERY_HALF, 1, "extreme"))
    assert found(line) == (Verdict.PASS, EVERY_HALF * tokens(kernel))


# What is wrong, and how many of 256 rows have a scale that shows it.
WRONG = {
    "float16 subnormals flushed": (
        "Q8_0",
        ("half_at(block + AT_D)", "(block[AT_D + 1] & 0x7C ? half_at(block + AT_D) : 0.0f)"),
        205,  # those of eight high bytes in ten, without the zeros
    ),
    "float16 saturated at 32768": (
        "Q8_0",
        ("half_at(block + AT_D)", "((block[AT_D + 1] & 0x7C) == 0x78 ? 32768.0f : half_at(block + AT_D))"),
        51,
    ),
    "E8M0 below 2^-126 flushed": ("MXFP4", ("0x00200000u << e", "0u"), 2),
    "E8M0 read as a signed byte": ("MXFP4", ("scale_of(block[AT_E])", "scale_of(block[AT_E] & 0x7F)"), 128),
    "E4M3 subnormals flushed": ("NVFP4", ("e4m3 == 0x7F ?", "e4m3 == 0x7F || !(e4m3 & 0x78) ?"), 14),
    "E4M3 no number decoded": ("NVFP4", ("e4m3 == 0x7F ? 0.0f : ", ""), 1),
}


@pytest.mark.parametrize("name", WRONG)
def test_case_08_subnormal_and_extreme_scales_flushed_or_saturated_fail(run: RunCase, name: str) -> None:
    kind, edit, rows = WRONG[name]
    case = linear_case("matvec/block", kind, EVERY_BYTE, 1, "extreme")
    line = run(case, Wrong(name, "matvec/block", kind, (edit,)))
    assert found(line) == (Verdict.FAIL, EVERY_BYTE)
    assert line.comparison is not None
    assert line.comparison.bad == rows
    assert positions(line) == EVERY_BYTE
