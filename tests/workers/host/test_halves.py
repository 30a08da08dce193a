"""float16 and bfloat16 on the host: every operation is the exact result rounded once, in every build."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from workers.backend import Rejected

K = 'extern "C" __global__ void k'
AT = "const int i = blockIdx.x * blockDim.x + threadIdx.x;"
BUILDS = ("exact", "default", "check")
ALL = np.arange(65536, dtype=np.uint16)
NAN = 0x7FFF  # what an operation makes of every NaN


class Format:
    """One 16-bit format: its text, and the exact value and the rounding of its bits in plain integers."""

    def __init__(self, header: str, name: str, as_bits: str, of_bits: str, digits: int, lowest: int) -> None:
        self.header, self.name, self.as_bits, self.of_bits = header, name, as_bits, of_bits
        self.digits, self.lowest = digits, lowest
        self.inf = ((1 << 16 - digits) - 1) << digits - 1
        self.unit = Fraction(2) ** (lowest - digits + 1)

    def values(self, bits: np.ndarray) -> np.ndarray:
        """float64 of bits, exactly."""
        if self.digits == 11:
            with np.errstate(invalid="ignore"):
                return bits.view(np.float16).astype(np.float64)
        with np.errstate(invalid="ignore"):
            return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)

    def rounded(self, value: Fraction, negative_zero: bool = False) -> int:
        """The bits nearest to an exact value, ties to even."""
        sign = 0x8000 if value < 0 or (value == 0 and negative_zero) else 0
        magnitude = abs(value) / self.unit
        length = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
        shifts = max(0, length - self.digits)  # one too few at most
        shifts += magnitude >= 2 ** (shifts + self.digits)
        bits = round(magnitude / 2**shifts) + (shifts << self.digits - 1)  # a carry moves into the exponent
        return sign | min(bits, self.inf)


HALF = Format("cuda_fp16.h", "__half", "__half_as_ushort", "__ushort_as_half", 11, -14)
BFLOAT = Format("cuda_bf16.h", "__nv_bfloat16", "__bfloat16_as_ushort", "__ushort_as_bfloat16", 8, -126)
FORMATS = pytest.mark.parametrize("kind", [HALF, BFLOAT], ids=lambda kind: kind.name)

# Operation to what it computes exactly; operands are a, b, c.
ARITHMETIC: dict[str, Callable[[Fraction, Fraction, Fraction], Fraction]] = {
    "__hadd(a, b)": lambda a, b, c: a + b,
    "__hsub(a, b)": lambda a, b, c: a - b,
    "__hmul(a, b)": lambda a, b, c: a * b,
    "__hfma(a, b, c)": lambda a, b, c: a * b + c,
    "a + b": lambda a, b, c: a + b,
    "a * b": lambda a, b, c: a * b,
    "__hdiv(a, b)": lambda a, b, c: a / b if b else Fraction(0),
}


def test_the_reference_rounds_as_numpy_does() -> None:
    """Every half, every midpoint between two and its neighbours in float32."""
    finite = ALL[(ALL & 0x7C00) != 0x7C00]
    exact = finite.view(np.float16).astype(np.float32)
    middle = (exact[:-1] + exact[1:]) / 2
    near = [np.nextafter(middle, np.float32(to)) for to in (-np.inf, np.inf)]
    values = np.concatenate([exact, middle, *near])[::37]
    values = values[values != 0]
    assert len(values) > 6000
    with np.errstate(over="ignore"):
        want = values.astype(np.float16).view(np.uint16)
    assert [HALF.rounded(Fraction(float(v))) for v in values] == want.tolist()


def text_of(kind: Format, calls: list[str]) -> str:
    stores = " ".join(
        f"{{ {kind.name} r = {call}; out[{n} * count + i] = {kind.as_bits}(r); }}"
        for n, call in enumerate(calls)
    )
    read = " ".join(f"const {kind.name} {name} = {kind.of_bits}({name}s[i]);" for name in "abc")
    pointers = ", ".join(f"const unsigned short *{name}s" for name in "abc")
    entry = f"{K}({pointers}, unsigned short *out, int count)"
    return f"#include <{kind.header}>\n{entry} {{ {AT} {read} {stores} }}"


def operands(kind: Format, count: int) -> list[np.ndarray]:
    """Random bits; sums that cancel, subnormals, and products on a midpoint with an addend far below."""
    random = np.random.default_rng(kind.digits)
    quarter, mantissa = count // 4, 1 << kind.digits - 1
    a, b, c = (random.integers(0, 65536, count, dtype=np.uint16) for _ in range(3))
    b[:quarter] = a[:quarter] ^ 0x8000 ^ random.integers(0, 8, quarter, dtype=np.uint16)
    small = slice(quarter, 2 * quarter)
    for one in (a, b, c):
        one[small] &= 0x8000 | 2 * mantissa - 1  # subnormals and their like
    ties = slice(2 * quarter, 3 * quarter)
    one_and_a_half = (kind.inf // mantissa // 2) * mantissa | mantissa // 2
    a[ties] = one_and_a_half - mantissa // 2 + 2 * random.integers(0, mantissa // 6, quarter) + 1
    b[ties] = one_and_a_half  # the product of an odd number below 4/3 lies halfway between two
    c[ties] &= 0x8000 | 3 * mantissa - 1
    return [a, b, c]


def launched(
    run: Callable[..., np.ndarray], text: str, inputs: list[np.ndarray], outs: int, build: str
) -> np.ndarray:
    """(outs, count) uint16."""
    count = len(inputs[0])
    size = {"block": min(256, count), "grid": max(1, count // 256)}
    out = np.zeros(outs * count, np.uint16)
    return run(text, inputs, out, **size, scalars=(count,), build=build).reshape(outs, count)


@cache
def wanted(kind: Format, count: int) -> np.ndarray:
    """(operations, count) int64: the bits of every finite result that isn't zero, else -1."""
    values = [kind.values(one) for one in operands(kind, count)]
    wants = np.full((len(ARITHMETIC), count), -1, np.int64)
    for i in np.flatnonzero(np.isfinite(values).all(axis=0)):
        a, b, c = (Fraction(float(one[i])) for one in values)
        for row, exactly in enumerate(ARITHMETIC.values()):
            if result := exactly(a, b, c):
                wants[row, i] = kind.rounded(result)
    return wants


@FORMATS
@pytest.mark.parametrize("build", BUILDS)
def test_arithmetic_is_rounded_once(run: Callable[..., np.ndarray], kind: Format, build: str) -> None:
    inputs, want = operands(kind, 4096), wanted(kind, 4096)
    got = launched(run, text_of(kind, list(ARITHMETIC)), inputs, len(ARITHMETIC), build)
    counted = want >= 0
    assert (counted.sum(axis=1) > 3500).all()
    assert np.array_equal(got[counted], want[counted])


@FORMATS
def test_rounding_a_product_before_its_sum_is_seen(kind: Format) -> None:
    """So that the operands tell one rounding from two: of a product first, or of a sum in double."""
    a, b, c = (kind.values(one) for one in operands(kind, 4096))
    want = wanted(kind, 4096)[list(ARITHMETIC).index("__hfma(a, b, c)")]
    ties = slice(2048, 3072)
    between = np.float16 if kind is HALF else np.float64
    with np.errstate(all="ignore"):
        twice = (a.astype(between) * b.astype(between) + c.astype(between)).astype(np.float64)
    rounded = [kind.rounded(Fraction(float(v))) for v in twice[ties]]
    assert np.count_nonzero(np.array(rounded) != want[ties]) > 100


@FORMATS
def test_nan_inf_and_zeros_are_as_ieee_has_them(run: Callable[..., np.ndarray], kind: Format) -> None:
    special = np.array([0, 0x8000, 1, 0x8001, kind.inf, kind.inf | 0x8000, kind.inf | 1, 0xFFFF], np.uint16)
    a, b, c = (grid.reshape(-1) for grid in np.meshgrid(special, special, special, indexing="ij"))
    got = launched(run, text_of(kind, list(ARITHMETIC)), [a, b, c], len(ARITHMETIC), "exact")
    with np.errstate(all="ignore"):
        x, y, z = (kind.values(one) for one in (a, b, c))
        wants = [x + y, x - y, x * y, x * y + z, x + y, x * y, x / y]
    for row, want in zip(got, wants, strict=True):
        odd = ~np.isfinite(want) | (want == 0)
        assert (row[np.isnan(want)] == NAN).all()
        infinite = np.isinf(want)
        assert (row[infinite] == np.where(want < 0, kind.inf | 0x8000, kind.inf)[infinite]).all()
        zero = want == 0
        assert (row[zero] == np.where(np.signbit(want), 0x8000, 0)[zero]).all()
        assert odd.sum() > 300


TO_FLOAT = {"__half": "__half2float", "__nv_bfloat16": "__bfloat162float"}
TO_BITS = {"__half": "__float2half_rn", "__nv_bfloat16": "__float2bfloat16"}


@FORMATS
@pytest.mark.parametrize("build", BUILDS)
def test_every_pattern_is_its_float_and_comes_back(
    run: Callable[..., np.ndarray], kind: Format, build: str
) -> None:
    def of(body: str, out: np.ndarray) -> np.ndarray:
        pointers = f"const unsigned short *h, {'float' if out.dtype == np.float32 else 'unsigned short'} *out"
        text = f"#include <{kind.header}>\n{K}({pointers}) {{ {AT} out[i] = {body}; }}"
        return run(text, [ALL], out, block=256, grid=256, build=build)

    widened = f"{TO_FLOAT[kind.name]}({kind.of_bits}(h[i]))"
    wide = of(widened, np.zeros(65536, np.float32))
    back = of(f"{kind.as_bits}({TO_BITS[kind.name]}({widened}))", np.zeros(65536, np.uint16))
    values = kind.values(ALL)
    nan = np.isnan(values)
    assert np.array_equal(wide[~nan].astype(np.float64), values[~nan])
    assert np.array_equal(np.isnan(wide), nan)
    assert np.array_equal(back[~nan], ALL[~nan])
    assert (back[nan] == NAN).all()
    assert nan.sum() == 2 * ((1 << kind.digits - 1) - 1)


@FORMATS
def test_floats_and_doubles_are_rounded_to_nearest_even(run: Callable[..., np.ndarray], kind: Format) -> None:
    """Midpoints and their neighbours; a double isn't rounded to float on the way."""
    random = np.random.default_rng(5)
    base = kind.values(random.integers(0, 65536, 1024, dtype=np.uint16))
    with np.errstate(all="ignore"):
        step = 2.0 ** (np.floor(np.log2(np.abs(base))) - kind.digits + 1)
        shares = [share * (1 + tiny) for share in (0.5, 1.5) for tiny in (0, 2.0**-40)]
        doubles = np.concatenate([base + step * share for share in shares])
    doubles = np.where(np.abs(doubles) < 2.0**127, doubles, 1.0)
    text = (
        f"#include <{kind.header}>\n{K}(const double *x, unsigned short *out) {{ {AT} "
        f"out[2 * i] = {kind.as_bits}({kind.name}(x[i])); "
        f"out[2 * i + 1] = {kind.as_bits}({kind.name}((float)x[i])); }}"
    )
    got = run(text, [doubles], np.zeros(2 * len(doubles), np.uint16), block=256, grid=len(doubles) // 256)
    singles = doubles.astype(np.float32).astype(np.float64)
    for found, values in ((got[0::2], doubles), (got[1::2], singles)):
        want = [kind.rounded(Fraction(float(v)), bool(np.signbit(v))) for v in values]
        assert found.tolist() == want
    assert np.count_nonzero(got[0::2] != got[1::2]) > 300


PAIRS = {
    "__hadd2(a, b)": "__hadd",
    "__hsub2(a, b)": "__hsub",
    "__hmul2(a, b)": "__hmul",
    "a * b": "__hmul",
    "__hmax2(a, b)": "__hmax",
}


@FORMATS
def test_pairs_are_two_of_one(run: Callable[..., np.ndarray], kind: Format) -> None:
    pair, make = ("__half2", "__halves2half2") if kind is HALF else ("__nv_bfloat162", "__halves2bfloat162")
    ones = text_of(kind, [f"{of}(a, b)" for of in PAIRS.values()] + ["__hfma(a, b, c)"])
    inputs = operands(kind, 2048)
    want = launched(run, ones, inputs, 6, "exact")
    stores = " ".join(
        f"p[{n} * (count / 2) + i] = {call};" for n, call in enumerate([*PAIRS, "__hfma2(a, b, c)"])
    )
    text = (
        f"#include <{kind.header}>\n"
        f"{K}(const {pair} *as, const {pair} *bs, const {pair} *cs, {pair} *p, int count) {{ {AT} "
        f"if (i >= count / 2) return; "
        f"const {pair} a = as[i], b = bs[i], c = {make}(cs[i].x, cs[i].y); {stores} }}"
    )
    assert np.array_equal(launched(run, text, inputs, 6, "exact"), want)
    assert len(np.unique(want)) > 4000


SAID = {
    "__hlt(a, b)": np.less,
    "a > b": np.greater,
    "__heq(a, b)": np.equal,
    "a != b": np.not_equal,
    "__hge(a, b)": np.greater_equal,
}


@FORMATS
def test_comparisons_are_those_of_the_values(run: Callable[..., np.ndarray], kind: Format) -> None:
    inputs = operands(kind, 4096)
    inputs[1][::3] = inputs[0][::3]
    text = text_of(kind, [f"{kind.name}(({call}) ? 1 : 0)" for call in [*SAID, "__hisnan(a)", "__hne(a, b)"]])
    got = launched(run, text, inputs, len(SAID) + 2, "exact") != 0
    a, b = (kind.values(one) for one in inputs[:2])
    for row, compare in zip(got, SAID.values(), strict=False):
        assert np.array_equal(row, compare(a, b))
    assert np.array_equal(got[-2], np.isnan(a))
    assert np.array_equal(got[-1], (a < b) | (a > b))  # false where one is NaN, as NVIDIA has it
    assert got.any(axis=1).all()


def test_integers_are_rounded_and_saturated(run: Callable[..., np.ndarray]) -> None:
    text = f"""#include <cuda_fp16.h>
    {K}(const unsigned short *h, int *out, int count) {{ {AT} const __half a = __ushort_as_half(h[i]);
      out[i] = __half2int_rn(a); out[count + i] = __half2int_rz(a);
      out[2 * count + i] = __half_as_ushort(__int2half_rn(out[i])); }}"""
    out = np.zeros(3 * 65536, np.int32)
    got = run(text, [ALL], out, block=256, grid=256, scalars=(65536,)).reshape(3, -1)
    values = np.nan_to_num(HALF.values(ALL), nan=0, posinf=2.0**31 - 1, neginf=-(2.0**31))
    assert np.array_equal(got[0], np.rint(values).astype(np.int64))
    assert np.array_equal(got[1], np.trunc(values).astype(np.int64))
    with np.errstate(over="ignore"):
        assert np.array_equal(got[2], got[0].astype(np.float64).astype(np.float16).view(np.uint16))


def test_conversions_of_pairs_and_parts(run: Callable[..., np.ndarray]) -> None:
    text = f"""#include <cuda_fp16.h>
    {K}(float *out) {{
      const half2 a = __floats2half2_rn(1.5f, -2.0f), b = __float2half2_rn(3.0f);
      out[0] = __low2float(a); out[1] = __high2float(a); out[2] = __half2float(__low2half(b));
      const float2 f = __half22float2(__lows2half2(a, b)); out[3] = f.x; out[4] = f.y;
      out[5] = __high2float(__highs2half2(a, __half2half2(__float2half(7.0f))));
      out[6] = __low2float(__lowhigh2highlow(a));
      out[7] = sizeof(half2) + 10 * alignof(half2) + 100 * sizeof(half);
      half h = 0.5f; h += half(1); out[8] = h; out[9] = (int)h;
    }}"""
    got = run(text, [], np.zeros(10, np.float32), block=1).tolist()
    assert got == [1.5, -2, 3, 1.5, 3, 7, -2, 244, 1.5, 1]


def test_wide_integers_become_bfloat16_in_one_rounding(run: Callable[..., np.ndarray]) -> None:
    """2^60 + 2^52 is a midpoint: one more decides, and a double would lose it."""
    text = f"""#include <cuda_bf16.h>
    {K}(const long long *x, unsigned short *out) {{
      {AT} out[i] = __bfloat16_as_ushort(__nv_bfloat16(x[i])); }}"""
    values = np.array([2**60 + 2**52, 2**60 + 2**52 + 1, -(2**60 + 2**52 + 1), 2**62 - 1, -3, 0], np.int64)
    got = run(text, [values], np.zeros(6, np.uint16), block=6)
    assert got.tolist() == [BFLOAT.rounded(Fraction(int(v))) for v in values]


@FORMATS
def test_shuffles_shared_memory_and_atomics(run: Callable[..., np.ndarray], kind: Format) -> None:
    text = f"""#include <{kind.header}>
    {K}(const float *x, float *out) {{
      __shared__ {kind.name} tile[32]; __shared__ {kind.name} sum; const int t = threadIdx.x;
      tile[t] = {kind.name}(x[t]); if (t == 0) sum = 0.0f; __syncthreads();
      atomicAdd(&sum, tile[t]);
      out[t] = __shfl_down_sync(~0u, tile[t ^ 1], 1); __syncthreads();
      out[32 + t] = sum;
    }}"""
    x = np.arange(32, dtype=np.float32)
    got = run(text, [x], np.zeros(64, np.float32)).reshape(2, 32)
    swapped = x.reshape(16, 2)[:, ::-1].reshape(-1)
    assert got[0].tolist() == [*swapped[1:], swapped[31]]
    assert (got[1] == (496 if kind is HALF else got[1][0])).all()


@pytest.mark.parametrize("header", ["cuda_fp16.h", "cuda_bf16.h", "cuda_runtime.h", "stdint.h", "cstdint"])
@pytest.mark.parametrize("build", BUILDS)
def test_headers_can_be_included_together_with_any_other(
    run: Callable[..., np.ndarray], header: str, build: str
) -> None:
    text = f"""#include <{header}>
    #include <cuda_fp16.h>
    #include <stdint.h>
    #include <cuda_bf16.h>
    #include "cuda_fp16.h"
    {K}(const float *x, float *out) {{
      uint16_t one = 1; out[threadIdx.x] = x[threadIdx.x] + one + expf(0.0f); }}"""
    x = np.arange(32, dtype=np.float32)
    assert run(text, [x], np.zeros(32, np.float32), build=build).tolist() == (x + 2).tolist()


def test_without_a_header_there_is_no_half(load: Callable[..., object]) -> None:
    """So that a text that forgets it is refused here as it is by NVIDIA's compiler."""
    with pytest.raises(Rejected, match="__half"):
        load(f"{K}(float *out) {{ __half h = 1.0f; out[0] = h; }}")


@pytest.mark.parametrize(
    ("line", "nbytes"),
    [
        ("half2 v = *(const half2 *)((const half *)x + 1); out[t] = __low2float(v);", 4),
        ("uint4 v = *(const uint4 *)(x + 1); out[t] = v.x;", 16),
        ("*(half2 *)((half *)out + 1) = __float2half2_rn(1.0f);", 4),
    ],
)
def test_misaligned_pairs_and_words_are_found(
    check: Callable[..., list[str]], line: str, nbytes: int
) -> None:
    text = (
        f"#include <cuda_fp16.h>\n{K}(const float *x, float *out) {{ const int t = threadIdx.x;\n{line}\n}}"
    )
    found = check(text, block=1)
    assert found
    assert "misaligned" in found[0]
    assert f"of {nbytes} bytes" in found[0]
    assert found[0].startswith("k.cu:3") or "called at line 3" in found[0]


def test_aligned_pairs_are_left_alone(check: Callable[..., list[str]]) -> None:
    text = f"""#include <cuda_fp16.h>
    {K}(const float *x, float *out) {{ const int t = threadIdx.x; __shared__ half2 tile[64];
    tile[t] = ((const half2 *)x)[t]; __syncthreads();
    half2 v = tile[63 - t]; v = __hfma2(v, v, v); out[t] = __low2float(v); }}"""
    assert check(text) == []
