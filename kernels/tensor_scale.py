"""The float32 scale that a whole tensor of some kinds has beside its blocks: a scalar of cases."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernels import registry
from kernels.op import Op

Scalars = tuple[tuple[str, float], ...]  # sorted by name

ABSENT = 1.0  # the scale of weights that come without one


def name_of(matrix: str) -> str:
    """weights_scale, gate_scale, …: the scalar of a case."""
    return f"{matrix}_scale"


def seeded(number: int) -> float:
    """The scale of a case's matrix `number` where nothing gives one.

    No power of two and no two alike, so that a kernel shows that forgets it, takes another matrix' or applies
    it twice; so small that sums over NVFP4's blocks, of 10^3, become arguments that silu takes no limit of.
    """
    return float(np.float32(0.0013 + 0.0002 * number))


def scalars(matrices: Sequence[str], kinds: Sequence[str]) -> Scalars:
    """The scale of every matrix whose kind has one, as seeded cases have it."""
    scales = [
        (name_of(matrix), seeded(number))
        for number, (matrix, kind) in enumerate(zip(matrices, kinds, strict=True))
        if registry.kind(kind).tensor_scale
    ]
    return tuple(sorted(scales))


def given(op: Op, kinds: tuple[str, ...], scales: Sequence[float]) -> Scalars:
    """An op's scalars where the weights are given: `scales` has one for every matrix, in order."""
    known = dict(zip(map(name_of, op.matrices), scales, strict=True))
    return tuple((name, known.get(name, value)) for name, value in op.scalars_of(kinds))
