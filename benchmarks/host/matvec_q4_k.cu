// y = W x for Q4_K rows: one warp per row, one 4-byte quant word per lane and block.
__device__ __forceinline__ float half_at(const unsigned char *p) {
    return __host_half_to_float((unsigned short)(p[0] | p[1] << 8));
}

__device__ __forceinline__ void scale_min(const unsigned char *s, int j, float &scale, float &minimum) {
    if (j < 4) {
        scale = s[j] & 63;
        minimum = s[j + 4] & 63;
    } else {
        scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
        minimum = (s[j + 4] >> 4) | (s[j] >> 6) << 4;
    }
}

extern "C" __global__ void __launch_bounds__(256)
matvec_q4_k(const unsigned char *__restrict__ weights, const float *__restrict__ x, float *__restrict__ out, int rows,
            int cols) {
    const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    const int blocks = cols / 256, group = lane / 8, within = 4 * lane % 32;
    float sum = 0.0f;
    for (int b = 0; b < blocks; ++b) {
        const unsigned char *block = weights + ((long long)row * blocks + b) * 144;
        const float d = half_at(block), dmin = half_at(block + 2);
        float s0, m0, s1, m1;
        scale_min(block + 4, 2 * group, s0, m0);
        scale_min(block + 4, 2 * group + 1, s1, m1);
        const unsigned int word = *(const unsigned int *)(block + 16 + 4 * lane);
        const float *xs = x + b * 256 + group * 64 + within;
        for (int i = 0; i < 4; ++i) {
            const unsigned int byte = word >> (8 * i) & 0xff;
            sum += (d * s0 * (float)(byte & 15) - dmin * m0) * xs[i];
            sum += (d * s1 * (float)(byte >> 4) - dmin * m1) * xs[i + 32];
        }
    }
    for (int delta = 16; delta > 0; delta /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, delta);
    if (lane == 0)
        out[row] = sum;
}
