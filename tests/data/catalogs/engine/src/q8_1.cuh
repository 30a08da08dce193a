// Activations as 8-bit blocks: x = d * q for 32 neighbours.
#pragma once
#include <stdint.h>
#include "half.h"

struct Activations {
    uint16_t d; // a float16's bits
    int8_t q[32];
};

// One warp makes one block: the largest magnitude becomes 127.
__device__ inline void quantize(const float *x, Activations *out, int lane) {
    const float value = x[lane];
    float most = fabsf(value);
    for (int flip = 16; flip > 0; flip /= 2)
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, flip));
    const float d = most / 127.0f;
    out->q[lane] = (int8_t)(most == 0.0f ? 0.0f : roundf(value / d));
    if (lane == 0)
        out->d = to_half(d);
}
