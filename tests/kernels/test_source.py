"""The text of every kernel and kind, and the digest that says when evidence is stale."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kernels import catalog, registry, source
from kernels.model import Build
from kernels.ops.matvec import coalesced

TEXTS = source.texts()


def has_tables(kind: str) -> bool:
    return bool(kind and registry.kind(kind).tables)


@pytest.fixture
def uncached() -> Iterator[None]:
    """Texts and digests made again, before and after a test that changes what they are made of."""
    forget()
    yield
    forget()


def forget() -> None:
    for cache in (source._text, source._text_digest, source._digest):
        cache.cache_clear()


@pytest.mark.parametrize(("kernel_id", "kind"), TEXTS)
def test_text_is_one_translation_unit(kernel_id: str, kind: str) -> None:
    text = source.text(kernel_id, kind)
    assert text.startswith(f"// {kernel_id} {kind}".rstrip() + "\n#define ENTRY ")
    assert text.count('extern "C" __global__ void ENTRY(') == 1
    assert "#include" not in text
    assert text.isascii()


@pytest.mark.parametrize(("kernel_id", "kind"), [part for part in TEXTS if part[1]])
def test_text_defines_sizes_and_lanes_from_the_kind(kernel_id: str, kind: str) -> None:
    text, defined = source.text(kernel_id, kind), registry.kind(kind)
    assert f"#define BLOCK_BYTES {defined.block_bytes}\n" in text
    assert f"#define BLOCK_ELEMENTS {defined.elements}\n" in text
    assert f"#define LANE_WEIGHTS {defined.lanes.weights}\n" in text


def test_tables_lose_no_digit() -> None:
    text = source.table("T", np.array([0.1, -3.0], np.float32))
    assert text == "__device__ const float T[2] = {0x1.99999a0000000p-4f, -0x1.8000000000000p+1f};"
    assert "{0xffffffffffffffffull}" in source.table("T", np.array([2**64 - 1], np.uint64))
    assert "{0x00000009u, 0xffffffffu}" in source.table("T", np.array([9, 2**32 - 1], np.uint32))


def test_a_long_table_is_broken_into_lines() -> None:
    lines = source.table("T", np.arange(128, dtype=np.uint8)).splitlines()
    assert (lines[0], lines[-1]) == ("__device__ const unsigned char T[128] = {", "};")
    assert max(map(len, lines)) < 110
    assert len(source.table("T", np.arange(16, dtype=np.uint8)).splitlines()) == 1


@pytest.mark.parametrize(("kernel_id", "kind_name"), [part for part in TEXTS if has_tables(part[1])])
def test_emitted_tables_have_the_twins_bits(kernel_id: str, kind_name: str) -> None:
    """Read back from the text, value by value: results would not tell -0 from +0."""
    text, kind = source.text(kernel_id, kind_name), registry.kind(kind_name)
    for name, values in kind.tables:
        items = re.search(rf"\b{name}\[{len(values)}\] = \{{(.*?)\}};", text, re.DOTALL)
        assert items is not None
        assert values.dtype.kind in "iu"
        got = [int(item.strip().rstrip("ul"), 0) for item in items[1].strip().rstrip(",").split(",")]
        assert np.array_equal(np.array(got, values.dtype), values)


def test_digests_of_all_cells_differ_but_for_their_build() -> None:
    digests = {
        (cell.op, cell.kernel, cell.kind, cell.build): source.digest(
            f"{cell.op}/{cell.kernel}", kinds_of(cell), cell.build
        )
        for cell in catalog.cells()
    }
    assert len(digests) == len(set(digests.values())) == len(catalog.cells())


def kinds_of(cell: catalog.CellName) -> tuple[str, ...]:
    matrices = len(registry.op(cell.op).matrices)
    return tuple(cell.kind.split("+")) if "+" in cell.kind else (cell.kind,) * matrices


def test_digest_changes_with_a_kinds_text_and_only_where_it_is_used(
    uncached: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def digests() -> dict[catalog.CellName, str]:
        return {
            cell: source.digest(f"{cell.op}/{cell.kernel}", kinds_of(cell), cell.build)
            for cell in catalog.cells((Build.EXACT,))
        }

    before = digests()
    wrong = replace(registry.kind("Q6_K"), cuda=registry.kind("Q6_K").cuda.replace("<<", ">>", 1))
    monkeypatch.setitem(registry.kinds(), "Q6_K", wrong)
    forget()
    changed = {
        (cell.op, cell.kernel, cell.kind) for cell, value in digests().items() if before[cell] != value
    }
    assert changed == {(cell.op, cell.kernel, cell.kind) for cell in before if "Q6_K" in kinds_of(cell)}
    assert {("matvec", "block", "Q6_K"), ("ffn", "block", "Q4_K+Q4_K+Q6_K")} < changed


def test_digest_changes_with_geometry(uncached: None, monkeypatch: pytest.MonkeyPatch) -> None:
    before = source.digest("matvec/coalesced", ("Q4_0",), Build.EXACT)
    monkeypatch.setattr(coalesced, "ROWS", 4)
    forget()
    assert source.digest("matvec/coalesced", ("Q4_0",), Build.EXACT) != before


def test_digest_counts_no_method_that_says_which_cases_there_are(tmp_path: Path) -> None:
    """More cases make no line stale: what a kernel does is the same."""
    told = []
    body = "class K:\n    size = {}\n"
    body += "    def quick(self, kinds) -> tuple[Workload, ...]:\n        return {}\n"
    body += "    def families(self, workload: Workload) -> tuple[str, ...]:\n        return {}\n"
    body += "    def plan(self, case: Case) -> Plan:\n        return {}\n"
    different = ((1, 2, 3, 4), (1, 5, 6, 4), (0, 2, 3, 4), (1, 2, 3, 0))
    for number, values in enumerate(different):
        path = tmp_path / f"{number}.py"
        path.write_text(body.format(*values))
        told.append(source.code(str(path)))
    assert told[0] == told[1]
    assert len(set(told)) == 3


COUNTED_IN_MATVEC = ["_linear.py", "_launch.py", "kind.py", "block.py"]


def test_digest_counts_what_a_kernel_imports() -> None:
    files = source._imports(str(source._module(registry.kernel("matvec/block"))))
    names = {Path(file).name for file in files} | {"block.py"}
    assert names == set(COUNTED_IN_MATVEC)
    codes = source._codes(source._module(registry.kernel("matvec/block")))
    assert len(codes) == len(COUNTED_IN_MATVEC)


def test_digest_counts_exp32_for_silu_mul_and_for_ffn() -> None:
    for kernel_id in ("silu_mul/flat", "ffn/block", "ffn/coalesced"):
        code = source.code(str(Path(source.__file__).with_name("exp32.py")))
        assert code in source._codes(source._module(registry.kernel(kernel_id)))


@pytest.mark.parametrize(
    ("name", "yes"),
    [
        ("kernels.ops._linear", True),
        ("kernels.kind", True),
        ("kernels.kinds.q4_0", True),
        ("kernels.model", False),
        ("kernels.evidence", False),
        ("kernels.compare", False),
        ("numpy", False),
    ],
)
def test_counted_leaves_contracts_and_judges_out(name: str, yes: bool) -> None:
    assert source.counted(name) == yes


def code_of(tmp_path: Path, text: str) -> str:
    file = tmp_path / f"m{abs(hash(text))}.py"
    file.write_text(text, encoding="utf8")
    return source.code(str(file))


def test_code_ignores_comments_docstrings_and_layout(tmp_path: Path) -> None:
    plain = code_of(tmp_path, "def f(x):\n    return x + 1\n")
    assert code_of(tmp_path, '"""Doc."""\ndef f(x):  # why\n    """Doc."""\n    return (x\n  + 1)\n') == plain
    assert code_of(tmp_path, "def f(x):\n    return x + 2\n") != plain
    assert code_of(tmp_path, "def f(x):\n    return x - 1\n") != plain


def test_code_tells_none_true_and_numbers_apart(tmp_path: Path) -> None:
    texts = ["x = None", "x = True", "x = 1", "x = 1.0", "x = ''", "x = []", "x = -1"]
    assert len({code_of(tmp_path, text) for text in texts}) == len(texts)


def frame(cell: catalog.CellName) -> str:
    return source.frame_digest(f"{cell.op}/{cell.kernel}", kinds_of(cell), cell.build)


def test_frame_digest_differs_where_kinds_or_builds_do() -> None:
    assert len({frame(cell) for cell in catalog.cells()}) == len(catalog.cells())


@pytest.mark.parametrize("name", registry.kinds())
def test_a_kinds_cuda_text_is_in_its_modules_code_and_not_in_its_frame(name: str) -> None:
    module = sys.modules[registry.kind(name).decode.__module__]
    path = str(module.__file__)
    entry = "void decode_lane(const unsigned char *block"
    assert entry in module.CUDA
    assert entry in source.code(path)
    assert entry not in source.code(path, source.CUDA_NAMES)


def test_frame_ignores_the_cuda_text_and_sees_the_rest(tmp_path: Path) -> None:
    def framed(text: str) -> str:
        file = tmp_path / f"f{abs(hash(text))}.py"
        file.write_text(text, encoding="utf8")
        return source.code(str(file), source.CUDA_NAMES)

    plain = framed("CUDA = 'int a;'\nELEMENTS = 32\n")
    assert framed("CUDA = 'int b;'\nELEMENTS = 32\n") == plain
    assert framed("CUDA = 'int a;'\nELEMENTS = 64\n") != plain
    assert framed("OTHER = 'int a;'\nELEMENTS = 32\n") != plain
