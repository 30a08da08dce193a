"""q4_interleaved_f16, 18 bytes per 32 weights: nibbles 0 4 1 5 2 6 3 7 in a word, scales float16 apart."""

from collections.abc import Mapping

import numpy as np

from kernels.kind import Kind
from kernels.layout import WeightLayout
from kernels.layouts._q4 import KINDS, joined, parts_of, split

ORDER = (0, 4, 1, 5, 2, 6, 3, 7)  # of the elements in a word, low nibble first


def pack(kind: Kind, rows: np.ndarray) -> Mapping[str, np.ndarray]:
    quants, scales = split(kind, rows, ORDER)
    return {"quants": quants, "scales": scales}


def unpack(kind: Kind, rows: int, cols: int, parts: Mapping[str, np.ndarray]) -> np.ndarray:
    return joined(kind, parts["quants"], parts["scales"], ORDER)


LAYOUT = WeightLayout("q4_interleaved_f16", KINDS, parts_of("f2"), pack, unpack)
