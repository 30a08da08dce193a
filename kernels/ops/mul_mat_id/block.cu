// out[slot, row] = sum over cols of W[ids[slot], row, col] * x[slot / slots_per_x, col], slots counted over all tokens.
// A thread block per output element, whose number is that of the block; thread t takes super-blocks t, t + THREADS, ...
extern "C" __global__ void ENTRY(const unsigned char *weights, const float *x, const int *ids, float *out, int rows,
#ifdef TENSOR_SCALE
                                 int cols, int slots_per_x, long long row_bytes, long long expert_bytes,
                                 float weights_scale) {
#else
                                 int cols, int slots_per_x, long long row_bytes, long long expert_bytes) {
#endif
    extern __shared__ float sums[];
    const int slot = blockIdx.x / rows;
    const int row = blockIdx.x % rows;
    const int blocks = cols / BLOCK_ELEMENTS;
    const unsigned char *row_start = weights + ids[slot] * expert_bytes + row * row_bytes;
    const float *slot_x = x + (long long)(slot / slots_per_x) * cols;
    float sum = 0.0f;
    for (int b = threadIdx.x; b < blocks; b += THREADS) {
        const unsigned char *block = row_start + (long long)b * BLOCK_BYTES;
        for (int sub = 0; sub < BLOCK_ELEMENTS / 16; ++sub) {
            float w[16];
            decode16(block, sub, w);
            const float *xs = slot_x + b * BLOCK_ELEMENTS + sub * 16;
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
        out[blockIdx.x] = weights_scale * sums[0];
#else
        out[blockIdx.x] = sums[0];
#endif
}
