"""farm repro: one file that fails as the cell did, or passes as it did, without the farm."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from db.session import open_database
from farm import user_catalog
from farm.cli import main
from kernels import catalog
from kernels.catalog import Selection
from kernels.evidence import Evidence, Verdict
from kernels.model import Build, Shape
from kernels.op import Workload
from tests.farm.lines import case_of, database_with, line_of
from tests.workers.catalogs import ran, written
from workers.backend import backend
from workers.image_cache import ImageCache
from workers.request import Request
from workers.runner import new_id, run_case

# Stands in for an environment that has numpy alone: what isn't numpy's or Python's own can't be imported.
ALONE = """
import runpy, sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in ('farm', 'kernels', 'workers', 'db', 'gguf', 'sqlalchemy', 'click', 'ray'):
            raise ImportError(f'{name} is not here')
sys.meta_path.insert(0, Nothing())
runpy.run_path(sys.argv[1], run_name='__main__')
"""

TOML = """
name = "mine"
op = "matvec"
kinds = ["Q8_0"]
[[step]]
entry_point = "k.cu::mine"
args = ["weights", "x", "out", "rows", "blocks"]
grid = ["rows"]
block = ["32"]
"""
CU = """
__global__ void mine(const unsigned char *w, const float *x, float *out, int rows, int blocks) {
    int row = blockIdx.x;
    const unsigned char *block = w + row * blocks * 34;
    float sum = 0.0f;
    for (int b = threadIdx.x; b < blocks; b += 32) {
        unsigned bits = block[34 * b] | block[34 * b + 1] << 8;
        unsigned exponent = (bits >> 10 & 31u) + 112u, fraction = bits & 1023u;
        float scale = __uint_as_float((bits & 0x8000u) << 16 | exponent << 23 | fraction << 13);
        for (int i = 0; i < 32; i++)
            sum += scale * (float)(signed char)block[34 * b + 2 + i] * x[b * 32 + i];
    }
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (threadIdx.x == 0)
        out[row] = sum;
}
"""


def alone(path: Path) -> subprocess.CompletedProcess[str]:
    """Runs the file where there is numpy and no farm."""
    words = [sys.executable, "-I", "-c", ALONE, str(path)]
    return subprocess.run(words, capture_output=True, text=True, check=False, cwd=path.parent)


def repro(url: str, name: str, output: Path) -> Result:
    return CliRunner().invoke(main, ["repro", name, "--db", url, "--output", str(output)])


def of_catalog(folder: Path, old: str, new: str) -> tuple[Evidence, Path]:
    """The line of a user's kernel with an edit of its text, and the file that repeats it."""
    assert CU.count(old) == 1 or old == new
    mine = written(k_toml=TOML, k_cu=CU.replace(old, new))
    line = ran(mine, Workload(Shape.of(rows=9, cols=1056)), "Q8_0")
    url = database_with(folder, [line])
    database = open_database(url)
    with database.writing() as s:
        user_catalog.store(s, mine.pack, 1)
    database.close()
    result = repro(url, "cpu-x86_64/host/matvec/mine/Q8_0/exact", folder / "case.py")
    assert result.exit_code == 0, result.stderr
    return line, folder / "case.py"


def test_a_right_kernel_is_right_without_the_farm(tmp_path: Path) -> None:
    line, path = of_catalog(tmp_path, "", "")
    assert line.verdict is Verdict.PASS, line.reason
    again = alone(path)
    assert (again.returncode, again.stderr) == (0, "")
    ratio = re.search(r"here: PASS: 9 positions compared, the worst at (\S+) of its limit", again.stdout)
    assert ratio
    assert line.comparison
    assert float(ratio[1]) == pytest.approx(line.comparison.bound_ratio, rel=1e-3)


@pytest.mark.parametrize(
    ("old", "new", "verdict", "says"),
    [
        ("step = 16", "step = 8", Verdict.FAIL, r"FAIL: element \(\d,\) of out in matvec/mine: got"),
        (
            "out[row] = sum",
            "if (row) out[row] = sum",
            Verdict.FAIL,
            "FAIL: 1 of 9 outputs never written: out",
        ),
        ("out[row] = sum", "out[row + 1] = sum", Verdict.FAIL, "FAIL: |bytes written around buffer out"),
        ("out[row] = sum", "out[row + 4096] = sum", Verdict.CRASH, "CRASH: wild write at .* near buffer"),
        ("float sum = 0.0f", "float sum = 0.0f, x", Verdict.REJECT, "REJECT: k.cu:"),
    ],
)
def test_a_wrong_kernel_fails_as_its_cell_did(
    old: str, new: str, verdict: Verdict, says: str, tmp_path: Path
) -> None:
    line, path = of_catalog(tmp_path, old, new)
    assert line.verdict is verdict, line.reason
    again = alone(path)
    assert (again.returncode, again.stderr) == (3, "")
    assert again.stdout.startswith(f"the cell: {verdict} ")
    assert re.search(f"here: .*({says})", again.stdout), again.stdout


def test_the_worst_element_is_the_one_of_the_evidence(tmp_path: Path) -> None:
    line, path = of_catalog(tmp_path, "step = 16", "step = 8")
    assert line.comparison
    assert line.comparison.worst
    worst = line.comparison.worst
    figures = f"element {worst.index} of out in matvec/mine: got {worst.got:.9g}, want {worst.want:.9g}"
    assert figures in alone(path).stdout


@pytest.mark.parametrize(
    "kernel", ["ffn/coalesced", "silu_mul/flat", "quantize_q8_1/warp", "matvec/coalesced_bf16"]
)
@pytest.mark.parametrize("build", [Build.EXACT, Build.DEFAULT])
def test_plans_of_several_launches_and_other_types_run_alone(
    kernel: str, build: Build, tmp_path: Path
) -> None:
    op = kernel.split("/")[0]
    kinds = ("Q4_0",) if op in ("ffn", "matvec") else ()
    case = catalog.expand(Selection(kernels=(kernel,), kinds=kinds, builds=(build,)))[0].case
    host = backend("host")
    line = run_case(Request(new_id(), case, "host", host.devices()[0]), host, ImageCache(None))
    assert line.verdict is Verdict.PASS, line.reason
    name = f"cpu-x86_64/host/{kernel}/{case.kind}/{build}"
    assert repro(database_with(tmp_path, [line]), name, tmp_path / "case.py").exit_code == 0
    again = alone(tmp_path / "case.py")
    assert (again.returncode, again.stderr) == (0, ""), again.stdout


def test_a_text_that_was_changed_in_the_file_is_caught(tmp_path: Path) -> None:
    """The file judges what it has: a shift broken by hand in it fails."""
    _, path = of_catalog(tmp_path, "", "")
    text = path.read_text(encoding="utf8")
    assert text.count("step = 16") == 1
    path.write_text(text.replace("step = 16", "step = 4"), encoding="utf8")
    assert alone(path).returncode == 3


def test_no_compiler_is_exit_code_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, path = of_catalog(tmp_path, "", "")
    monkeypatch.setenv("CXX", "no-such-compiler")
    again = alone(path)
    assert again.returncode == 1
    assert "here: could not be run: there is no C++ compiler" in again.stdout


def test_what_says_nothing_of_a_kernel_is_refused(tmp_path: Path) -> None:
    url = database_with(tmp_path, [line_of(Verdict.ERROR), line_of(Verdict.SKIP, case_of("Q8_0"))])
    for name, code, says in (
        ("cpu-x86_64/host/matvec/block/Q4_0/exact", 2, "that is ERROR, a reason for ERROR"),
        ("cpu-x86_64/host/matvec/block/Q8_0/exact", 2, "that is SKIP, a reason for SKIP"),
        ("cpu-x86_64/host/matvec/block/Q6_K/exact", 1, "was never run; farm submit --kernel matvec/block"),
        ("cpu-x86_64/host/matvec/blok/Q6_K/exact", 2, "no kernel named 'blok'"),
        ("9", 2, "no job 9"),
    ):
        result = repro(url, name, tmp_path / "case.py")
        assert (result.exit_code, result.stderr.count("\n")) == (code, 1)
        assert says in result.stderr
    assert not (tmp_path / "case.py").exists()
