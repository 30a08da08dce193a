"""Wrong libraries behind gemm/library: each must FAIL on its quick cases, where the right one passes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kernels import catalog
from kernels.catalog import Selection
from kernels.evidence import Evidence, Verdict
from tests.cases.making import run_with
from workers import backend as backends
from workers.backend import Unavailable
from workers.backends.host import BACKEND as HOST
from workers.host import libraries
from workers.host.libraries import Arrays

CASES = [planned.case for planned in catalog.expand(Selection(kernels=("gemm/library",)))]


def in_float16(arrays: Arrays) -> None:
    """Sums in float16, as a fast mode has them."""
    products = arrays["x"][:, None, :] * arrays["weights"].view("<f2")[None, :, :]
    arrays["out"][...] = np.add.accumulate(products, axis=-1)[..., -1]


def as_bfloat16(arrays: Arrays) -> None:
    """Operands cut to bfloat16."""
    whole = (arrays["weights"].view("<f2").astype(np.float32), arrays["x"].astype(np.float32))
    w, x = ((part.view(np.uint32) & 0xFFFF0000).view(np.float32) for part in whole)
    arrays["out"][...] = x @ w.T


def without_the_last(arrays: Arrays) -> None:
    """One column too few."""
    w, x = arrays["weights"].view("<f2").astype(np.float32), arrays["x"].astype(np.float32)
    arrays["out"][...] = x[:, :-1] @ w[:, :-1].T


def neighbours_rows(arrays: Arrays) -> None:
    """Outputs in the place of their neighbour."""
    libraries.gemm(arrays)
    arrays["out"][...] = np.roll(arrays["out"], 1, axis=1)


def one_left_out(arrays: Arrays) -> None:
    """The last output is never written."""
    kept = arrays["out"][-1, -1].copy()
    libraries.gemm(arrays)
    arrays["out"][-1, -1] = kept


def flushing(arrays: Arrays) -> None:
    """Subnormal float16 weights are zero."""
    w = arrays["weights"].view("<f2").astype(np.float32)
    w = np.where(np.abs(w) < 2.0**-14, np.float32(0), w)
    with np.errstate(all="ignore"):
        arrays["out"][...] = arrays["x"].astype(np.float32) @ w.T


@pytest.fixture(autouse=True)
def has_a_host() -> None:
    try:
        backends.backend("host").devices()
    except Unavailable as reason:
        pytest.skip(str(reason))


def failing(lines: list[Evidence]) -> list[Evidence]:
    return [line for line in lines if line.verdict is Verdict.FAIL]


def test_the_right_library_passes_every_quick_case() -> None:
    lines = [run_with(HOST, case) for case in CASES]
    assert len(lines) >= 20
    assert {line.verdict for line in lines} == {Verdict.PASS}
    assert all(line.comparison and line.comparison.positions for line in lines)
    assert {line.launches[0].library for line in lines} == {libraries.blas()}
    assert {line.compiler for line in lines} == {libraries.blas()}


@pytest.mark.parametrize(
    "wrong", [in_float16, as_bfloat16, without_the_last, neighbours_rows, one_left_out, flushing]
)
def test_a_wrong_library_fails(monkeypatch: pytest.MonkeyPatch, wrong: Callable[[Arrays], None]) -> None:
    monkeypatch.setitem(libraries.ROUTINES, "gemm", wrong)
    with np.errstate(all="ignore"):
        assert failing([run_with(HOST, case) for case in CASES])
