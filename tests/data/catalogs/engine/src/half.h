// float16 by its bits, both ways, and rounding to whole numbers with halves away from 0.
#pragma once
#include <stdint.h>

__device__ inline float from_half(unsigned bits) {
    const unsigned exponent = bits >> 10 & 31u, fraction = bits & 1023u;
    float size = fraction * 0x1p-24f;
    if (exponent)
        size = __uint_as_float((exponent == 31u ? 255u : exponent + 112u) << 23 | fraction << 13);
    return bits & 0x8000u ? -size : size;
}

// To the nearest, halves to even; for magnitudes of at least 0. Adding 2^(e-10+23) leaves ten bits of fraction.
__device__ inline unsigned to_half(float value) {
    const unsigned bits = __float_as_uint(value);
    if (bits >= 0x477ff000u)
        return 0x7c00u;
    if (bits < 0x38800000u)
        return __float_as_uint(value + 0.5f) - __float_as_uint(0.5f);
    return (bits - 0x38000000u + 0xfffu + (bits >> 13 & 1u)) >> 13;
}

__device__ inline float rounded(float value) {
    return value < 0.0f ? -floorf(0.5f - value) : floorf(value + 0.5f);
}
