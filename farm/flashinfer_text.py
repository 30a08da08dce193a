"""What an op computes, as the `reference` of a FlashInfer-Bench definition: Python over numpy and gguf."""

from __future__ import annotations

from kernels.model import Case
from kernels.plain_codecs import CODECS

HEAD = '''"""Weights are bytes of GGML blocks; sums are in float64."""
import numpy as np
from gguf import GGMLQuantizationType, dequantize


def decoded(blocks, kind):
    return dequantize(np.asarray(blocks).view(np.uint8), GGMLQuantizationType[kind]).astype(np.float64)


'''
MATVEC = """def run(weights, x):
    return (decoded(weights, {kinds[0]!r}) @ np.asarray(x, np.float64)).astype(np.float32)
"""
MUL_MM = """def run(weights, x):
    return (np.asarray(x, np.float64) @ decoded(weights, {kinds[0]!r}).T).astype(np.float32)
"""
MULTI = """def run(q, k, v, x):
    x = np.asarray(x, np.float64)
    products = (decoded(blocks, kind) @ x for blocks, kind in zip((q, k, v), {kinds!r}))
    return tuple(product.astype(np.float32) for product in products)
"""
FFN = """def run(gate, up, down, x):
    x = np.asarray(x, np.float64)
    gated = decoded(gate, {kinds[0]!r}) @ x
    inner = gated / (1 + np.exp(-gated)) * (decoded(up, {kinds[1]!r}) @ x)
    return (decoded(down, {kinds[2]!r}) @ inner).astype(np.float32)
"""
# Op to its text; others have no definition.
REFERENCES = {"matvec": MATVEC, "mul_mm": MUL_MM, "gemm": MUL_MM, "multi_matvec": MULTI, "ffn": FFN}


def has_reference(case: Case) -> bool:
    """Whether Python and the gguf package alone can say what a case computes.

    Another weight layout isn't GGML's blocks, and a scalar is a scale that these texts don't have.
    """
    readable = all(kind not in CODECS for kind in case.kinds)  # the gguf package decodes it
    return case.op in REFERENCES and readable and not case.packing and not case.scalars


def reference(case: Case) -> str:
    """Python that defines `run`; KeyError for an op without one."""
    return HEAD + REFERENCES[case.op].format(kinds=case.kinds)
