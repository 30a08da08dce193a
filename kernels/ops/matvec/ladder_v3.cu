// y[row] = sum over cols of W[row, col] * x[col]; one warp per row, ROWS rows per thread block. All threads stage the
// activations of TILE blocks in shared memory, a float apart from block to block so that lanes read different banks;
// lane l takes blocks l, l + WARP, ... of the tile. Warps past the last row stage and wait with the others.
extern "C" __global__ void ENTRY(const unsigned char *quants, const unsigned char *scales, const float *x, float *out,
                                 int rows, int cols, long long quants_pitch, long long scales_pitch) {
    __shared__ float tile[TILE * STRIDE];
    const int lane = threadIdx.x % WARP;
    const long long row = (long long)blockIdx.x * ROWS + threadIdx.x / WARP;
    const int blocks = cols / BLOCK_ELEMENTS;
    const unsigned char *row_quants = quants + row * quants_pitch;
    const float *row_scales = (const float *)(scales + row * scales_pitch);
    float sum = 0.0f;
    for (int first = 0; first < blocks; first += TILE) {
        const int count = blocks - first < TILE ? blocks - first : TILE;
        for (int i = threadIdx.x; i < count * BLOCK_ELEMENTS; i += THREADS)
            tile[i / BLOCK_ELEMENTS * STRIDE + i % BLOCK_ELEMENTS] = x[first * BLOCK_ELEMENTS + i];
        __syncthreads();
        if (row < rows)
            for (int b = lane; b < count; b += WARP)
                sum = add_block(row_quants + (long long)(first + b) * QUANT_BYTES, row_scales[first + b],
                                tile + b * STRIDE, sum);
        __syncthreads();
    }
    for (int step = WARP / 2; step > 0; step /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (lane == 0 && row < rows)
        out[row] = sum;
}
