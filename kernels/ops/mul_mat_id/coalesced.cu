// out[slot, row] = sum over cols of W[ids[slot], row, col] * x[slot / slots_per_x, col], slots counted over all tokens.
// One warp per output element, OUTPUTS of them per thread block, every lane takes its LANE_WEIGHTS weights of each
// super-block in turn.
extern "C" __global__ void ENTRY(const unsigned char *weights, const float *x, const int *ids, float *out, int rows,
                                 int cols, int slots_per_x, long long row_bytes, long long expert_bytes,
#ifdef TENSOR_SCALE
                                 long long outputs, float weights_scale) {
#else
                                 long long outputs) {
#endif
    const int lane = threadIdx.x % WARP;
    const long long output = (long long)blockIdx.x * OUTPUTS + threadIdx.x / WARP;
    if (output >= outputs)
        return;
    const long long slot = output / rows;
    const int blocks = cols / BLOCK_ELEMENTS;
    const int at = lane * LANE_WIDTH;
    const float *xs = x + slot / slots_per_x * cols + at / LANE_STRIDE * LANE_STRIDE * LANE_RUNS + at % LANE_STRIDE;
    const unsigned char *block = weights + ids[slot] * expert_bytes + output % rows * row_bytes;
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
        out[output] = weights_scale * sum;
#else
        out[output] = sum;
#endif
}
