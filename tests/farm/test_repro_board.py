"""farm repro of a GPU's cell: CuPy runs it without the farm; here a CuPy that plays a board."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from farm.cli import main
from kernels.inputs import FIXTURE_VERSION
from kernels.model import Build, Case, Seeded, Shape
from tests.farm.grids import GPU
from tests.farm.lines import database_with, line_of
from tests.farm.test_repro import ALONE

FAKES = Path(__file__).with_name("fakes")
SEED = Seeded("ordinary", 5, FIXTURE_VERSION)
CASE = Case("silu_mul", "flat", (), Shape.of(n=1000), SEED, SEED, Build.EXACT)
FLAGS = "--gpu-architecture=sm_80 --std=c++17 --ftz=false --fmad=false"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a cell that a GPU ran."""
    folder = tmp_path_factory.mktemp("repro")
    ran = line_of(case=CASE, device=GPU)
    url = database_with(folder, [replace(ran, backend="cuda", flags=FLAGS, launches=(), repeats=2)])
    words = [
        "repro",
        "rtx-3060/cuda/silu_mul/flat/F32/exact",
        "--db",
        url,
        "--output",
        str(folder / "case.py"),
    ]
    made = CliRunner().invoke(main, words)
    assert made.exit_code == 0, made.stderr
    return folder / "case.py"


def alone(path: Path, board: str) -> subprocess.CompletedProcess[str]:
    """Runs the file where there is numpy, a CuPy and no farm."""
    program = f"import sys; sys.path.insert(0, {str(FAKES)!r})\n{ALONE}"
    words = [sys.executable, "-I", "-c", program, str(path)]
    env = {**os.environ, "BOARD": board}
    return subprocess.run(words, capture_output=True, text=True, check=False, cwd=path.parent, env=env)


def test_a_right_kernel_is_right_by_the_flags_of_the_cell_on_the_architecture_that_is_there(
    path: Path,
) -> None:
    again = alone(path, "right")
    assert (again.returncode, again.stderr) == (0, ""), again.stdout
    assert "flags --gpu-architecture=sm_86 --std=c++17 --ftz=false --fmad=false\n" in again.stdout
    assert "here: PASS: 1000 positions compared, the worst at" in again.stdout


@pytest.mark.parametrize(
    ("board", "code", "says"),
    [
        ("wrong", 3, "here: FAIL: element ("),
        ("one missing", 3, "here: FAIL: 1 of 1000 outputs never written: out"),
        ("past", 3, "here: FAIL: 4 bytes written around buffer out"),
        ("input", 3, "here: FAIL: input gate was written to"),
        ("restless", 3, "here: FAIL: nondeterministic: out differs between turn 0 and 1"),
        ("code 700", 3, "here: CRASH: cudaError 700"),
        ("code 702", 3, "here: TIMEOUT: cudaError 702"),
        ("refused", 3, "here: REJECT: k.cu(3): error: expected a ;"),
        ("no entry", 3, "here: REJECT: CUresult 500"),
        ("no header", 1, 'could not open source file "cuda_fp16.h"; set CUDA_HOME to a toolkit'),
        ("code 999", 1, "here: could not be run: cudaError 999"),
        ("full", 1, "here: could not be run: cudaError 2"),
        ("absent", 1, "here: could not be run: cudaError 100"),
        ("unknown", 1, "here: could not be run: CuPy's NVRTC knows no sm_86"),
    ],
)
def test_what_goes_wrong_has_its_verdict_or_is_no_verdict(
    board: str, code: int, says: str, path: Path
) -> None:
    again = alone(path, board)
    assert (again.returncode, says in again.stdout, again.stderr) == (code, True, ""), again.stdout


def test_without_cupy_it_says_what_to_install(path: Path) -> None:
    program = f"import sys; sys.modules['cupy'] = None\n{ALONE}"
    words = [sys.executable, "-I", "-c", program, str(path)]
    again = subprocess.run(words, capture_output=True, text=True, check=False)
    assert again.returncode == 1
    assert "could not be run: CuPy doesn't load" in again.stdout
    assert "pip install cupy-cuda12x or cupy-cuda13x" in again.stdout
