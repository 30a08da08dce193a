"""What of an activation is float16 in ggml's CPU dot products: read from its text, not run."""

from __future__ import annotations

import json

# What reading one file means: its path below ggml/src and the first digits of the version read. They are of
# different days; none is the commit that the golden data is of.
FILES = {
    "ggml-common.h": "01243c587fec",
    "ggml-quants.c": "01243c587fec",
    "ggml-cpu/quants.c": "01c20eae67d1",
    "ggml-cpu/vec.cpp": "00d46933cbac",
    "ggml-cpu/simd-mappings.h": "037752ed1949",
}

SCALE = "the scale of 32 activations is f16, Inf from activations of 127 * 65520 on"

# By the type that ggml makes of activations; the golden data says which one a kind has.
SUMS = {
    "q8_0": f"Q8_0: {SCALE}; no sum is stored",
    "q8_1": f"Q8_1: {SCALE}; their sum is f16 too: Inf from 65520 on, so in these rows",
    "q8_K": "Q8_K: the scale of 256 activations is float32, sums of 16 are whole numbers; no f16",
    "f16": "f16: an activation is Inf from 65520 on; sums are float32 on x86, f16 on Arm with f16 arithmetic",
    "bf16": "bf16: no f16",
    "f32": "float32: no f16",
}


def sums(meta: str) -> str:
    """By the golden data's description of a kind, JSON."""
    return SUMS[json.loads(meta)["mul_mat_activation_type"]]
