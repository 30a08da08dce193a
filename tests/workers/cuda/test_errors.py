"""Every code of CUDA that the farm sorts, with the verdict that it comes to and whether the child goes."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from kernels.errors import FarmError
from kernels.evidence import Verdict
from workers.backend import BoardFault
from workers.cuda import errors
from workers.cuda.errors import CUBLAS, CUDA, CudaError, During, sorted_out
from workers.runner import blame, spoils

CRASH, TIMEOUT, REJECT, SKIP, ERROR = (
    Verdict.CRASH, Verdict.TIMEOUT, Verdict.REJECT, Verdict.SKIP, Verdict.ERROR,
)  # fmt: skip
KEPT, REPLACED = False, True  # what becomes of the child

# By hand, from NVIDIA's description of each code: api, code, during, verdict, the child's fate.
ROWS = [
    (CUDA, 1, During.ELSE, ERROR, KEPT),
    (CUDA, 1, During.LAUNCH, SKIP, KEPT),
    (CUDA, 2, During.ELSE, SKIP, KEPT),
    (CUDA, 3, During.ELSE, ERROR, REPLACED),
    (CUDA, 4, During.ELSE, ERROR, REPLACED),
    (CUDA, 9, During.LAUNCH, SKIP, KEPT),
    (CUDA, 35, During.ELSE, ERROR, KEPT),
    (CUDA, 36, During.ELSE, ERROR, KEPT),
    (CUDA, 46, During.ELSE, ERROR, KEPT),
    (CUDA, 53, During.LAUNCH, CRASH, REPLACED),
    (CUDA, 98, During.LOAD, REJECT, KEPT),
    (CUDA, 100, During.ELSE, ERROR, REPLACED),
    (CUDA, 101, During.ELSE, ERROR, REPLACED),
    (CUDA, 200, During.LOAD, REJECT, KEPT),
    (CUDA, 201, During.ELSE, ERROR, REPLACED),
    (CUDA, 209, During.LOAD, REJECT, KEPT),
    (CUDA, 214, During.LAUNCH, ERROR, REPLACED),
    (CUDA, 218, During.LOAD, REJECT, KEPT),
    (CUDA, 220, During.LAUNCH, ERROR, REPLACED),
    (CUDA, 221, During.LOAD, ERROR, KEPT),
    (CUDA, 222, During.LOAD, REJECT, KEPT),
    (CUDA, 223, During.LOAD, ERROR, KEPT),
    (CUDA, 226, During.LAUNCH, ERROR, REPLACED),
    (CUDA, 300, During.LOAD, REJECT, KEPT),
    (CUDA, 301, During.LOAD, ERROR, KEPT),
    (CUDA, 500, During.LOAD, REJECT, KEPT),
    (CUDA, 700, During.LAUNCH, CRASH, REPLACED),
    (CUDA, 701, During.LAUNCH, SKIP, KEPT),
    (CUDA, 702, During.LAUNCH, TIMEOUT, REPLACED),
    (CUDA, 709, During.LAUNCH, ERROR, REPLACED),
    (CUDA, 710, During.LAUNCH, CRASH, REPLACED),
    (CUDA, 714, During.LAUNCH, CRASH, REPLACED),
    (CUDA, 715, During.LAUNCH, CRASH, REPLACED),
    (CUDA, 716, During.LAUNCH, CRASH, REPLACED),
    (CUDA, 717, During.LAUNCH, CRASH, REPLACED),
    (CUDA, 718, During.LAUNCH, CRASH, REPLACED),
    (CUDA, 719, During.LAUNCH, CRASH, REPLACED),
    (CUDA, 720, During.LAUNCH, SKIP, KEPT),
    (CUDA, 721, During.LAUNCH, CRASH, REPLACED),
    (CUDA, 802, During.ELSE, ERROR, KEPT),
    (CUDA, 803, During.ELSE, ERROR, KEPT),
    (CUDA, 804, During.ELSE, ERROR, KEPT),
    (CUDA, 912, During.LAUNCH, SKIP, KEPT),
    (CUDA, 999, During.LAUNCH, ERROR, REPLACED),
    (CUDA, 123456, During.LAUNCH, ERROR, REPLACED),  # a code of a later CUDA
    (CUBLAS, 1, During.LAUNCH, ERROR, KEPT),
    (CUBLAS, 3, During.LAUNCH, SKIP, KEPT),
    (CUBLAS, 7, During.LAUNCH, ERROR, KEPT),
    (CUBLAS, 8, During.LAUNCH, SKIP, KEPT),
    (CUBLAS, 13, During.LAUNCH, CRASH, REPLACED),
    (CUBLAS, 15, During.LAUNCH, SKIP, KEPT),
]


def well() -> str:
    return ""


def raised(code: int, during: During, trouble: Callable[[], str] = well, api: str = CUDA) -> FarmError:
    return sorted_out(CudaError(code, "cuDoIt", api), during, trouble)


def goes(error: FarmError) -> bool:
    """As the isolator does: a child ends after a CRASH and where its memory is spoiled."""
    return blame(error)[0] is CRASH or spoils(error)


@pytest.mark.parametrize(("api", "code", "during", "verdict", "fate"), ROWS)
def test_a_code_comes_to_its_verdict(
    api: str, code: int, during: During, verdict: Verdict, fate: bool
) -> None:
    error = raised(code, during, api=api)
    assert (blame(error)[0], goes(error)) == (verdict, fate)
    assert f"{api} error {code}" in str(error)
    assert "cuDoIt" in str(error)


def test_every_row_of_the_table_is_tried() -> None:
    assert {(row.api, row.code) for row in errors.TABLE} <= {(api, code) for api, code, *_ in ROWS}
    assert len(errors.BY_CODE) == len(errors.TABLE)


@pytest.mark.parametrize(
    ("api", "code"), [(api, code) for api, code, _, verdict, _ in ROWS if verdict in (CRASH, TIMEOUT)]
)
def test_a_board_with_trouble_of_its_own_is_blamed_before_a_kernel(api: str, code: int) -> None:
    error = raised(code, During.LAUNCH, lambda: "Xid 79, GPU has fallen off the bus", api)
    assert isinstance(error, BoardFault)
    assert blame(error)[0] is ERROR
    assert "fallen off the bus" in str(error)
    assert goes(error)


def test_a_board_is_not_asked_about_what_is_no_kernels_fault() -> None:
    def fails() -> str:
        raise AssertionError("asked")

    assert blame(raised(2, During.ELSE, fails))[0] is SKIP


def test_the_names_are_the_vendors() -> None:
    """Against the enumerations in NVIDIA's own binding, where it is installed."""
    driver = pytest.importorskip("cuda.bindings.driver")
    runtime = pytest.importorskip("cuda.bindings.runtime")
    theirs = {e.value: e.name.removeprefix("cudaError") for e in runtime.cudaError_t}
    theirs |= {e.value: e.name.removeprefix("CUDA_ERROR_") for e in driver.CUresult}
    wrong = {row.code for row in errors.TABLE if row.api == CUDA and theirs.get(row.code) != row.name}
    assert wrong == set()
    assert not re.search(r"\bkernel\b", errors.row_of(CudaError(8, "x")).name)
