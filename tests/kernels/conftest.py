"""What several test files of this room read: ggml's own output, and how it is compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

GOLDEN = Path(__file__).parents[1] / "data" / "golden"
Golden = dict[str, np.ndarray]


@pytest.fixture(scope="session")
def golden() -> Callable[[str], Golden]:
    """Kind name -> its arrays, `*blocks` as (n, block bytes) and `*dequant` as (n, elements)."""

    def load(kind_name: str) -> Golden:
        with np.load(GOLDEN / f"{kind_name.lower()}.npz", allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        for name in [name for name in arrays if name.endswith("blocks")]:
            blocks = arrays[name].reshape(-1, arrays[name].shape[-1])
            arrays[name] = blocks
            dequant = name.removesuffix("blocks") + "dequant"
            arrays[dequant] = arrays[dequant].reshape(len(blocks), -1)
        return arrays

    return load


@pytest.fixture(scope="session")
def differing() -> Callable[[np.ndarray, np.ndarray], int]:
    """How many float32 positions differ in their bits, any NaN being equal to any other."""

    def count(got: np.ndarray, want: np.ndarray) -> int:
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        both_nan = np.isnan(got) & np.isnan(want)
        bits = f"u{got.itemsize}"
        return int(((got.view(bits) != want.view(bits)) & ~both_nan).sum())

    return count
