"""What other projects lived through: checks that checked nothing, tables that drifted, routes that lied."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import kernels.ops
from farm.reader import claims_for, kinds_of
from kernels import catalog, inputs, registry
from kernels.catalog import Selection
from kernels.evidence import Evidence, LaunchRecord, Verdict
from kernels.kind import Kind
from kernels.kinds.q3_k import group_scales
from kernels.model import Build, Case, Launch, Shape
from kernels.op import Matrix
from tests.cases.making import KINDS, RunCase, found, linear_case, positions, run_on_host, run_with
from tests.kernels.kinds.test_cuda_text import COMPILER, Compiled
from tests.workers.test_zoo import Caged
from tests.workers.zoo import Wrong
from workers.backend import Unavailable
from workers.backends.host import BACKEND as HOST
from workers.backends.twin import BACKEND as TWIN
from workers.host import compiler

EXACT = (Build.EXACT,)


@pytest.fixture
def run() -> RunCase:
    """run(case) is the right kernel's evidence on the host, run(case, wrong) that of a wrong one."""
    try:
        HOST.devices()
    except Unavailable as reason:
        pytest.skip(str(reason))
    return run_on_host


# A fixture that built one block per row whatever the columns were.


def blocks_of(case: Case) -> list[np.ndarray]:
    """(rows, blocks, block bytes) uint8 of every weight matrix of the case."""
    operands = registry.op(case.op).operands(case)
    plan = registry.kernel(f"{case.op}/{case.kernel}").plan(case)
    images = inputs.images(case, plan, operands)
    return [
        np.ascontiguousarray(plan.buffer(matrix.name).view(images[matrix.name])).reshape(
            matrix.rows, matrix.cols // matrix.kind.elements, matrix.kind.block_bytes
        )
        for matrix in operands
        if isinstance(matrix, Matrix)
    ]


def differ_along_rows(blocks: np.ndarray) -> bool:
    return all(len({block.tobytes() for block in row}) == len(row) for row in blocks)


@pytest.mark.parametrize("kind", KINDS)
def test_every_block_of_a_row_is_another(kind: str) -> None:
    chosen = Selection(kinds=(kind,), families=("ordinary",), builds=EXACT)
    planned = [one.case for one in catalog.expand(chosen) if not one.case.packing]  # those have GGML's blocks
    cases = {case.inputs_key: case for case in planned}
    matrices = [blocks for case in cases.values() for blocks in blocks_of(case)]
    assert sum(blocks.shape[1] for blocks in matrices) >= 500
    assert all(map(differ_along_rows, matrices))


def test_a_row_of_equal_blocks_is_seen() -> None:
    (same,) = blocks_of(linear_case("matvec/block", "Q4_0", 3, 5, "constant"))
    assert same.shape == (3, 5, 18)
    assert not differ_along_rows(same)


# A check that panicked on its first kind and so compared nothing for weeks.


def outputs_of(case: Case) -> int:
    """Elements of every launch's output, as the shape alone says."""
    size = dict(case.shape.axes)
    by_op = {
        "matvec": lambda: size["rows"],
        "mul_mm": lambda: size["rows"] * size["batch"],
        "ffn": lambda: 3 * size["inner"] + size["hidden"],
        "multi_matvec": lambda: size["q_rows"] + 2 * size["kv_rows"],
        "mul_mat_id": lambda: size["tokens"] * size["top_k"] * size["rows"],
        "quantize_q8_1": lambda: size["rows"] * size["n"] // 32 * 36,  # bytes
        "gemm": lambda: size["rows"] * size["batch"],
        "silu_mul": lambda: size["n"],
        "rmsnorm": lambda: size["n"] * size["rows"],
        "add_rmsnorm": lambda: size["n"],
    }
    quantizes = registry.kernel(f"{case.op}/{case.kernel}").float_x
    return by_op[case.op]() + (size["cols"] // 32 * 36 if quantizes else 0)  # the activations' bytes


FIRST_BUILDS = [
    cell for cell in catalog.cells() if cell.build is registry.kernel(f"{cell.op}/{cell.kernel}").builds[0]
]


@pytest.mark.parametrize("cell", FIRST_BUILDS, ids=lambda cell: f"{cell.op}/{cell.kernel}/{cell.kind}")
def test_every_cell_compares_every_output(cell: catalog.CellName) -> None:
    chosen = Selection(kernels=(f"{cell.op}/{cell.kernel}",), families=("ordinary",), builds=(cell.build,))
    case = next(planned.case for planned in catalog.expand(chosen) if planned.case.kind == cell.kind)
    assert outputs_of(case) > 0
    line = run_with(TWIN, case)
    if "has no twin" in line.reason:
        line = run_with(HOST, case)
    assert found(line) == (Verdict.PASS, outputs_of(case))


# Three shapes, together as many outputs as the reference's check on its CPU compares for each kind.
THREE = ((64, 1, 64), (71, 3, 37), (33, 2, 3))  # rows, blocks, tokens
POSITIONS = 6_822


def in_three_shapes(kind: str, family: str = "ordinary") -> list[Case]:
    cases = []
    for rows, blocks, batch in THREE:
        cols = blocks * registry.kind(kind).elements
        case = linear_case("mul_mm/reference", kind, rows, blocks, family)
        cases.append(replace(case, shape=Shape.of(rows=rows, cols=cols, batch=batch)))
    return cases


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_compared_at_6822_positions_over_three_shapes(run: RunCase, kind: str) -> None:
    lines = list(map(run, in_three_shapes(kind)))
    assert {line.verdict for line in lines} == {Verdict.PASS}
    assert sum(map(positions, lines)) == POSITIONS


@pytest.mark.parametrize("sizes", [{"rows": 0, "cols": 256}, {"rows": 3, "cols": 0}])
def test_nothing_compared_is_never_a_pass(sizes: dict[str, int]) -> None:
    case = replace(linear_case("matvec/block", "Q4_K", 3, 1), shape=Shape.of(**sizes))
    line = run_with(TWIN, case)
    assert found(line) == (Verdict.SKIP, 0)
    assert line.reason.startswith("empty: got rows ")


# A kernel in the file that no row of the table reaches.


def unreached(texts: Iterable[Path], reached: Iterable[Path]) -> list[str]:
    """Every __global__ function that no cell of the catalog launches, by file."""
    known = set(reached)
    lost = []
    for path in texts:
        entries = compiler.ENTRY.findall(path.read_text(encoding="utf8"))
        wanted = ["ENTRY"] if path in known else []
        lost += [f"{path.name}: {entry}" for entry in entries if entry not in wanted]
        lost += [f"{path.name}: no ENTRY" for entry in wanted if entry not in entries]
    return lost


def texts_of_the_catalog() -> set[Path]:
    """The CUDA files that the launches of some cell are made of."""
    folder = Path(kernels.ops.__path__[0])
    parts = {
        part
        for cell in catalog.cells()
        for part, _ in registry.kernel(f"{cell.op}/{cell.kernel}").parts(kinds_of(cell.op, cell.kind))
    }
    return {folder / kernel.op / kernel.body for kernel in map(registry.launch_kernel, parts)}


def test_every_cuda_function_is_reached_by_a_cell() -> None:
    texts = sorted(Path(kernels.ops.__path__[0]).rglob("*.cu"))
    assert len(texts) >= 6
    assert unreached(texts, texts_of_the_catalog()) == []


def test_a_cuda_function_that_no_cell_reaches_is_seen(tmp_path: Path) -> None:
    stray, used = tmp_path / "stray.cu", tmp_path / "used.cu"
    stray.write_text('extern "C" __global__ void ENTRY(float *x) {}')
    used.write_text("__global__ void ENTRY() {}\n__global__ void __launch_bounds__(256) second() {}")
    assert unreached([stray, used], [used]) == ["stray.cu: ENTRY", "used.cu: second"]


# A capability table written out in three places, of which one lost a kind.


def test_rows_of_the_matrix_are_the_cells_of_the_catalog() -> None:
    cells = [(cell.op, cell.kernel, cell.kind, cell.build.value) for cell in catalog.cells()]
    claims = claims_for([])
    assert [tuple(claim.row) for claim in claims] == cells
    assert all(len(claim.source_digest) == 64 and claim.listed for claim in claims)


# A coalesced kernel launched with the other kernel's geometry: no error, and here not even wrong numbers.


def launched_as_block(launch: Launch) -> Launch:
    """The geometry of matvec/block around matvec/coalesced: eight times the thread blocks that it needs."""
    return replace(launch, grid=(int(launch.scalars["rows"]), 1, 1))


def routes(launches: Iterable[Launch | LaunchRecord]) -> list[tuple[object, ...]]:
    return [(one.kernel, one.entry, one.grid, one.block, one.dynamic_shared_bytes) for one in launches]


@pytest.mark.parametrize("kind", ["Q4_K", "Q8_0"])
def test_the_launch_record_tells_when_the_geometry_is_another_kernels(run: RunCase, kind: str) -> None:
    case = linear_case("matvec/coalesced", kind, rows=9, blocks=3)
    planned = registry.kernel("matvec/coalesced").plan(case).launches
    right = run(case)
    wrong = run_with(Caged(Wrong("rerouted", "matvec/coalesced", kind, relaunch=launched_as_block)), case)
    assert (found(right), found(wrong)) == ((Verdict.PASS, 9), (Verdict.ERROR, 9))
    assert "launch 0 was" in wrong.reason
    assert routes(right.launches) == routes(planned)
    assert (right.launches[0].grid, wrong.launches[0].grid) == ((2, 1, 1), (9, 1, 1))


# A probe that assumed there is no GPU, or spoke up when there was none.

PROBE = """
from workers.boards import survey
from workers.backend import names
found = survey(names())
assert len(found.boards) + len(found.unavailable) >= 1
assert all("\\n" not in reason for reason in found.unavailable)
"""


@pytest.mark.parametrize("visible", [None, "", "-1", "99"])
def test_probing_is_quiet_with_and_without_a_gpu(visible: str | None) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    if visible is not None:
        environment["CUDA_VISIBLE_DEVICES"] = visible
    words = [sys.executable, "-W", "error", "-c", PROBE]
    root = Path(__file__).parents[1]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, cwd=root, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# Sabotage whose yield is known: what a check finds is counted, not only that it finds something.

SABOTAGE = {
    "Q5_0": (  # the reference's qh shift 12 for 16
        ("block[AT_QH + 2 * sub] | block[AT_QH + 2 * sub + 1] << 8", "bytes_at(block + AT_QH) >> 12 * sub"),
        ("block[AT_QH + (lane >> 3)] >> (lane & 7)", "bytes_at(block + AT_QH) >> (lane - (lane >> 4 << 2))"),
    ),
    "IQ4_XS": (("((group & 3) << 1) & 3", "(group & 3) & 3"),),  # scales_h by one bit a group for two
    "Q3_K": (  # hmask inverted
        ("(hmask[i] >> bit & 1) << 2", "(~hmask[i] >> bit & 1) << 2"),
        ("(thirds & 0x0101) << 2", "(~thirds & 0x0101) << 2"),
    ),
}  # fmt: skip
WEIGHTS_CHANGED = {"Q5_0": 1_010, "IQ4_XS": 2_240, "Q3_K": 4_048}  # of 4,096 decoded weights
ONEHOT_OUTPUTS = {"Q5_0": 1_527, "IQ4_XS": 3_405, "Q3_K": 6_759}  # of 6,822
GROUPS = np.arange(8)


def must_change(name: str, blocks: np.ndarray) -> int:
    """How many weights the sabotage changes, from the fields of the blocks alone."""
    if name == "Q5_0":  # upper half of the weights: bit i + 12 for i + 16
        fifth = np.unpackbits(blocks["qh"], axis=1, bitorder="little")
        return int((fifth[:, 12:28] != fifth[:, 16:]).sum())
    if name == "IQ4_XS":  # 32 weights a group
        high = blocks["scales_h"][:, None]
        moved = high >> (GROUPS // 4 * 8 + GROUPS % 4) & 3
        return 32 * int((moved != high >> 2 * GROUPS & 3).sum())
    return 16 * int(np.count_nonzero(group_scales(blocks["scales"])))  # a scale of 0 hides Q3_K's hmask


def sabotaged(kind: Kind) -> Kind:
    text = kind.cuda
    for right, wrong in SABOTAGE[kind.name]:
        assert right in text
        text = text.replace(right, wrong)
    return replace(kind, cuda=text)


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler on the path")
@pytest.mark.parametrize("name", SABOTAGE)
def test_sabotage_of_a_decode_changes_as_many_weights_as_it_must(name: str, tmp_path: Path) -> None:
    kind = registry.kind(name)
    (blocks,) = blocks_of(linear_case("matvec/block", name, 16, 256 // kind.elements))
    blocks = blocks.reshape(-1, kind.block_bytes)
    compiled, want = Compiled(sabotaged(kind), tmp_path), kind.weights(blocks)
    assert want.size == 4_096
    wrong = [int((got != want).sum()) for got in (compiled.by_sub(blocks), compiled.by_lane(blocks))]
    assert wrong == [WEIGHTS_CHANGED[name]] * 2
    assert must_change(name, blocks.view(kind.block).reshape(-1)) == WEIGHTS_CHANGED[name]


@pytest.mark.parametrize("name", SABOTAGE)
def test_sabotage_of_a_decode_fails_every_output_of_the_three_shapes(run: RunCase, name: str) -> None:
    """Dense activations: every sum has some changed weight."""
    wrong = Wrong(name, "mul_mm/reference", name, SABOTAGE[name][:1])
    lines = [run(case, wrong) for case in in_three_shapes(name)]
    assert {line.verdict for line in lines} == {Verdict.FAIL}
    assert sum(map(bad, lines)) == sum(map(positions, lines)) == POSITIONS


@pytest.mark.parametrize("name", SABOTAGE)
def test_sabotage_of_a_decode_fails_the_outputs_whose_one_weight_changed(run: RunCase, name: str) -> None:
    """One-hot activations: every output is one product."""
    wrong = Wrong(name, "mul_mm/reference", name, SABOTAGE[name][:1])
    lines = [run(case, wrong) for case in in_three_shapes(name, "onehot")]
    assert {line.verdict for line in lines} == {Verdict.FAIL}
    assert sum(map(positions, lines)) == POSITIONS
    assert sum(map(bad, lines)) == ONEHOT_OUTPUTS[name]


def bad(line: Evidence) -> int:
    """Outputs outside the bound."""
    return line.comparison.bad if line.comparison else 0
