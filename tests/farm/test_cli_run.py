"""`farm run`: one case in a child, what it prints, and its exit code."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pytest

from farm.campaign import Submitted
from kernels import registry
from workers import backend as backends
from workers.backend import Unavailable
from workers.machine import cpu_device

GOLDEN = Path(__file__).parents[1] / "data" / "golden"


def test_a_pass_shows_figures_and_exits_0(farm) -> None:
    result = farm("run", "matvec/block", "Q4_0", "37x96", "--backend", "twin")
    assert result.exit_code == 0
    assert result.stdout.startswith("PASS matvec/block Q4_0 37x96 ordinary exact on twin")
    assert "37 judged by oracle, 0 outside the bound" in result.stdout
    assert not (Path.cwd() / ".farm" / "farm.db").exists()


def test_a_refused_shape_is_skip_and_exits_0(farm) -> None:
    result = farm("run", "matvec/block", "Q4_0", "37x48", "--backend", "twin")
    assert result.exit_code == 0
    assert result.stdout.startswith("SKIP")
    assert "cols 48" in result.stdout


def test_json_is_the_evidence_line(farm) -> None:
    result = farm("run", "rmsnorm/block", "769", "--backend", "twin", "--json", "--repeats", "3")
    line = json.loads(result.stdout)
    assert (line["verdict"], line["repeats"]) == ("PASS", 3)
    again = farm("run", "--case", json.dumps(line["case"]), "--backend", "twin", "--json")
    assert json.loads(again.stdout)["case_id"] == line["case_id"]


def test_the_rule_that_was_chosen_decides_the_exit_code(farm) -> None:
    result = farm("run", "matvec/block", "Q4_0", "8x32", "--backend", "twin", "--rule", "exact")
    assert result.exit_code == 0
    assert "PASS by exact, which decides this run" in result.stdout


def test_check_is_a_build_whatever_names_the_case(farm) -> None:
    result = farm("run", "matvec/block", "Q4_0", "8x32", "--check", "--backend", "twin", "--json")
    line = json.loads(result.stdout)
    assert (result.exit_code, line["case"]["build"]) == (0, "check")
    other = json.dumps(line["case"] | {"build": "exact"})
    again = json.loads(farm("run", "--case", other, "--check", "--backend", "twin", "--json").stdout)
    assert again["case_id"] == line["case_id"]


def test_a_library_is_named_and_its_bits_are_nobodys_fault(farm) -> None:
    try:
        backends.backend("host").devices()
    except Unavailable as reason:
        pytest.skip(str(reason))
    text = farm("run", "gemm/library", "F16", "5x864x3", "--build", "default").stdout
    assert text.startswith("PASS gemm/library F16 5x864x3 ordinary default on host")
    assert re.search(r"launch 0 +gemm by \S+ .*\(numpy ", text)
    assert re.search(r"bits .*; a library adds in an order of its own", text)


def test_a_build_that_a_kernel_lacks_is_refused(farm) -> None:
    result = farm("run", "gemm/library", "F16", "5x64x3")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "gemm/library has no build 'exact', it has default; name that" in result.stderr


def test_a_compiler_has_nothing_to_do_for_a_library() -> None:
    kernel = registry.kernel("gemm/library")
    device = cpu_device()
    assert kernel.refuses_device(device, executes=True) == ""
    assert "there is no text to compile" in kernel.refuses_device(device, executes=False)


@pytest.mark.parametrize("kind", list(registry.kinds()))
def test_golden_blocks_give_ggmls_sums(kind: str, farm, tmp_path: Path) -> None:
    with np.load(GOLDEN / f"{kind.lower()}.npz", allow_pickle=False) as data:
        blocks, x, want = data["blocks"], data["x"], data["y_f64"]
    np.save(tmp_path / "blocks.npy", blocks)
    np.save(tmp_path / "x.npy", x)
    words = ("matvec/block", kind, "--weights", "blocks.npy", "--x", "x.npy", "--output", "y.npy")
    result = farm("run", *words, "--backend", "twin")
    assert result.exit_code == 0, result.output
    y = np.load(tmp_path / "y.npy")
    assert y.shape == want.shape
    assert np.sum((y - want) ** 2) / np.sum(want**2) < 1e-10


def test_a_case_of_the_database_is_found_by_its_id(farm, submitted: Submitted, database, tmp_path) -> None:
    with database.reading() as s:
        (case_json,) = s.exec_driver_sql("SELECT case_json FROM cases LIMIT 1").one()
    url = f"sqlite:///{tmp_path}/farm.db"
    wanted = hashlib.sha256(case_json.encode()).hexdigest()
    result = farm("run", "--case", wanted[:12], "--db", url, "--backend", "twin", "--json")
    assert json.loads(result.stdout)["case_id"] == wanted
    assert farm("run", "--case", "f" * 64, "--db", url).exit_code == 2
