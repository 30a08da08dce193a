// y[row] = sum over cols of W[row, col] * x[col]; one warp per row, ROWS rows per thread block, lane l takes blocks l,
// l + WARP, ...
extern "C" __global__ void ENTRY(const unsigned char *quants, const unsigned char *scales, const float *x, float *out,
                                 int rows, int cols, long long quants_pitch, long long scales_pitch) {
    const int lane = threadIdx.x % WARP;
    const long long row = (long long)blockIdx.x * ROWS + threadIdx.x / WARP;
    if (row >= rows)
        return;
    const int blocks = cols / BLOCK_ELEMENTS;
    const unsigned char *row_quants = quants + row * quants_pitch;
    const float *row_scales = (const float *)(scales + row * scales_pitch);
    float sum = 0.0f;
    for (int b = lane; b < blocks; b += WARP)
        sum = add_block(row_quants + (long long)b * QUANT_BYTES, row_scales[b], x + b * BLOCK_ELEMENTS, sum);
    for (int step = WARP / 2; step > 0; step /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (lane == 0)
        out[row] = sum;
}
