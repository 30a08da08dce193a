"""Products too large to sum again: some rows one by one, and of all rows the ±1 sums of a few tokens each.

The tokens of a group are added with signs s: sum s[t] * out[t, row] must be the row times sum s[t] * x[t],
within the sum of the tokens' limits. A sum costs what one token does, all of them a TOKENS-th of the product.
An error in one element can't cancel: it is seen where it is larger than twice the limit of its sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from kernels.compare import MAY_BE_NON_FINITE, SMALLEST, Compared, Place, compare, never_written
from kernels.evidence import Verdict, Worst
from kernels.inputs import words
from kernels.op import JudgedOp, LaunchKernel, Step
from kernels.thinning import with_rows

FROM_MACS = 150 * 10**9  # multiply-adds: 300 GFLOP, some seconds of a float64 product on 16 cores
TOKENS = 32  # that one sum covers
SAMPLED = 64  # rows compared one by one, the first and the last among them
SIGNS = 0x5EED  # starts the stream that the signs are taken from


@dataclass(frozen=True)
class Sums:
    """The ±1 sums of an output: (groups, rows) each, float64."""

    got: np.ndarray
    want: np.ndarray
    limit: np.ndarray
    unwritten: int  # elements that still held the poison

    @property
    def ratio(self) -> np.ndarray:
        """Error over limit; Inf where a token had NaN or Inf."""
        error = np.abs(self.got - self.want)
        return np.where(np.isfinite(self.got), np.where(error == 0, 0.0, error / self.limit), np.inf)

    @property
    def seen(self) -> float:
        """The size from which an error in one element is outside its sum's limit, whatever others err."""
        return float(2 * self.limit.max())


def wanted(op: JudgedOp, step: Step, got: np.ndarray) -> bool:
    """Whether a step is a float32 product of finite numbers, and too large to be summed again."""
    x = step.arrays.get("x")
    if not op.row_wise or x is None or x.ndim != 2 or got.dtype != np.float32:
        return False
    return x.size * got.shape[-1] > FROM_MACS and step.family not in MAY_BE_NON_FINITE


def hold(
    op: JudgedOp, kernel: LaunchKernel, step: Step, got: np.ndarray, place: Place, poison: int | None
) -> Compared:
    """Compares a large product's output, (tokens, rows) float32."""
    rows = sample(got.shape[-1])
    few = with_rows(step, rows)
    near = compare(got[:, rows], kernel.twin(few), op.truth(kernel, few), place, poison)
    return merged(near, sums(op, kernel, step, got, poison), rows, got, place)


def sample(count: int) -> np.ndarray:
    """Up to SAMPLED rows, evenly from the first to the last."""
    return np.unique(np.linspace(0, count - 1, SAMPLED).astype(np.int64))


def signs(tokens: int) -> np.ndarray:
    """(tokens,) float64, +1 or -1."""
    return 1.0 - 2.0 * (words(SIGNS, tokens) >> np.uint64(63)).astype(np.float64)


def groups(tokens: int) -> Iterator[slice]:
    for first in range(0, tokens, TOKENS):
        yield slice(first, min(first + TOKENS, tokens))


def sums(op: JudgedOp, kernel: LaunchKernel, step: Step, got: np.ndarray, poison: int | None) -> Sums:
    """What the output's sums are, must be, and may err by; NaN and Inf in the output stay in their sums."""
    x, sign = step.arrays["x"].astype(np.float64), signs(len(got))
    parts = list(groups(len(got)))
    signed = np.stack([sign[part] @ x[part] for part in parts])
    sizes = np.stack([np.abs(x[part]).sum(axis=0) for part in parts])
    unwritten = sum(int(np.count_nonzero(never_written(got[part], poison))) for part in parts)
    with np.errstate(invalid="ignore", over="ignore"):
        found = np.stack([sign[part] @ got[part].astype(np.float64) for part in parts])
    truth = op.truth(kernel, _with_x(step, signed))
    limit = op.truth(kernel, _with_x(step, sizes)).limit + (TOKENS - 1) * x.shape[1] * SMALLEST
    return Sums(found, truth.want, limit, unwritten)


def _with_x(step: Step, x: np.ndarray) -> Step:
    return replace(step, arrays={**step.arrays, "x": x})


def merged(near: Compared, far: Sums, rows: np.ndarray, got: np.ndarray, place: Place) -> Compared:
    """One finding of the sampled rows and of the sums; the sums count where the sample found nothing."""
    ratio = far.ratio
    bad, where = int(np.count_nonzero(ratio > 1)), f"{place.buffer} in launch {place.launch} {place.kernel}"
    verdict, reason, worst = near.verdict, near.reason, _at_rows(near.worst, rows)
    if verdict is Verdict.PASS and far.unwritten:
        verdict, reason = Verdict.FAIL, f"{far.unwritten} of {got.size} outputs never written: {where}"
    elif verdict is Verdict.PASS and bad:
        worst = _worst(far, place)
        figures = f"±1 sum {worst.got:.9g}, want {worst.want:.9g}, limit {worst.limit:.3g}"
        reason = f"tokens from {worst.index[0]} on of row {worst.index[1]} of {where}: {figures}"
        verdict, reason = Verdict.FAIL, f"{reason} ({bad} of {ratio.size} sums outside)"
    elif verdict is Verdict.PASS:
        few = f"{len(rows)} rows one by one, all {got.shape[-1]} by ±1 sums of {TOKENS} tokens"
        reason = f"{few}, in which an error of {far.seen:.3g} in one element is seen"
    return replace(
        near,
        verdict=verdict,
        reason=reason,
        positions=got.size,
        bad=near.bad + bad,
        bound_ratio=max(near.bound_ratio, float(ratio.max())),
        bit_exact=False,  # known of the sample alone
        worst=worst,
        worst_rows=tuple((int(rows[row]), size) for row, size in near.worst_rows),
        projected=True,
    )


def _at_rows(worst: Worst | None, rows: np.ndarray) -> Worst | None:
    return worst and replace(worst, index=(*worst.index[:-1], int(rows[worst.index[-1]])))


def _worst(far: Sums, place: Place) -> Worst:
    """The sum furthest outside; as an element it is its first token's."""
    group, row = (int(i) for i in np.unravel_index(int(np.argmax(far.ratio)), far.ratio.shape))
    got, want, limit = (float(array[group, row]) for array in (far.got, far.want, far.limit))
    first = (group * TOKENS, row)
    return Worst(place.launch, place.kernel, place.buffer, first, got, want, twin=math.nan, limit=limit)
