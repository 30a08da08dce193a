// y[row] = sum over cols of W[row, col] * x[col]; block per row, thread t takes super-blocks t, t + THREADS, ...
extern "C" __global__ void ENTRY(const unsigned char *weights, const float *x, float *out, int rows, int cols,
#ifdef TENSOR_SCALE
                                 long long row_bytes, float weights_scale) {
#else
                                 long long row_bytes) {
#endif
    extern __shared__ float sums[];
    const int row = blockIdx.x;
    const int blocks = cols / BLOCK_ELEMENTS;
    const unsigned char *row_start = weights + row * row_bytes;
    float sum = 0.0f;
    for (int b = threadIdx.x; b < blocks; b += THREADS) {
        const unsigned char *block = row_start + (long long)b * BLOCK_BYTES;
        for (int sub = 0; sub < BLOCK_ELEMENTS / 16; ++sub) {
            float w[16];
            decode16(block, sub, w);
            const float *xs = x + b * BLOCK_ELEMENTS + sub * 16;
            for (int i = 0; i < 16; ++i)
                sum += w[i] * xs[i];
        }
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
#ifdef TENSOR_SCALE
        out[row] = weights_scale * sums[0];
#else
        out[row] = sums[0];
#endif
}
