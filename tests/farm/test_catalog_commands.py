"""farm kinds and farm kernels: what the registry has, each once, with figures from one place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from farm.cli import main
from kernels import catalog, registry, source
from kernels.model import Build

FIRST = next(iter(registry.kinds()))


def farm(*args: str) -> Result:
    return CliRunner().invoke(main, list(args))


def kernel_records(*args: str) -> dict[str, dict[str, Any]]:
    document = json.loads(farm("kernels", "--json", *args).stdout)
    return {record["name"]: record for record in document["kernels"]}


def test_kinds_lists_every_kind_in_both_forms() -> None:
    table = farm("kinds").stdout.splitlines()
    records = json.loads(farm("kinds", "--json").stdout)["kinds"]
    assert [line.split()[0] for line in table[1:]] == list(registry.kinds())
    assert [record["name"] for record in records] == list(registry.kinds())


def test_a_kind_has_its_sizes_formula_and_fields() -> None:
    (q6_k,) = [kind for kind in json.loads(farm("kinds", "--json").stdout)["kinds"] if kind["name"] == "Q6_K"]
    assert (q6_k["block_bytes"], q6_k["elements"], q6_k["bits_per_weight"]) == (210, 256, 6.5625)
    assert q6_k["formula"].startswith("Q6_K")
    assert q6_k["fields"][-1] == {"name": "d", "offset": 208, "bytes": 2}
    assert sum(field["bytes"] for field in q6_k["fields"]) == 210


def test_kernels_lists_every_kernel_in_both_forms() -> None:
    table = farm("kernels").stdout
    assert all(f"\n{name} " in table for name in registry.all_kernels())
    assert list(kernel_records()) == list(registry.all_kernels())


def test_a_kernel_has_geometry_chain_arithmetic_builds_and_digests() -> None:
    record = kernel_records("matvec/block")["matvec/block"]
    (launch,) = record["example"]["launches"]
    rows = int(record["example"]["shape"].split("x")[0])
    assert (launch["grid"], launch["block"]) == ([rows, 1, 1], [256, 1, 1])
    assert (launch["static_shared_bytes"], launch["dynamic_shared_bytes"]) == (0, 1024)
    assert (launch["chain"], launch["arithmetic"]) == (registry.kind(FIRST).elements + 8, "decoded")
    assert record["builds"] == ["exact", "default"]
    want = source.digest("matvec/block", ("Q4_0",), Build.EXACT)
    assert record["source_digests"]["Q4_0"]["exact"] == want


def test_an_ffn_shows_its_four_launches_and_its_mix() -> None:
    record = kernel_records("ffn/block")["ffn/block"]
    launched = [launch["kernel"] for launch in record["example"]["launches"]]
    assert launched == ["matvec/block", "matvec/block", "silu_mul/flat", "matvec/block"]
    assert "Q4_K+Q4_K+Q6_K" in record["source_digests"]


def test_a_library_has_no_grid_and_one_build() -> None:
    record = kernel_records("gemm/library")["gemm/library"]
    assert (record["builds"], record["example"]["launches"][0]["library"]) == (["default"], True)
    text = farm("kernels", "gemm/library").stdout
    assert "gemm/library has builds of its own: default" in text
    (line,) = [line for line in text.splitlines() if line.startswith("gemm/library ") and "F16" in line]
    assert " library " in line
    assert "0x0x0" not in text


def test_every_cell_of_the_catalog_has_a_digest() -> None:
    digests = kernel_records()
    for cell in catalog.cells():
        found = digests[f"{cell.op}/{cell.kernel}"]["source_digests"][cell.kind][cell.build]
        assert len(found) == 64


def test_a_named_kernel_shows_its_digests() -> None:
    text = farm("kernels", "rmsnorm/block").stdout
    assert source.digest("rmsnorm/block", (), Build.DEFAULT)[:16] in text


@pytest.mark.parametrize(
    ("kernel", "kind", "entries"),
    [
        ("matvec/block", "q4_0", ["matvec_block_q4_0"]),
        ("rmsnorm/block", "F32", ["rmsnorm_block"]),  # no kind
        ("matvec/block", "F32", ["matvec_block_f32"]),
        ("ffn/block", "Q4_K+Q4_K+Q6_K", ["matvec_block_q4_k", "silu_mul_flat", "matvec_block_q6_k"]),
    ],
)
def test_text_is_what_is_compiled_each_part_once(kernel: str, kind: str, entries: list[str]) -> None:
    text = farm("kernels", "--text", kernel, kind).stdout
    named = [line.split()[-1] for line in text.splitlines() if line.startswith("#define ENTRY")]
    assert named == entries


def test_text_is_the_source_to_the_last_byte() -> None:
    assert farm("kernels", "--text", "matvec/block", "Q4_0").stdout == source.text("matvec/block", "Q4_0")


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["matvec/fast"], "no kernel named 'matvec/fast'; there are "),
        (["--text", "matvec/block", "Q9_Z"], f"no kind named 'Q9_Z'; there are {FIRST}"),
        (["--text", "rmsnorm/block", "Q4_0"], "write F32: it has no kinds"),
        (["--text", "gemm/library", "F16"], "gemm/library has no text: a library does it"),
        (["--text", "ffn/block", "Q4_K+Q6_K"], "ffn takes 3 kinds, 'Q4_K+Q6_K' has 2"),
    ],
)
def test_a_wrong_name_is_one_line_with_what_there_is(args: list[str], complaint: str) -> None:
    result = farm("kernels", *args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert complaint in result.stderr
