"""Codebooks and sign patterns: what they hold, and that matvec's quick cases read every entry."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from gguf import quants

from kernels import catalog, inputs, registry, source
from kernels.kind import Kind
from kernels.kinds import _grids, iq1_s
from kernels.model import Build
from tests.kernels.kinds.test_cuda_text import CALLS, FLAGS, SHIM

COMPILER = shutil.which("g++") or shutil.which("clang++")
SIZES = {
    "IQ1_S": 2048,
    "IQ1_M": 2048,
    "IQ2_XXS": 256,
    "IQ2_XS": 512,
    "IQ2_S": 1024,
    "IQ3_XXS": 256,
    "IQ3_S": 512,
}
WITH_TABLES = [kind for kind in registry.kinds().values() if kind.tables]


@pytest.mark.parametrize("name", SIZES)
def test_a_codebook_has_ggufs_weights_in_its_bytes(name: str) -> None:
    words = dict(registry.kind(name).tables)["GRID"]
    codebook = getattr(quants, name)
    codebook.init_grid()
    weights = words.view(np.int8).reshape(SIZES[name], -1)
    assert np.array_equal(weights, codebook.grid.reshape(codebook.grid_shape))
    assert len(np.unique(words)) == SIZES[name]


def test_a_word_has_its_first_weight_in_the_low_byte() -> None:
    (entry,) = iq1_s.GRID[1:2]
    assert [int(byte) for byte in np.array([entry]).view(np.int8)] == [1, -1, -1, -1, -1, -1, -1, -1]
    assert int(entry) & 0xFF == 1


def test_sign_patterns_have_an_even_number_of_negative_weights() -> None:
    assert (_grids.SIGNS & 127).tolist() == list(range(128))
    assert all(int(pattern).bit_count() % 2 == 0 for pattern in _grids.SIGNS)


def test_factors_are_minus_one_where_a_bit_is_set() -> None:
    factors = _grids.BYTE_FACTORS.view(np.int8).reshape(256, 8)
    want = [[-1 if byte >> i & 1 else 1 for i in range(8)] for byte in range(256)]
    assert factors.tolist() == want
    assert np.array_equal(_grids.SIGN_FACTORS, _grids.BYTE_FACTORS[_grids.SIGNS])


def counting(name: str, values: np.ndarray) -> str:
    """A table that marks what is read of it."""
    size = len(values)
    c_type = source.C_TYPES[values.dtype.str[1:]]
    return f"""
{source.table(f"{name}_VALUES", values)}
extern "C" unsigned char {name}_seen[{size}];
unsigned char {name}_seen[{size}];
static const struct {{
    const {c_type} &operator[](unsigned int i) const {{
        {name}_seen[i] = 1;
        return {name}_VALUES[i];
    }}
}} {name};
"""


def read_of_tables(kind: Kind, blocks: np.ndarray, folder: Path) -> dict[str, np.ndarray]:
    """Table to (entries,) bool: which of them the CUDA text reads when it decodes (n, block bytes) blocks."""
    defines = [f"#define {name} {value}" for name, value in source.kind_constants(kind).items()]
    tables = [counting(name, values) for name, values in kind.tables]
    text = "\n".join([SHIM, *defines, source.prelude(), *tables, kind.cuda, CALLS])
    (folder / "unit.cpp").write_text(text, encoding="utf8")
    command = [str(COMPILER), *FLAGS, "-shared", "-fPIC", "-o", "unit.so", "unit.cpp"]
    subprocess.run(command, cwd=folder, check=True, timeout=120)
    library = ctypes.CDLL(str(folder / "unit.so"))
    out = np.empty((len(blocks), kind.elements), np.float32)
    call = library.by_sub
    call.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_void_p]
    call(blocks.ctypes.data, len(blocks), out.ctypes.data)
    return {
        name: np.ctypeslib.as_array((ctypes.c_ubyte * len(values)).in_dll(library, f"{name}_seen")) == 1
        for name, values in kind.tables
    }


def quick_blocks(kernel_id: str, kind: Kind) -> np.ndarray:
    """(n, block bytes) uint8: every block of ordinary weights that the kernel's quick cases read."""
    chosen = catalog.Selection(
        kernels=(kernel_id,), kinds=(kind.name,), families=("ordinary",), builds=(Build.EXACT,)
    )
    found = []
    for case in (planned.case for planned in catalog.expand(chosen)):
        plan = registry.kernel(kernel_id).plan(case)
        images = inputs.images(case, plan, registry.op(case.op).operands(case))
        found.append(plan.buffer("weights").view(images["weights"]).reshape(-1, kind.block_bytes))
    return np.concatenate(found)


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler on the path")
@pytest.mark.parametrize("kind", WITH_TABLES, ids=lambda kind: kind.name)
def test_matvecs_quick_cases_read_every_entry(kind: Kind, tmp_path: Path) -> None:
    """So an entry that is wrong is wrong in a result; that other kernels have the same, test_source says."""
    seen = read_of_tables(kind, quick_blocks("matvec/block", kind), tmp_path)
    assert {name: int(marks.sum()) for name, marks in seen.items()} == {
        name: len(values) for name, values in kind.tables
    }


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler on the path")
def test_a_few_blocks_read_few_entries(tmp_path: Path) -> None:
    kind = registry.kind("IQ1_S")
    seen = read_of_tables(kind, quick_blocks("matvec/block", kind)[:2], tmp_path)
    assert 32 < seen["GRID"].sum() <= 64
