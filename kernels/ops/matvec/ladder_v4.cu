// y[row] = sum over cols of W[row, col] * x[col]; as ladder_v3, with f16 scales and two sums a lane: blocks l and
// l + WARP of a tile don't wait for each other.
extern "C" __global__ void ENTRY(const unsigned char *quants, const unsigned char *scales, const float *x, float *out,
                                 int rows, int cols, long long quants_pitch, long long scales_pitch) {
    __shared__ float tile[TILE * STRIDE];
    const int lane = threadIdx.x % WARP;
    const long long row = (long long)blockIdx.x * ROWS + threadIdx.x / WARP;
    const int blocks = cols / BLOCK_ELEMENTS;
    const unsigned char *row_quants = quants + row * quants_pitch;
    const unsigned short *row_scales = (const unsigned short *)(scales + row * scales_pitch);
    float sum = 0.0f, other = 0.0f;
    for (int first = 0; first < blocks; first += TILE) {
        const int count = blocks - first < TILE ? blocks - first : TILE;
        for (int i = threadIdx.x; i < count * BLOCK_ELEMENTS; i += THREADS)
            tile[i / BLOCK_ELEMENTS * STRIDE + i % BLOCK_ELEMENTS] = x[first * BLOCK_ELEMENTS + i];
        __syncthreads();
        const int b = first + lane;
        if (row < rows && lane < count)
            sum = add_block(row_quants + (long long)b * QUANT_BYTES, half_bits_to_float(row_scales[b]),
                            tile + lane * STRIDE, sum);
        if (row < rows && lane + WARP < count)
            other = add_block(row_quants + (long long)(b + WARP) * QUANT_BYTES,
                              half_bits_to_float(row_scales[b + WARP]), tile + (lane + WARP) * STRIDE, other);
        __syncthreads();
    }
    sum += other;
    for (int step = WARP / 2; step > 0; step /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (lane == 0 && row < rows)
        out[row] = sum;
}
