// y[row] = sum over cols of W[row, col] * x[col]; block per row, thread t takes blocks t, t + THREADS, ...
extern "C" __global__ void ENTRY(const unsigned char *quants, const unsigned char *scales, const float *x, float *out,
                                 int rows, int cols, long long quants_pitch, long long scales_pitch) {
    __shared__ float sums[THREADS];
    const int row = blockIdx.x;
    const int blocks = cols / BLOCK_ELEMENTS;
    const unsigned char *row_quants = quants + row * quants_pitch;
    const float *row_scales = (const float *)(scales + row * scales_pitch);
    float sum = 0.0f;
    for (int b = threadIdx.x; b < blocks; b += THREADS)
        sum = add_block(row_quants + (long long)b * QUANT_BYTES, row_scales[b], x + b * BLOCK_ELEMENTS, sum);
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        out[row] = sums[0];
}
