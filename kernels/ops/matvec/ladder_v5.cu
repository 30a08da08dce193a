// The sum of (q - 8) * x over a block's 32 weights, in float16: a nibble in the low bits of 1024.0 is 1024 + q, and 1032
// less of it is q - 8. Bits 4i and 4i + 16 of a word hold weights i and i + 4: they are a pair, as x has them.
__device__ __forceinline__ float block_sum(const unsigned char *quants, const unsigned int *x) {
    const uint4 four = *(const uint4 *)quants;
    const unsigned int words[4] = {four.x, four.y, four.z, four.w};
    unsigned int sums = 0u;
    for (int w = 0; w < 4; ++w)
        for (int i = 0; i < 4; ++i) {
            const unsigned int biased = words[w] >> (4 * i) & 0x000F000Fu | 0x64006400u;
            sums = halves_fma(halves_sub(biased, 0x64086408u), x[4 * w + i], sums);
        }
    return half_bits_to_float((unsigned short)sums) + half_bits_to_float((unsigned short)(sums >> 16));
}

// y[row] = sum over cols of W[row, col] * x[col]; one warp per row, ROWS rows per thread block. All threads stage the
// activations of TILE blocks as float16 in pairs of weights four apart, a pair more from block to block so that lanes
// read different banks; lane l takes blocks l, l + WARP, ... of the tile.
extern "C" __global__ void ENTRY(const unsigned char *quants, const unsigned char *scales, const float *x, float *out,
                                 int rows, int cols, long long quants_pitch, long long scales_pitch) {
    __shared__ unsigned int tile[TILE * STRIDE];
    const int lane = threadIdx.x % WARP;
    const long long row = (long long)blockIdx.x * ROWS + threadIdx.x / WARP;
    const int blocks = cols / BLOCK_ELEMENTS;
    const unsigned char *row_quants = quants + row * quants_pitch;
    const unsigned short *row_scales = (const unsigned short *)(scales + row * scales_pitch);
    float sum = 0.0f;
    for (int first = 0; first < blocks; first += TILE) {
        const int count = blocks - first < TILE ? blocks - first : TILE;
        for (int i = threadIdx.x; i < count * PAIRS; i += THREADS) {
            const int pair = i % PAIRS;
            const float *xs = x + (first + i / PAIRS) * BLOCK_ELEMENTS + pair / 4 * 8 + pair % 4;
            tile[i / PAIRS * STRIDE + pair] = halves_of(xs[0], xs[4]);
        }
        __syncthreads();
        if (row < rows)
            for (int b = lane; b < count; b += WARP)
                sum += half_bits_to_float(row_scales[first + b]) *
                       block_sum(row_quants + (long long)(first + b) * QUANT_BYTES, tile + b * STRIDE);
        __syncthreads();
    }
    for (int step = WARP / 2; step > 0; step /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (lane == 0 && row < rows)
        out[row] = sum;
}
