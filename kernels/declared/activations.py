"""What a kernel that rounds or quantizes its activations computes on, and what is left open by doing so."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernels import dtypes, oracle
from kernels.declared.declaration import ComputesOn
from kernels.kind import Kind
from kernels.op import Step

Q8_1_ELEMENTS = 32  # activations that share a scale
Q8_1_MOST = 127
F16_UNIT = 2.0**-11
SLIP = 2.0**-20  # how far float32 arithmetic may move a quotient before it is rounded to a whole number


@dataclass(frozen=True)
class Rounded:
    """Activations as the kernel has them after its own rounding."""

    x: np.ndarray  # (…, cols) float64
    slack: np.ndarray  # (…, cols) float64, >= 0: how far another right rounding may lie from x
    of_mins: np.ndarray  # (…, cols) float64: what each |min| of a weight may be off by, times this
    lost: np.ndarray  # (…,) bool: vectors that left the type's range: only a twin can judge them


def rounded(x: np.ndarray, how: ComputesOn) -> Rounded:
    """(…, cols) float32 activations as a kernel that computes on `how` sees them."""
    if how is ComputesOn.Q8_1:
        return _q8_1(x)
    stored = {ComputesOn.F16: dtypes.F16, ComputesOn.BF16: dtypes.BF16, ComputesOn.X: dtypes.F32}[how]
    values = dtypes.values(dtypes.rounded(x, stored)).astype(np.float64)
    nothing = np.zeros(x.shape)
    lost = (np.isfinite(x) & ~np.isfinite(values)).any(axis=-1)
    return Rounded(values, nothing, nothing, np.asarray(lost))


def _q8_1(x: np.ndarray) -> Rounded:
    """Blocks of 32: d = max|x| / 127 in float32, q = round(x / d) with halves away from 0, d kept as float16.

    Left open: which way a quotient next to a half goes, d where float32's last bit decides its float16, and
    the block's sum, which meets the weights' mins and may be that of x or of what became of it, in float16.
    """
    blocks = x.reshape(*x.shape[:-1], -1, Q8_1_ELEMENTS).astype(np.float64)
    d = (np.abs(blocks).max(axis=-1, keepdims=True) / Q8_1_MOST).astype(np.float32).astype(np.float64)
    quotient = np.divide(blocks, d, out=np.zeros_like(blocks), where=d > 0)
    q = np.copysign(np.floor(np.abs(quotient) + 0.5), quotient)
    kept, low, high = (_half(d * by) for by in (1.0, 1 - 2 * F16_UNIT * SLIP, 1 + 2 * F16_UNIT * SLIP))
    values = kept * q
    next_to_half = np.abs(np.abs(quotient) % 1 - 0.5) <= SLIP * Q8_1_MOST
    slack = np.where(next_to_half, kept, 0.0) + np.abs(high - low) * np.abs(q)
    sums, moved = np.abs(blocks.sum(axis=-1)), np.abs((blocks - values).sum(axis=-1))
    of_mins = (moved + F16_UNIT * np.maximum(sums, 2.0**-14)) / Q8_1_ELEMENTS
    return Rounded(
        values.reshape(x.shape),
        slack.reshape(x.shape),
        np.repeat(of_mins, Q8_1_ELEMENTS, axis=-1).reshape(x.shape),
        np.asarray(~np.isfinite(values).all(axis=(-1, -2)) | (sums >= 2.0**16).any(axis=-1)),
    )


def _half(d: np.ndarray) -> np.ndarray:
    return d.astype(np.float16).astype(np.float64)


def left_open(step: Step, found: Rounded) -> np.ndarray:
    """In the output's shape: how far right results over other right roundings may lie apart."""
    kind, rows = step.kind, step.arrays["weights"]
    assert isinstance(kind, Kind)  # only linear ops compute on q8_1
    open_ = oracle.dot(np.abs(oracle.weights(kind, rows)), found.slack)
    return np.asarray(open_ + oracle.dot(oracle.minima(kind, rows), found.of_mins))
