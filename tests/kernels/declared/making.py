"""A small right catalog as text, and packs of it with changes."""

from __future__ import annotations

from kernels.declared import catalog
from kernels.declared.kernel import DeclaredKernel
from kernels.declared.pack import Pack

TOML = """\
name = "mine"
op = "matvec"
kinds = ["Q8_0"]
twin = "twin.py::matvec"

[axes]
warps = "4"

[scratch.sums]
shape = ["rows"]

[[step]]
entry_point = "k.cu::mine"
args = ["weights", "x", "out", "rows", "row_bytes"]
grid = ["ceil_div(rows, warps)"]
block = ["warp", "warps"]
"""
CU = """\
#include "h.cuh"
__global__ void mine(const unsigned char *weights, const float *x, float *out, int rows, size_t row_bytes) {
}
"""
TWIN = "def matvec(step):\n    return step.arrays['x']\n"
FILES = {"k.toml": TOML, "k.cu": CU, "h.cuh": "#pragma once\n", "twin.py": TWIN}


def edited(file: str, *edits: tuple[str, str]) -> Pack:
    """The catalog with edits of one of its files; an edit that changes nothing is an error."""
    text = FILES[file]
    for old, new in edits:
        if text.count(old) != 1:
            raise LookupError(f"{file} has {text.count(old)} of {old!r}")
        text = text.replace(old, new)
    return packed({**FILES, file: text})


def packed(files: dict[str, str]) -> Pack:
    return Pack.of({name: text.encode() for name, text in files.items()})


def kernel(pack: Pack) -> DeclaredKernel:
    """The one kernel of a pack."""
    (found,) = catalog.load(pack).kernels.values()
    return found


def mistakes(pack: Pack) -> list[str]:
    return [str(one) for one in catalog.check(pack)[1]]
