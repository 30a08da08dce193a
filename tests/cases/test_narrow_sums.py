"""Cases from the field about sums that leave a narrow type on the way."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kernels import registry
from kernels.evidence import Evidence, Verdict
from kernels.model import Case
from tests.cases.making import LINEAR, RunCase, linear_case, npy, positions, tokens
from tests.workers.zoo import Wrong
from workers.files import FileStore

WITH_MIN = ("Q4_1", "Q5_1", "Q4_K", "Q5_K")  # their mins meet the sum of the activations
KERNELS = (*LINEAR, "matvec/coalesced_f16", "matvec/dp4a", "mul_mm/reference_f16")
LARGE = 2048.0  # as float16 d times 32 * 127 the sum is 65,536: Inf in float16


def sums(kernel: str, kind: str, folder: Path) -> tuple[Case, FileStore]:
    """Three rows of one block, every activation LARGE."""
    case = linear_case(kernel, kind, rows=3, blocks=1)
    store, x = npy(folder, np.full(tokens(kernel) * case.shape["cols"], LARGE, np.float32))
    return replace(case, x=x), store


def wanted(line: Evidence) -> float:
    assert line.comparison is not None
    assert line.comparison.worst is not None
    return line.comparison.worst.want


@pytest.mark.parametrize("kind", [*WITH_MIN, "IQ1_S"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_case_07_sums_overflow_a_narrow_intermediate_and_stay_finite(
    run: RunCase, kernel: str, kind: str, tmp_path: Path
) -> None:
    if not registry.kernel(kernel).serves((kind,)):
        assert (kernel, kind) == ("matvec/dp4a", "IQ1_S")  # it has no integer form
        return
    case, store = sums(kernel, kind, tmp_path)
    line = run(case, files=store)
    assert line.verdict is Verdict.PASS
    assert positions(line) >= 3 * tokens(kernel)
    assert math.isfinite(wanted(line))  # and so the output: its class is the oracle's


@pytest.mark.parametrize("kind", WITH_MIN)
def test_case_07_sums_overflow_a_narrow_intermediate_that_is_read(
    run: RunCase, kind: str, tmp_path: Path
) -> None:
    """The block's own sum in float16 in place of the quants' sum: Inf times the min."""
    edit = ("(d * (float)total)", "half_at(activations + 2)")
    case, store = sums("matvec/dp4a", kind, tmp_path)
    line = run(case, Wrong("reads s", "matvec/dp4a", kind, (edit,)), store)
    assert line.verdict is Verdict.FAIL
    assert "got inf" in line.reason or "got -inf" in line.reason or "got nan" in line.reason
