// out[token, row] = sum over cols of W[row, col] * x[token, col], W in Q8_0: blocks of 32 weights in 34 bytes, a
// float16 scale and 32 signed bytes. One thread per output; a thread block is 16 rows by 16 tokens.
#include <stdint.h>

// The float16 at p, which need not be aligned.
__device__ float half_at(const uint8_t *p) {
    const unsigned bits = p[0] | p[1] << 8, exponent = bits >> 10 & 31u, fraction = bits & 1023u;
    float size = fraction * 0x1p-24f;
    if (exponent)
        size = __uint_as_float((exponent == 31u ? 255u : exponent + 112u) << 23 | fraction << 13);
    return bits & 0x8000u ? -size : size;
}

__global__ void mine(const uint8_t *weights, const float *x, float *out, int rows, int cols, int batch,
                     long long row_bytes) {
    const int row = blockIdx.x * SIDE + threadIdx.x, token = blockIdx.y * SIDE + threadIdx.y;
    if (row >= rows || token >= batch)
        return;
    const uint8_t *block = weights + row * row_bytes;
    const float *from = x + (long long)token * cols;
    float sum = 0.0f;
    for (int col = 0; col < cols; col += 32, block += 34)
        for (int i = 0; i < 32; i++)
            sum += half_at(block) * (float)(int8_t)block[2 + i] * from[col + i];
    out[(long long)token * rows + row] = sum;
}
