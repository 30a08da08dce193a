// y[row] = sum over cols of W[row, col] * x[col], x as q8_1 blocks; one warp per row, ROWS rows per thread block. A lane
// takes 16 columns at a time, their products by __dp4a. The sum of the quants that a low is multiplied by is taken here
// too: the block's own, in float16, overflows where 32 activations are 2048.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 610
#error "__dp4a needs sm_61"
#endif
extern "C" __global__ void ENTRY(const unsigned char *weights, const unsigned char *x, float *out, int rows, int cols,
#ifdef TENSOR_SCALE
                                 long long row_bytes, float weights_scale) {
#else
                                 long long row_bytes) {
#endif
    const int lane = threadIdx.x;
    const long long row = (long long)blockIdx.x * ROWS + threadIdx.y;
    if (row >= rows)
        return;
    const unsigned char *row_start = weights + row * row_bytes;
    float sum = 0.0f;
    for (int piece = lane; piece < cols / PIECE; piece += WARP) {
        const unsigned char *block = row_start + (long long)(piece / (BLOCK_ELEMENTS / PIECE)) * BLOCK_BYTES;
        const unsigned char *activations = x + (long long)(piece / (Q8_ELEMENTS / PIECE)) * Q8_BYTES;
        const unsigned char *us = activations + Q8_AT_QS + piece % (Q8_ELEMENTS / PIECE) * PIECE;
        const float d = half_at(activations);
        int q[PIECE / 4];
        float scale;
#ifdef LOW
        float low;
        ints16(block, piece % (BLOCK_ELEMENTS / PIECE), q, &scale, &low);
        int dot = 0, total = 0;
        for (int i = 0; i < PIECE / 4; ++i) {
            const int u = (int)word_at(us + 4 * i);
            dot = __dp4a(q[i], u, dot);
            total = __dp4a(0x01010101, u, total);
        }
        sum += scale * (d * (float)dot) + low * (d * (float)total);
#else
        ints16(block, piece % (BLOCK_ELEMENTS / PIECE), q, &scale);
        int dot = 0;
        for (int i = 0; i < PIECE / 4; ++i)
            dot = __dp4a(q[i], (int)word_at(us + 4 * i), dot);
        sum += scale * (d * (float)dot);
#endif
    }
    for (int step = WARP / 2; step > 0; step /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (lane == 0)
#ifdef TENSOR_SCALE
        out[row] = weights_scale * sum;
#else
        out[row] = sum;
#endif
}
