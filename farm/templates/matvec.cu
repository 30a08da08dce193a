// out[row] = sum over cols of W[row, col] * x[col], W in Q8_0: blocks of 32 weights in 34 bytes, a float16 scale
// and 32 signed bytes. One warp per row, WARPS rows per thread block; lane l takes weight l of every block.
#include <stdint.h>

// The float16 at p, which need not be aligned.
__device__ float half_at(const uint8_t *p) {
    const unsigned bits = p[0] | p[1] << 8, exponent = bits >> 10 & 31u, fraction = bits & 1023u;
    float size = fraction * 0x1p-24f;
    if (exponent)
        size = __uint_as_float((exponent == 31u ? 255u : exponent + 112u) << 23 | fraction << 13);
    return bits & 0x8000u ? -size : size;
}

__global__ void mine(const uint8_t *weights, const float *x, float *out, int rows, int blocks, long long row_bytes) {
    const int lane = threadIdx.x, row = blockIdx.x * WARPS + threadIdx.y;
    if (row >= rows)
        return;
    const uint8_t *block = weights + row * row_bytes;
    float sum = 0.0f;
    for (int b = 0; b < blocks; b++, block += 34)
        sum += half_at(block) * (float)(int8_t)block[2 + lane] * x[b * 32 + lane];
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (lane == 0)
        out[row] = sum;
}
