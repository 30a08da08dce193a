// y[row] = sum over cols of W[row, col] * x[col]; one warp per row, ROWS rows per thread block, every lane takes
// its LANE_WEIGHTS weights of each super-block in turn.
extern "C" __global__ void ENTRY(const unsigned char *weights, const X_TYPE *x, float *out, int rows, int cols,
#ifdef TENSOR_SCALE
                                 long long row_bytes, float weights_scale) {
#else
                                 long long row_bytes) {
#endif
    const int lane = threadIdx.x % WARP;
    const long long row = (long long)blockIdx.x * ROWS + threadIdx.x / WARP;
    if (row >= rows)
        return;
    const int blocks = cols / BLOCK_ELEMENTS;
    const int at = lane * LANE_WIDTH;
    const X_TYPE *xs = x + at / LANE_STRIDE * LANE_STRIDE * LANE_RUNS + at % LANE_STRIDE;
    const unsigned char *block = weights + row * row_bytes;
    float sum = 0.0f;
    for (int b = 0; b < blocks; ++b) {
        float w[LANE_WEIGHTS];
        decode_lane(block, lane, w);
        for (int run = 0; run < LANE_RUNS; ++run)
            for (int i = 0; i < LANE_WIDTH; ++i)
                sum += w[run * LANE_WIDTH + i] * xs[run * LANE_STRIDE + i];
        block += BLOCK_BYTES;
        xs += BLOCK_ELEMENTS;
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
