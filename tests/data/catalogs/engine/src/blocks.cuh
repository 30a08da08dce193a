// Block formats as templates: how many bytes, where the scale is, and weight i of a block as a whole number.
#pragma once
#include <stdint.h>

template <int BYTES> struct Block;

// Q4_0: 32 weights in 18 bytes, w = d * (q - 8); weight i below 16 in the low nibble of byte i, the others in the high ones.
template <> struct Block<18> {
    uint8_t d[2], qs[16];
    __device__ int q(int i) const { return (i < 16 ? qs[i] & 15 : qs[i - 16] >> 4) - 8; }
};

// Q8_0: 32 weights in 34 bytes, w = d * q.
template <> struct Block<34> {
    uint8_t d[2];
    int8_t qs[32];
    __device__ int q(int i) const { return qs[i]; }
};
