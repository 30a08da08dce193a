"""workload_file: shapes and counts from CSV, JSON and FlashInfer-Bench; every mistake with its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from farm import workload_file
from farm.workload_file import Left, Mistakes, read
from kernels.catalog import Use
from kernels.errors import UsageError
from kernels.model import Shape

DATA = Path(__file__).parents[1] / "data" / "flashinfer"
MATVEC = Shape.of(rows=4096, cols=4096)


def file(folder: Path, text: str, name: str = "shapes.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf8")
    return path


def lines(*entries: object) -> str:
    return "".join(json.dumps(entry) + "\n" for entry in entries)


def workload(definition: str, **axes: int) -> dict[str, object]:
    """A line of a data set: a trace without a solution."""
    return {
        "definition": definition,
        "workload": {"uuid": "u", "axes": axes, "inputs": {"A": {"type": "random"}}},
        "solution": None,
        "evaluation": None,
    }


CSV = "op,shape,count\nmatvec,4096x4096,32\nmul_mm,64x96x33,7\nmatvec,4096x4096,3\nrmsnorm,4096,\n"
LISTED = [
    {"op": "matvec", "shape": "4096x4096", "count": 32},
    {"op": "mul_mm", "shape": [64, 96, 33], "count": 7},
    {"op": "matvec", "shape": [4096, 4096], "count": 3},
    {"op": "rmsnorm", "shape": "4096"},
]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (CSV, "a.csv"),
        ("﻿" + CSV.replace("op,shape,count", "Op, Shape, Count"), "a.CSV"),
        (json.dumps(LISTED), "a.json"),
        (json.dumps(LISTED, indent=2), "a.json"),
        (lines(*LISTED), "a.jsonl"),
    ],
)
def test_plain_lists_are_read_and_equal_shapes_put_together(text: str, name: str, tmp_path: Path) -> None:
    assert read(file(tmp_path, text, name)).uses == (
        Use("matvec", MATVEC, 35),
        Use("mul_mm", Shape.of(rows=64, cols=96, batch=33), 7),
        Use("rmsnorm", Shape.of(n=4096, rows=1), 1),
    )


def test_a_data_set_is_read_with_the_definitions_beside_it() -> None:
    found = read(DATA / "workloads" / "gemm" / "gate_up_8b.jsonl")
    assert found.uses == (
        Use("matvec", Shape.of(rows=14336, cols=4096), 2),
        Use("mul_mm", Shape.of(rows=14336, cols=4096, batch=33), 1),
    )
    assert found.left == ()


def test_a_definition_in_the_file_is_taken_before_any_other(tmp_path: Path) -> None:
    definition = {
        "name": "gemm_n64_k96",
        "op_type": "gemm",
        "axes": {
            "M": {"type": "var"},
            "N": {"type": "const", "value": 128},
            "K": {"type": "const", "value": 256},
        },
    }
    text = lines(definition, workload("gemm_n64_k96", M=5))
    assert read(file(tmp_path, text, "w.jsonl")).uses == (
        Use("mul_mm", Shape.of(rows=128, cols=256, batch=5)),
    )


@pytest.mark.parametrize(
    ("line", "use"),
    [
        (workload("gemm_n64_k96", M=1), Use("matvec", Shape.of(rows=64, cols=96))),
        (workload("gemm_n_64_k_96", M=2), Use("mul_mm", Shape.of(rows=64, cols=96, batch=2))),
        (workload("rmsnorm_h4096", batch_size=7), Use("rmsnorm", Shape.of(n=4096, rows=7))),
        (workload("rmsnorm_d4096", batch_size=1), Use("rmsnorm", Shape.of(n=4096, rows=1))),
        (workload("fused_add_rmsnorm_h7168", batch_size=1), Use("add_rmsnorm", Shape.of(n=7168))),
    ],
)
def test_constant_axes_are_read_from_the_name_where_there_is_no_definition(
    line: dict[str, object], use: Use, tmp_path: Path
) -> None:
    assert read(file(tmp_path, lines(line), "w.jsonl")).uses == (use,)


def test_axes_of_a_workload_may_be_all_that_there_are(tmp_path: Path) -> None:
    text = lines({"name": "any", "op_type": "gemm", "axes": {}}, workload("any", M=3, N=64, K=96))
    (use,) = read(file(tmp_path, text, "w.jsonl")).uses
    assert use == Use("mul_mm", Shape.of(rows=64, cols=96, batch=3))


def test_a_workload_without_a_definition_is_of_the_one_the_file_is_named_after(tmp_path: Path) -> None:
    text = lines({"uuid": "u", "axes": {"M": 4}, "inputs": {}})
    assert read(file(tmp_path, text, "gemm_n64_k96.jsonl")).uses == (
        Use("mul_mm", Shape.of(rows=64, cols=96, batch=4)),
    )


def test_what_no_op_computes_is_left_with_its_reason_and_count(tmp_path: Path) -> None:
    text = lines(
        workload("gqa_paged_decode_h32_kv8_d128_ps1", batch_size=4),
        workload("gqa_paged_decode_h32_kv8_d128_ps1", batch_size=8),
        workload("fused_add_rmsnorm_h7168", batch_size=17),
        workload("gemm_n64_k96", M=1),
    )
    found = read(file(tmp_path, text, "w.jsonl"))
    assert [use.op for use in found.uses] == ["matvec"]
    assert found.left == (
        Left(
            "gqa_paged_decode_h32_kv8_d128_ps1",
            "no op for op type 'gqa_paged_decode'; there is one for gemm, rmsnorm",
            2,
        ),
        Left("fused_add_rmsnorm_h7168", "add_rmsnorm takes one row, batch_size is 17", 1),
    )


def mistakes(path: Path) -> list[str]:
    with pytest.raises(Mistakes) as raised:
        read(path)
    assert str(raised.value).endswith(f"{len(raised.value.lines)} mistakes; nothing was submitted")
    return [line.removeprefix(f"{path}:") for line in raised.value.lines]


def test_every_mistake_of_a_csv_is_a_line_of_its_own(tmp_path: Path) -> None:
    rows = ("matvex,1x32,1", "matvec,1x32x3,1", "matvec,4x64,2", "matvec,,1", "matvec,1x32,0", "ffn,64x96,x")
    found = mistakes(file(tmp_path, "\n".join(("op,shape,count", *rows))))
    assert [line.split(":")[0] for line in found] == ["2", "3", "5", "6", "7"]
    assert found[0].startswith("2: no op named 'matvex'; there are")
    assert "write matvec:ROWSxCOLS in whole numbers" in found[1]
    assert found[2] == "5: no shape; a line needs op and shape"
    assert found[3] == f"6: count: got '0', want a whole number from 1 to {10**15:,}"
    assert found[4].startswith("7: count: got 'x'")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (workload("gemm_n64_k96", M=0), "axis M: got '0', want a whole number from 1 on"),
        (workload("gemm_n64_k96"), "definition 'gemm_n64_k96' has no size for axis M; give it in axes"),
        (workload("gemm_k96", M=2), "definition 'gemm_k96' has no size for axis N"),
        ({"definition": 7, "workload": {"axes": {"M": 1}}}, "definition: got 7, want a name"),
        ({"definition": "x", "workload": {"axes": [1]}}, "got neither op and shape nor a workload with axes"),
        ({"op_type": "gemm", "axes": {}}, "a definition needs name, op_type and axes"),
        ({"op": "matvec", "shape": [1, True]}, "is not one of matvec's"),
        ({"op": "matvec", "shape": "1x32", "count": 1.5}, "count: got '1.5'"),
        ({"op": "matvec", "shape": "1x32", "count": True}, "count: got 'True'"),
        ({"op": "matvec", "shape": "1x32", "count": "9" * 5000}, "count: got '9999"),
    ],
)
def test_every_mistake_of_json_lines_names_its_line(
    entry: dict[str, object], words: str, tmp_path: Path
) -> None:
    text = lines(LISTED[0]) + "\n" + lines(entry)
    (found,) = mistakes(file(tmp_path, text, "w.jsonl"))
    assert found.startswith("3: ")
    assert words in found


def test_lines_of_a_json_list_are_those_of_the_file(tmp_path: Path) -> None:
    text = '[\n {"op": "matvec",\n  "shape": "1x32"},\n\n {"op": "nope", "shape": "1"}\n]\n'
    (found,) = mistakes(file(tmp_path, text, "w.json"))
    assert found.startswith("5: no op named 'nope'")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.jsonl", '{"op": "matvec", "shape": "1x32"}\n{"op": ', "2: no JSON:"),
        ("a.jsonl", '{"op": "matvec", "shape": "1x32"}\n7\n', "2: got 7, want an object"),
        ("a.json", "[" * 200000, "1: no JSON:"),
        ("a.csv", "rows,cols\n1,32\n", "1: header: got rows,cols, want op,shape,count"),
        ("a.csv", "", "1: header: got nothing, want op,shape,count"),
    ],
)
def test_what_can_not_be_read_as_lines_is_one_mistake(
    name: str, text: str, words: str, tmp_path: Path
) -> None:
    (found,) = mistakes(file(tmp_path, text, name))
    assert found.startswith(words)


@pytest.mark.parametrize(("name", "text"), [("a.jsonl", "\n"), ("a.json", "[]"), ("a.csv", "op,shape\n")])
def test_a_file_without_any_workload_is_refused(name: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no workload; write lines of op,shape,count"):
        read(file(tmp_path, text, name))


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"op,shape\n\xff\xfe\n")
    with pytest.raises(UsageError, match="is no UTF-8 text"):
        read(tmp_path / "a.csv")


def test_a_name_that_leads_out_of_the_definitions_is_only_a_name(tmp_path: Path) -> None:
    (tmp_path / "definitions" / "gemm").mkdir(parents=True)
    (tmp_path / "secret.json").write_text('{"name": "x", "op_type": "gemm", "axes": {}}')
    found = read(file(tmp_path, lines(workload("../../secret", M=1)), "w.jsonl"))
    assert found.uses == ()
    assert found.left[0].count == 1


def test_counts_stay_exact_in_json() -> None:
    assert workload_file.MOST_COUNT < 2**53
