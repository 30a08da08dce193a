"""compare: outputs of float16, bfloat16 and bytes, each held to what its type can say."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest

from kernels.compare import Place, compare, output_digest
from kernels.dtypes import BF16, F16, F32, NARROW, poison, rounded
from kernels.evidence import Verdict
from kernels.op import Truth

POISON = 0x7FC0DEAD
PLACE = Place(0, "matvec/block", "out", "ordinary")


def truth_of(want: np.ndarray, limit: float = 0.5) -> Truth:
    return Truth(want, np.full(want.shape, limit), np.zeros(want.shape, bool))


TYPES = pytest.mark.parametrize("of", [F16, BF16], ids=["f16", "bf16"])


@TYPES
def test_an_output_of_16_bits_may_be_half_an_ulp_off_and_no_more(of: np.dtype) -> None:
    want = np.array([1.0 + 1e-6])  # between 1 and the next number: both are right neighbours
    step = 2.0 ** -(NARROW[of].digits - 1)
    truth = Truth(want, np.zeros(1), np.zeros(1, bool))
    one, next_one, before = (rounded(np.array([v], np.float32), of) for v in (1.0, 1 + step, 1 - step))
    assert compare(one, one, truth, PLACE, POISON).verdict is Verdict.PASS
    for wrong in (next_one, before):
        found = compare(wrong, one, truth, PLACE, POISON)
        assert (found.verdict, found.bad, found.bit_exact) == (Verdict.FAIL, 1, False)


@TYPES
def test_a_twin_in_float32_is_rounded_to_the_outputs_type(of: np.dtype) -> None:
    twin = np.array([1.0009, -3.3, 1e-3], np.float32)
    found = compare(rounded(twin, of), twin, truth_of(twin.astype(np.float64), 0.0), PLACE, POISON)
    assert (found.verdict, found.bit_exact, found.positions) == (Verdict.PASS, True, 3)


def test_an_output_that_overflows_its_type_is_the_twins_to_judge() -> None:
    want = np.array([1.0, 70000.0, 65519.0])
    twin = rounded(want.astype(np.float32), F16)  # 1, Inf, 65504
    truth = truth_of(want, 1e-3)
    found = compare(twin, twin, truth, PLACE, POISON)
    assert (found.verdict, found.by_twin) == (Verdict.PASS, 1)
    largest = np.array([1.0, 65504.0, 65504.0], F16)
    assert compare(largest, twin, truth, PLACE, POISON).reason.startswith("element (1,) of out")


@TYPES
def test_an_output_of_16_bits_that_nobody_wrote_is_named(of: np.dtype) -> None:
    got = rounded(np.ones(4, np.float32), of)
    wrong = got.copy()
    wrong.view("<u2")[2] = poison(POISON, of)
    found = compare(wrong, got, truth_of(np.ones(4)), PLACE, POISON)
    assert found.reason == "1 of 4 outputs never written: out in launch 0 matvec/block"


def test_bytes_are_judged_byte_for_byte_and_none_of_them_is_poison() -> None:
    twin = np.frombuffer(np.uint32(POISON).tobytes(), np.uint8).copy()  # the right bytes are the poison's
    truth = truth_of(twin.astype(np.float64), 0.0)
    assert compare(twin, twin, truth, PLACE, POISON).verdict is Verdict.PASS
    wrong = twin.copy()
    wrong[3] ^= 1
    found = compare(wrong, twin, truth, PLACE, POISON)
    assert (found.verdict, found.bad, found.bound_ratio) == (Verdict.FAIL, 1, math.inf)
    assert found.reason.endswith("got 126, want 127, limit 0 (1 of 4 outside)")


def test_digests_tell_types_apart_and_take_float32_as_ever() -> None:
    ones = np.ones(2, np.float32)
    told = {output_digest({"a": rounded(ones, of)}) for of in (F32, F16)}
    assert len(told | {output_digest({"a": np.ones(2, np.uint8)})}) == 3
    sha = hashlib.sha256(b"a (2,)\n" + ones.tobytes())
    assert output_digest({"a": ones}) == sha.hexdigest()
