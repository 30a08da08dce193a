"""farm export --format flashinfer-trace: what is in the folder, what isn't, and who takes it."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from db import blob, capability
from db.evidence import Entry, append, key_of
from db.session import open_existing
from farm.cli import main
from farm.flashinfer_data import extra
from kernels import oracle, registry, source
from kernels.evidence import Evidence, Verdict
from tests.farm.grids import CPU, GPU
from tests.farm.lines import case_of, database_with, line_of

CHECK = Path(__file__).with_name("flashinfer_check.py")
FAILED_KIND, HERE = "Q4_K", "matvec_q4_0_rows3_cols256_f32_f32"


def on_gpu(verdict: Verdict, kind: str, kernel: str = "block") -> Evidence:
    return replace(line_of(verdict, case_of(kind, kernel=kernel), GPU), backend="cuda")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder that a database of every verdict becomes, and what is said beside."""
    home = tmp_path_factory.mktemp("trace")
    kinds = ("Q4_0", FAILED_KIND, "Q5_K", "Q6_K", "Q8_0", "Q3_K", "Q2_K", "Q5_0")
    order = (Verdict.PASS, Verdict.FAIL, Verdict.CRASH, Verdict.TIMEOUT, Verdict.REJECT, Verdict.SKIP,
             Verdict.ERROR, Verdict.LOST)  # fmt: skip
    lines = [on_gpu(verdict, kind) for verdict, kind in zip(order, kinds, strict=True)]
    lines.append(on_gpu(Verdict.PASS, "Q4_1"))  # its text isn't kept
    lines.append(line_of(Verdict.PASS, case_of("Q4_0"), CPU))
    database = open_existing(database_with(home, lines))
    with database.writing() as s:
        for line in lines[:8]:
            text = source.text("matvec/block", line.case.kind)
            blob.put_source(s, line.source_digest, (blob.SourceText("matvec/block", line.case.kind, text),))
    database.close()
    words = ["export", "--format", "flashinfer-trace", "--output", f"{home}/set", "--db",
             f"sqlite:///{home}/farm.db", "--rows", "matvec/block"]  # fmt: skip
    result = CliRunner().invoke(main, words)
    assert (result.exit_code, result.stdout) == (0, ""), result.stderr
    return home / "set", result.stderr


def lines_in(folder: Path, under: str) -> Iterator[dict[str, object]]:
    for path in sorted((folder / under).rglob("*.jsonl")):
        yield from map(json.loads, path.read_text(encoding="utf8").splitlines())


def test_a_trace_for_each_verdict_that_is_about_a_kernel(told: tuple[Path, str]) -> None:
    traces = list(lines_in(told[0], "traces"))
    statuses = {one["definition"].split("_rows")[0]: one["evaluation"]["status"] for one in traces}
    assert statuses == {
        "matvec_q4_0": "PASSED", "matvec_q4_k": "INCORRECT_NUMERICAL", "matvec_q5_k": "RUNTIME_ERROR",
        "matvec_q6_k": "TIMEOUT", "matvec_q8_0": "COMPILE_ERROR",
    }  # fmt: skip
    assert {one["evaluation"]["environment"]["hardware"] for one in traces} == {"NVIDIA_RTX_3060"}


def test_what_is_left_out_is_counted(told: tuple[Path, str]) -> None:
    said = told[1].splitlines()[-1]
    assert "5 traces of 5 definitions; left out: " in said
    for part in ("1 SKIP", "1 ERROR", "1 LOST", "1 without its text in this database", "cells never run",
                 "cells of host, no GPU"):  # fmt: skip
        assert part in said, part


@pytest.mark.parametrize(
    ("least", "kinds", "said"),
    [
        ("imported", ["q4_0", "q8_0"], "2 traces of 2 definitions"),
        ("own", ["q8_0"], "1 traces of 1 definitions; left out: "),
        ("confirmed", [], "0 traces of 0 definitions; left out: "),
    ],
)
def test_what_is_less_trusted_than_asked_is_no_trace_and_is_counted(
    tmp_path: Path, least: str, kinds: list[str], said: str
) -> None:
    brought, own = on_gpu(Verdict.PASS, "Q4_0"), on_gpu(Verdict.PASS, "Q8_0")
    lines = [brought, own]
    database = open_existing(database_with(tmp_path, [brought]))
    with database.writing() as s:
        append(s, [Entry(own, None, folded=True)], 1)
        capability.fold_cells(s, [key_of(own)])
        for line in lines:
            text = source.text("matvec/block", line.case.kind)
            blob.put_source(s, line.source_digest, (blob.SourceText("matvec/block", line.case.kind, text),))
    database.close()
    words = ["export", "--format", "flashinfer-trace", "--output", f"{tmp_path}/set", "--min-trust", least,
             "--db", f"sqlite:///{tmp_path}/farm.db", "--rows", "matvec/block"]  # fmt: skip
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.stderr
    traced = sorted(one["definition"] for one in lines_in(tmp_path / "set", "traces"))
    assert traced == [f"matvec_{kind}_rows3_cols256_f32_f32" for kind in kinds]
    told = result.stderr.splitlines()[-1]
    assert said in told
    count = 2 - len(kinds)
    assert (f"{count} cells less trusted than was asked for" in told) is (count > 0)


def test_digests_and_margins_are_in_the_extra_fields(told: tuple[Path, str]) -> None:
    (one,) = [one for one in lines_in(told[0], "traces") if one["definition"] == HERE]
    found = one["evaluation"]["correctness"]
    assert (found["max_absolute_error"], found["max_relative_error"]) == (4.0, 4.0)  # got 5, want 1
    assert (found["extra"]["bound_ratio"], found["extra"]["positions"]) == (0.5, 3)
    assert (found["extra"]["output_digest"], found["extra"]["device"]) == ("2" * 64, GPU.slug)
    assert one["evaluation"]["performance"] == {"latency_ms": 0.042}
    crash = next(one for one in lines_in(told[0], "traces") if one["evaluation"]["status"] == "RUNTIME_ERROR")
    assert json.loads(crash["evaluation"]["log"].splitlines()[1])["source_digest"]


def test_the_reference_computes_what_the_oracle_does(told: tuple[Path, str]) -> None:
    page = json.loads((told[0] / "definitions" / "matvec" / f"{HERE}.json").read_text(encoding="utf8"))
    assert {name: axis["value"] for name, axis in page["axes"].items()} == {
        "weights_0": 3, "weights_1": 144, "x_0": 256, "out_0": 3,
    }  # fmt: skip
    scope: dict[str, object] = {}
    exec(page["reference"], scope)
    rows = np.arange(3 * 144, dtype=np.uint8).reshape(3, 144) % 61
    x = np.linspace(-1, 1, 256, dtype=np.float32)
    want = oracle.weights(registry.kind("Q4_0"), rows.reshape(3, 8, 18)).reshape(3, 256) @ x.astype(
        np.float64
    )
    assert np.array_equal(scope["run"](rows.view(np.int8), x), want.astype(np.float32))


def test_figures_that_are_no_numbers_are_words(tmp_path: Path) -> None:
    line = on_gpu(Verdict.FAIL, "Q4_0")
    assert line.comparison is not None
    odd = replace(line, comparison=replace(line.comparison, bound_ratio=math.inf, nmse=math.nan))
    assert (extra(odd)["bound_ratio"], extra(odd)["nmse"]) == ("Infinity", "NaN")


def test_the_models_of_flashinfer_bench_take_it(told: tuple[Path, str]) -> None:
    if find_spec("flashinfer_bench") is None:
        pytest.skip("no flashinfer-bench; ./run pip install --no-deps -r requirements-flashinfer.txt")
    command = [sys.executable, CHECK, told[0]]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout == "5 definitions, 5 solutions, 5 workloads, 5 traces: all valid\n"
    wrong = told[0] / "traces" / "matvec" / f"{HERE}.jsonl"
    kept = wrong.read_text(encoding="utf8")
    wrong.write_text(kept.replace('"PASSED"', '"PASS"'), encoding="utf8")
    assert "evaluation.status" in subprocess.run(command, capture_output=True, text=True, check=False).stderr
    wrong.write_text(kept, encoding="utf8")
