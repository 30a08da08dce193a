"""CELL: every part that is wrong is answered with what there is."""

from __future__ import annotations

import pytest

from farm.cell_name import find_cells
from farm.matrix import Matrix
from kernels.errors import UsageError
from tests.farm.grids import BLOCK, BLOCK_DEFAULT, CPU, CPU_2, GPU, H200, capability, matrix_of


@pytest.fixture
def matrix() -> Matrix:
    rows = [BLOCK, BLOCK_DEFAULT]
    return matrix_of([capability()], rows=rows, devices=[CPU, CPU_2, GPU], targets=[H200])


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("cpu-x86_64-aaaa/host/matvec/block/Q4_0/exact", 1),
        ("cpu-x86_64/host/matvec/block/Q4_0/exact", 2),  # two boards
        ("cpu-x86_64/host/matvec/block/q4_0", 4),  # and two builds
        ("sm_86/cuda/matvec/block/Q4_0/default", 1),
        ("h200/cuda/matvec/block/Q4_0", 2),
    ],
)
def test_a_name_finds_its_cells(matrix: Matrix, name: str, count: int) -> None:
    assert len(find_cells(matrix, name)) == count


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("h100/cuda/matvec/block/Q4_0", "no device named 'h100'; there are cpu-x86_64, h200, rtx-3060"),
        ("cpu-x86_64/cuda/matvec/block/Q4_0", "no backend named 'cuda'; there are host"),
        ("h200/cuda/matmul/block/Q4_0", "no op named 'matmul'; there are matvec"),
        ("h200/cuda/matvec/fast/Q4_0", "no kernel named 'fast'; there are block"),
        ("h200/cuda/matvec/block/Q9_Z", "no kind named 'Q9_Z'; there are Q4_0"),
        ("h200/cuda/matvec/block/Q4_0/O3", "no build named 'O3'; there are exact, default"),
        ("matvec/block", "cell 'matvec/block' is not written DEVICE/BACKEND/OP/KERNEL/KIND"),
        ("a/b/c/d/e/f/g", "is not written"),
        ("h200//matvec/block/Q4_0", "is not written"),
        ("", "is not written"),
    ],
)
def test_a_wrong_part_is_named_with_what_there_is(matrix: Matrix, name: str, complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        find_cells(matrix, name)
    assert complaint in str(caught.value)
