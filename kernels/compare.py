"""Decides whether outputs are right: class first, then an element-wise limit from theory."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernels.dtypes import NARROW, bits, canonical, poison, rounded, values
from kernels.evidence import Verdict, Worst
from kernels.op import Step, Truth

U = 2.0**-24  # unit roundoff of float32
SMALLEST = 2.0**-149  # float32's smallest step: what one underflowing product can lose
OVERFLOW = 2.0**127  # sums of magnitudes from here on may leave float32 on the way, whatever the result

# Zero-mean random inputs: rounding errors are of random sign and mostly cancel. Right kernels measured 0.04
# to 2.4 U*S, the twins of the quick tier up to 5.3 (mul_mm adds one after another), while the proven
# gamma(chain)*S would let a dropped element pass at long rows. Structured inputs can line the errors up, so
# only the proven bound is fair to them.
CALIBRATED = ("ordinary", "tiny", "large", "last_row")
CALIBRATED_UNITS = 16

# Families that may have NaN and Inf in what the oracle wants; anywhere else that is a broken fixture.
MAY_BE_NON_FINITE = ("specials", "extreme", "file")

RELATIVE = 1e-4  # the usual rule: error against RELATIVE * max(|twin|, 1); recorded, and it misses much
WORST_ROWS = 4

FINITE, NAN, PLUS_INF, MINUS_INF = range(4)


@dataclass(frozen=True)
class Place:
    """Whose output is compared: words for the reason, and the family that says what is allowed."""

    launch: int  # number in the plan
    kernel: str
    buffer: str
    family: str
    row_axis: int = (
        -1
    )  # of the output: the rows of a weight matrix are the last axis, those of a norm the first
    contracted: bool = (
        False  # a product and a sum may be rounded as one: other bits than the twin's are right
    )


@dataclass(frozen=True)
class Compared:
    """What comparing one launch's output found; the fields mean what model.Comparison's mean."""

    verdict: Verdict
    reason: str
    positions: int
    by_twin: int  # elements that the domain rule handed to the twin
    bad: int
    bound_ratio: float
    relative_ratio: float
    nan_positions_equal: bool
    squared_error: float  # against the oracle, over elements finite in both that it judges
    squared_want: float
    bit_exact: bool
    twin_agrees: bool
    worst: Worst | None
    worst_rows: tuple[tuple[int, float], ...]
    twinless: bool = False
    explained: str = ""
    projected: bool = False  # a sample one by one, the rest by sums: most figures are the sample's


def gamma(additions: float) -> float:
    """The relative error that this many float32 roundings can add up to: nU / (1 - nU); Inf where nU >= 1."""
    return additions * U / (1 - additions * U) if additions * U < 1 else math.inf


def linear_truth(want: np.ndarray, scale: np.ndarray, chain: int, step: Step, products: int) -> Truth:
    """The truth of sums of products: `scale` is S = sum |w||x|, `chain` the longest chain of additions.

    An intermediate as activations (an ffn's down) is held to its case's family: the zero-mean ones make it a
    product with an independent zero-mean sum, zero-mean again; the others have the proven bound anyway.
    """
    has_scale = step.tensor_scale is not None
    tensor = step.tensor_scale if step.tensor_scale is not None else 1.0
    # The products, the decode's roundings, the last store and the tensor's scale beside the chain.
    units = chain + 4 + has_scale
    rate = min(CALIBRATED_UNITS, units) * U if step.family in CALIBRATED else gamma(units)
    # 1 U more for S itself, which the decoder gave rounded to float32.
    limit = abs(tensor) * ((rate + U) * scale + products * SMALLEST) + has_scale * SMALLEST
    # Finite products whose sum may overflow on the way, or overflow against an Inf among the inputs: float64
    # sees neither, so the twin judges. Where the oracle wants NaN, float32 has one too.
    want = tensor * want
    by_twin = ~(scale * max(1.0, abs(tensor)) < OVERFLOW) & ~np.isnan(want)
    limit = np.where(np.isfinite(limit), limit, 0.0)
    return Truth(want, limit, by_twin, scale=abs(tensor) * scale, sums=True)


def relative_truth(
    want: np.ndarray, units: float, by_twin: np.ndarray, absolute: np.ndarray | float = 0.0
) -> Truth:
    """The truth of outputs that err by `units` U of themselves; `by_twin` marks what left float32's range.

    `absolute` is allowed on top, for results that underflow.
    """
    limit = np.where(by_twin, 0.0, units * U * np.abs(want)) + absolute
    by_twin = np.broadcast_to(by_twin, want.shape)
    return Truth(want, limit, by_twin, relative=units * U, scale=np.abs(want))


def norm_truth(want: np.ndarray, by_twin: np.ndarray, chain: int | None = None) -> Truth:
    """Norms over the last axis; without `chain` ceil(n/256) squares a thread, then an 8-step tree.

    The root halves what the sum of squares errs by; rsqrtf (2 ulp: 4 U), v and two products make the 7.
    """
    chain = -(-want.shape[-1] // 256) + 8 if chain is None else chain
    return relative_truth(want, 0.5 * (chain + 3) + 7, by_twin)


SILU_UNITS = (
    8  # expf within 2 ulp (4 U), then 1 + e, the division and u's product (1 U each), and one to spare
)


def silu_truth(want: np.ndarray, u: np.ndarray, by_twin: np.ndarray) -> Truth:
    """g / (1 + exp(-g)) * u: a few ulp, and |u| * 2^-120 where the quotient underflows."""
    absolute = np.abs(u, dtype=np.float64) * 2.0**-120
    return relative_truth(want, SILU_UNITS, by_twin, np.where(np.isfinite(absolute), absolute, 0.0))


def classes(values: np.ndarray) -> np.ndarray:
    """FINITE, NAN, PLUS_INF or MINUS_INF per element."""
    infinite = np.where(values > 0, PLUS_INF, MINUS_INF)
    return np.where(np.isnan(values), NAN, np.where(np.isinf(values), infinite, FINITE))


def ratios(values: np.ndarray, twin: np.ndarray, truth: Truth) -> np.ndarray:
    """Error over limit per element, float64: Inf where the class is missed, or a limit of 0."""
    want = np.where(truth.by_twin, twin.astype(np.float64), truth.want)
    limit = limits(twin, truth)
    got = values.astype(np.float64)
    error = np.abs(got - want)
    ratio = np.where(error == 0, 0.0, error / limit)
    same, finite = classes(got) == classes(want), classes(want) == FINITE
    return np.where(same, np.where(finite, ratio, 0.0), np.inf)


def leaving(values: np.ndarray, truth: Truth) -> np.ndarray:
    """Error over limit where a sum may leave float32 on the way, by other roundings than the twin's.

    A product that is rounded only with its sum overflows where the twin's doesn't, or doesn't where it does.
    Partial sums lie between minus the sum of all negative products and the sum of all positive ones: an Inf
    must be reached by one of them, a NaN by both, and what stayed finite is the oracle's. Inf elsewhere.
    """
    if not truth.sums or truth.scale is None or not truth.by_twin.any():
        return np.full(values.shape, np.inf)
    plus, minus = ((truth.scale + sign * truth.want) / 2 >= OVERFLOW for sign in (1, -1))
    found = classes(values)
    allowed = np.select(
        [found == PLUS_INF, found == MINUS_INF, found == NAN], [plus, minus, plus & minus], True
    )
    open_ = truth.by_twin & allowed & (truth.scale >= OVERFLOW) & np.isfinite(truth.scale + truth.want)
    error = np.where(found == FINITE, np.abs(values.astype(np.float64) - truth.want) / truth.limit, 0.0)
    return np.where(open_, error, np.inf)


def limits(twin: np.ndarray, truth: Truth) -> np.ndarray:
    """The error allowed; where the twin judges, its own magnitude adds to it."""
    by_magnitude = np.where(np.isfinite(twin), truth.relative * np.abs(twin, dtype=np.float64), 0.0)
    return np.where(truth.by_twin, truth.limit + by_magnitude, truth.limit)


def narrowed(truth: Truth, twin: np.ndarray | None, to: np.dtype[Any]) -> Truth:
    """The truth of an output in a type below float32: half an ulp more, and the twin's where it may overflow.

    Where the twin judges both results were rounded: a whole ulp. `twin` has the numbers of the twin's output.
    """
    if (narrow := NARROW.get(to)) is None:
        return truth
    size = np.abs(truth.want) + truth.limit
    by_twin = truth.by_twin | (np.isfinite(truth.want) & (size >= narrow.overflow))
    rounded_to = size if twin is None else np.abs(twin, dtype=np.float64)
    more = np.where(by_twin, 2 * narrow.half_ulp(rounded_to), narrow.half_ulp(size))
    return replace(truth, limit=truth.limit + more, by_twin=by_twin)


def never_written(got: np.ndarray, word: int | None) -> np.ndarray:
    """True where an output still holds the poison; nowhere for bytes, which turns of other poison tell."""
    element = None if word is None else poison(word, got.dtype)
    if element is None:
        return np.zeros(got.shape, bool)
    unwritten: np.ndarray = bits(got) == element
    return unwritten


def compare(
    got: np.ndarray, twin: np.ndarray | None, truth: Truth, place: Place, poison: int | None
) -> Compared:
    """Holds one launch's output against truth and twin; `poison` is the word that lay there before, if known.

    `got` is in its buffer's type; a twin in float32 is rounded to it. Without a twin, elements that are the
    twin's to judge are judged by nobody, and the relative figure is against the oracle.
    """
    with np.errstate(all="ignore"):
        unwritten = never_written(got, poison)
        if twin is None:
            return _twinless(values(got), narrowed(truth, None, got.dtype), place, unwritten)
        right = values(rounded(twin, got.dtype))
        truth, nowhere = narrowed(truth, right, got.dtype), np.zeros(got.shape, bool)
        return _compare(values(got), right, truth, place, unwritten, nowhere)


def _twinless(got: np.ndarray, truth: Truth, place: Place, unwritten: np.ndarray) -> Compared:
    unjudged = truth.by_twin
    alone = replace(truth, by_twin=np.zeros(got.shape, bool))
    found = _compare(got, truth.want.astype(np.float32), alone, place, unwritten, unjudged)
    count, where = int(np.count_nonzero(unjudged)), f"{place.buffer} in launch {place.launch} {place.kernel}"
    verdict, reason = found.verdict, found.reason
    if count and verdict is Verdict.PASS:
        left = "leave float32's range, where a twin judges and this kernel has none"
        verdict = Verdict.SKIP if count == got.size else verdict
        reason = f"{count} of {got.size} elements not judged: {where}: they {left}"
    return replace(
        found,
        verdict=verdict,
        reason=reason,
        positions=got.size - count,
        bit_exact=False,
        twin_agrees=False,
        twinless=True,
        worst=found.worst and replace(found.worst, twin=math.nan),
    )


def _compare(
    got: np.ndarray, twin: np.ndarray, truth: Truth, place: Place, unwritten: np.ndarray, unjudged: np.ndarray
) -> Compared:
    judged = ratios(got, twin, truth)
    if place.contracted:
        judged = np.minimum(judged, leaving(got, truth))
    found = np.where(unwritten, np.inf, np.where(unjudged, 0.0, judged))
    bad = int(np.count_nonzero(found > 1))
    worst = _worst(found, got, twin, truth, place)
    error = got.astype(np.float64) - truth.want
    counted = np.isfinite(error) & ~truth.by_twin & ~unjudged  # where the twin judges, the oracle is no truth
    verdict, reason = _verdict(found, int(np.count_nonzero(unwritten)), bad, worst, truth, place)
    return Compared(
        verdict=verdict,
        reason=reason,
        positions=got.size,
        by_twin=int(np.count_nonzero(truth.by_twin)),
        bad=bad,
        bound_ratio=float(found.max(initial=0.0)),
        relative_ratio=relative_ratio(got, twin),
        nan_positions_equal=bool(np.array_equal(np.isnan(got) & ~unwritten, np.isnan(twin))),
        squared_error=float(np.sum(np.square(error[counted]))),
        squared_want=float(np.sum(np.square(truth.want[counted]))),
        bit_exact=bool(np.array_equal(bits(canonical(got)), bits(canonical(twin))) and not unwritten.any()),
        twin_agrees=bool((ratios(twin, twin, truth) <= 1).all()),
        worst=worst,
        worst_rows=_worst_rows(found, place.row_axis),
    )


def _verdict(
    found: np.ndarray, unwritten: int, bad: int, worst: Worst | None, truth: Truth, place: Place
) -> tuple[Verdict, str]:
    where = f"{place.buffer} in launch {place.launch} {place.kernel}"
    if worst is None:
        return Verdict.ERROR, f"nothing compared: {where} has no elements"
    if fault := _fixture_fault(truth, place.family):
        return Verdict.ERROR, f"fixture at fault, {where}: {fault}"
    if unwritten:
        return Verdict.FAIL, f"{unwritten} of {found.size} outputs never written: {where}"
    if bad:
        outside = f"({bad} of {found.size} outside)"
        return Verdict.FAIL, f"element {worst.index} of {where}: {_figures(worst, truth)} {outside}"
    return Verdict.PASS, ""


def _fixture_fault(truth: Truth, family: str) -> str:
    """Why nothing can be concluded from this truth; empty if it is sound."""
    finite = np.isfinite(truth.want)
    if family not in MAY_BE_NON_FINITE and not finite.all():
        odd = np.count_nonzero(~finite)
        return (
            f"the oracle wants NaN or Inf at {odd} of {finite.size} elements, family {family} must have none"
        )
    if np.isnan(truth.want).all():
        return (
            f"the oracle wants NaN at all {finite.size} elements, so any kernel that puts out NaN would pass"
        )
    if not (truth.limit[finite] >= 0).all() or np.isinf(truth.limit[finite]).any():
        return "a limit is negative, NaN or Inf, so it would pass anything or nothing"
    return ""


def _figures(worst: Worst, truth: Truth) -> str:
    if truth.by_twin[worst.index]:
        return f"got {worst.got:.9g}, want the twin's {worst.twin:.9g}, limit {worst.limit:.3g}"
    return f"got {worst.got:.9g}, want {worst.want:.9g}, limit {worst.limit:.3g}"


def _worst(found: np.ndarray, got: np.ndarray, twin: np.ndarray, truth: Truth, place: Place) -> Worst | None:
    if not found.size:
        return None
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(found)), found.shape))
    return Worst(
        launch=place.launch,
        kernel=place.kernel,
        buffer=place.buffer,
        index=index,
        got=float(got[index]),
        want=float(truth.want[index]),
        twin=float(twin[index]),
        limit=float(limits(twin, truth)[index]),
    )


def _worst_rows(found: np.ndarray, axis: int) -> tuple[tuple[int, float], ...]:
    if not found.size:
        return ()
    rows = np.moveaxis(found, axis, 0).reshape(found.shape[axis], -1).max(axis=1)
    order = np.argsort(-rows, kind="stable")[:WORST_ROWS]
    return tuple((int(row), float(rows[row])) for row in order)


def relative_ratio(got: np.ndarray, twin: np.ndarray) -> float:
    """The usual rule's error over its limit, as that rule has it: an Inf in the twin passes anything."""
    limit = RELATIVE * np.maximum(np.abs(twin, dtype=np.float64), 1.0)
    with np.errstate(invalid="ignore"):  # Inf - Inf and Inf / Inf
        ratio = np.abs(got.astype(np.float64) - twin) / limit
    return float(np.where(np.isnan(ratio), 0.0, ratio).max(initial=0.0))


def output_digest(arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 (hex) over name, shape and canonical little-endian bytes, in the order of the names.

    Elements of other than four bytes say how many bits they have.
    """
    sha = hashlib.sha256()
    for name in sorted(arrays):
        told = bits(canonical(arrays[name]))
        width = "" if told.itemsize == 4 else f" {8 * told.itemsize}"
        sha.update(f"{name} {arrays[name].shape}{width}\n".encode())
        sha.update(told.tobytes())
    return sha.hexdigest()
