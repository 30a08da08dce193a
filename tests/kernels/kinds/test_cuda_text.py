"""Every kind's CUDA text, compiled as C++, decodes the bits of its numpy decode; wrong texts are noticed."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from kernels import registry, source
from kernels.kind import Kind
from tests.docs import specials
from tests.docs.scale_forms import E4M3, form_of

COMPILER = shutil.which("g++") or shutil.which("clang++")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler on the path")

KINDS = list(registry.kinds().values())
NAMES = [kind.name for kind in KINDS]
FLAGS = [
    "-std=c++17",
    "-O2",
    "-ffp-contract=off",
    "-fsigned-char",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unused",
]

Load = Callable[[str], dict[str, np.ndarray]]
Differing = Callable[[np.ndarray, np.ndarray], int]

# Just enough of CUDA for a decode body, with a float16 conversion of its own.
SHIM = """
#define __device__
#define __forceinline__ inline
static float __host_half_to_float(unsigned short h) {
    const unsigned int exponent = h >> 10 & 31, mantissa = h & 1023u;
    const float magnitude = exponent == 31 ? (mantissa ? __builtin_nanf("") : __builtin_inff())
                          : exponent == 0  ? __builtin_ldexpf((float)mantissa, -24)
                                           : __builtin_ldexpf((float)(1024u + mantissa), (int)exponent - 25);
    return h >> 15 ? -magnitude : magnitude;
}
"""

CALLS = """
extern "C" void by_sub(const unsigned char *blocks, long count, float *out) {
    for (long b = 0; b < count; ++b)
        for (int sub = 0; sub < BLOCK_ELEMENTS / 16; ++sub)
            decode16(blocks + b * BLOCK_BYTES, sub, out + b * BLOCK_ELEMENTS + 16 * sub);
}
extern "C" void by_lane(const unsigned char *blocks, long count, float *out) {
    for (long b = 0; b < count; ++b)
        for (int lane = 0; lane < 32; ++lane)
            decode_lane(blocks + b * BLOCK_BYTES, lane, out + b * BLOCK_ELEMENTS + lane * LANE_WEIGHTS);
}
"""


def unit(kind: Kind) -> str:
    """The decode part of a kernel's text as source.py makes it, in front of two loops over blocks."""
    defines = [f"#define {name} {value}" for name, value in source.kind_constants(kind).items()]
    prelude = (files("kernels") / "prelude.cuh").read_text(encoding="utf8")
    tables = [source.table(name, values) for name, values in kind.tables]
    return "\n".join([SHIM, *defines, prelude, *tables, kind.cuda, CALLS])


class Compiled:
    """Both decode functions of a kind's text as (n, block bytes) uint8 -> (n, elements) float32."""

    def __init__(self, kind: Kind, folder: Path) -> None:
        (folder / "unit.cpp").write_text(unit(kind), encoding="utf8")
        command = [str(COMPILER), *FLAGS, "-shared", "-fPIC", "-o", "unit.so", "unit.cpp"]
        subprocess.run(command, cwd=folder, check=True, timeout=120)
        self.kind = kind
        self.library = ctypes.CDLL(str(folder / "unit.so"))

    def by_sub(self, blocks: np.ndarray) -> np.ndarray:
        return self._call("by_sub", blocks)

    def by_lane(self, blocks: np.ndarray) -> np.ndarray:
        """The lanes' weights, put where Lanes.elements() says they belong."""
        lanes = self._call("by_lane", blocks)
        out = np.empty_like(lanes)
        out[:, self.kind.lanes.elements().ravel()] = lanes
        return out

    def _call(self, name: str, blocks: np.ndarray) -> np.ndarray:
        blocks = np.ascontiguousarray(blocks)
        out = np.full((len(blocks), self.kind.elements), np.nan, np.float32)
        call = getattr(self.library, name)
        call.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_void_p]
        call(blocks.ctypes.data, len(blocks), out.ctypes.data)
        return out


def all_blocks(kind: Kind, golden: Load) -> np.ndarray:
    """(n, block bytes): ggml's blocks, special scales, and as many blocks of random bytes."""
    arrays = golden(kind.name)
    known = np.concatenate([arrays[name] for name in sorted(arrays) if name.endswith("blocks")])
    known = np.concatenate([known, specials.one_sign(kind, tuple(sorted(form_of(kind).special)))])
    return np.concatenate([known, np.random.default_rng(3).integers(0, 256, known.shape, np.uint8)])


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_cuda_text_decodes_as_numpy_does(
    kind: Kind, golden: Load, differing: Differing, tmp_path: Path
) -> None:
    blocks, compiled = all_blocks(kind, golden), Compiled(kind, tmp_path)
    want = kind.weights(blocks)
    assert want.size >= 50_000
    assert np.isinf(want).any() == (form_of(kind) is not E4M3)
    assert differing(compiled.by_sub(blocks), want) == 0
    assert differing(compiled.by_lane(blocks), want) == 0


OTHER_HALF = ("decode_lane(block, 2 * sub, w)", "decode_lane(block, 2 * sub + 1, w)")

# Per kind one mistake in each function's text: decode16 first, decode_lane second.
WRONG = {
    "Q1_0": [("bits >> i & 1", "bits >> (i ^ 1) & 1"), ("(lane & 1) << 2", "0")],
    "Q2_0": [("q >> 2 * i & 3", "q >> 2 * (i ^ 1) & 3"), ("q >> 2 & 3", "q & 3")],
    "Q4_0": [("- 8);", "- 7);"), ("(lane >> 4 << 2)", "(4 - (lane >> 4 << 2))")],
    "Q4_1": [("& 0xF) + m", "& 0xF) - m"), ("lane & 15", "lane & 7")],
    "Q5_0": [("qh >> i & 1", "qh >> (i ^ 4) & 1"), ("lane >> 3)]", "(lane & 15) >> 3)]")],
    "Q5_1": [("qh >> i & 1", "qh >> (i ^ 4) & 1"), ("lane >> 3)]", "(lane & 15) >> 3)]")],
    "Q8_0": [("16 * sub + i", "16 * sub"), ("(signed char)block[AT_QS + lane]", "block[AT_QS + lane]")],
    "Q2_K": [("sub & 6", "sub & 2"), ("pair >> 8 & 3", "pair >> 9 & 3")],
    "Q3_K": [(">> bit & 1", ">> (bit ^ 1) & 1"), ("(thirds & 0x0101) << 2", "(~thirds & 0x0101) << 2")],
    "Q4_K": [(">> shift & 0xF) - low", ">> shift & 0xF)"), ("8 * i + 4 * run", "8 * i + 4 - 4 * run")],
    "Q5_K": [(">> bit & 1", ">> 0 & 1"), ("0x01010101u) << 4", "0x01010101u) << 3")],
    "Q6_K": [("sub & 6", "sub & 4"), ("(float)(signed char)scales[4]", "(float)scales[4]")],
    "TQ1_0": [("sub < 10 ? sub >> 1", "sub < 10 ? sub >> 2"), ("digit(first, n)", "digit(first, 4 - n)")],
    "TQ2_0": [("sub & 6", "sub & 2"), ("q >> 2 * run", "q >> 2 * (run ^ 1)")],
    "F16": [("16 * sub + i", "16 * sub + (i ^ 1)"), ("2 * lane)", "(2 * lane ^ 2))")],
    "BF16": [("at[2 * i + 1] << 24", "at[2 * i + 1] << 25"), ("<< 16);", "<< 15);")],
    "F32": [("16 * sub + i", "16 * sub + (i ^ 1)"), ("4 * lane)", "(4 * lane ^ 4))")],
    "IQ4_NL": [("(4 * sub)", "(4 - 4 * sub)"), ("lane & 15", "lane & 7")],
    "IQ4_XS": [
        ("(sub & 1) << 2", "4 - ((sub & 1) << 2)"),
        ("VALUES[q >> 28]", "VALUES[q & 0xF]"),
        ("VALUES[q >> 4 & 0xF]", "VALUES[q & 0xF]"),
    ],
    "IQ1_S": [OTHER_HALF, ("-0.125f : 0.125f", "0.125f : -0.125f")],
    "IQ1_M": [OTHER_HALF, ("low | high << 8", "high | low << 8")],
    "IQ2_XXS": [OTHER_HALF, ("packed >> 7 * (lane & 3)", "packed >> 8 * (lane & 3)")],
    "IQ2_XS": [OTHER_HALF, ("(lane & 2) * 2", "(lane & 1) * 4")],
    "IQ2_S": [OTHER_HALF, ("2 * (lane & 3) & 3", "2 * (lane & 3) & 1")],
    "IQ3_XXS": [OTHER_HALF, ("GRID[qs[1]]", "GRID[qs[0]]")],
    "IQ3_S": [OTHER_HALF, ("(ninths & 2) << 7", "(ninths & 1) << 8")],
    "MXFP4": [("(4 * sub)", "(4 - 4 * sub)"), ("lane & 15", "lane & 7")],
    "NVFP4": [("VALUES[qs[i] >> 4]", "VALUES[qs[i] & 0xF]"), ("AT_D + (lane >> 3)", "AT_D + (lane & 3)")],
}


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_wrong_cuda_text_is_seen(kind: Kind, golden: Load, differing: Differing, tmp_path: Path) -> None:
    text = kind.cuda
    for right, wrong in WRONG[kind.name]:
        assert right in text
        text = text.replace(right, wrong, 1)
    blocks, compiled = all_blocks(kind, golden), Compiled(replace(kind, cuda=text), tmp_path)
    want = kind.weights(blocks)
    assert differing(compiled.by_sub(blocks), want) > want.size / 10
    assert differing(compiled.by_lane(blocks), want) > want.size / 10
