"""The farm's own expf: float32 in, float32 out, the same bits from numpy and from the host runtime.

x as float64, clamped to ±CLAMP; k = round(x / ln 2); r = (x - k * LN2_HIGH) - k * LN2_LOW; exp(r) by
Horner over POLYNOMIAL; times 2^k, exactly; rounded once to float32, which gives Inf, subnormals and 0 where
they belong. Every step is one IEEE double operation, never contracted. A NaN comes back as it is. Within
0.5000001 ulp of the true value.
"""

from __future__ import annotations

import math

import numpy as np

CLAMP = 200.0  # float32 leaves [-104, 88.8] long before, and 2^k stays a normal double
INVERSE_LN2 = float.fromhex("0x1.71547652b82fep+0")
LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")  # 32 significant bits: k * LN2_HIGH is exact for |k| < 2^21
LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
ROUNDER = 1.5 * 2.0**52  # adding and subtracting it rounds to the nearest integer, ties to even
DEGREE = 13  # |r| <= ln(2)/2, so the next Taylor term is below 5e-18
POLYNOMIAL = tuple(1.0 / math.factorial(n) for n in range(DEGREE, -1, -1))  # highest power first


def exp32(x: np.ndarray) -> np.ndarray:
    """exp of a float32 array of any shape, as float32; the host's expf gives the same bits."""
    if x.dtype != np.float32:
        raise TypeError(f"exp32 takes float32, got {x.dtype}")
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        number = np.where(np.isnan(x), np.float32(0), x)
        clamped = np.clip(number.astype(np.float64), -CLAMP, CLAMP)
        k = clamped * INVERSE_LN2 + ROUNDER - ROUNDER
        r = clamped - k * LN2_HIGH - k * LN2_LOW
        p = np.full_like(r, POLYNOMIAL[0])
        for coefficient in POLYNOMIAL[1:]:
            p = p * r + coefficient
        power = ((k.astype(np.int64) + 1023) << 52).view(np.float64)
        return np.where(np.isnan(x), x, (p * power).astype(np.float32))


def defines() -> dict[str, str]:
    """The same constants for a C++ compiler, as macros; hexadecimal, so that no digit is lost."""
    return {
        "FARM_EXP_CLAMP": CLAMP.hex(),
        "FARM_EXP_INVERSE_LN2": INVERSE_LN2.hex(),
        "FARM_EXP_ROUNDER": ROUNDER.hex(),
        "FARM_EXP_LN2_HIGH": LN2_HIGH.hex(),
        "FARM_EXP_LN2_LOW": LN2_LOW.hex(),
        "FARM_EXP_POLYNOMIAL": ",".join(c.hex() for c in POLYNOMIAL),
    }
