// Blocks of 32 activations to q8_1: float16 d, float16 s = d * sum(q), 32 int8 q; x is about d * q. One warp a block,
// BLOCKS of them a thread block. Halves round away from zero. A block with NaN or Inf has that as d, q 0 and NaN as s.

// The float16 nearest to a float; every NaN is 0x7FFF, as the GPU's conversion has it.
__device__ __forceinline__ unsigned int half_bits(float value) {
#ifdef __CUDA_ARCH__
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    return __host_double_to_half(value);
#endif
}

extern "C" __global__ void ENTRY(const float *x, unsigned char *out, int blocks) {
    const int lane = threadIdx.x % WARP;
    const long long b = (long long)blockIdx.x * BLOCKS + threadIdx.x / WARP;
    if (b >= blocks)
        return;
    const float value = x[b * WARP + lane];
    float most = fabsf(value);
    for (int step = WARP / 2; step > 0; step /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, most, step);
        most = other > most || other != other ? other : most;
    }
    const float d = most / 127.0f;
    const float scaled = value * (1.0f / d);  // NaN where d is 0
    const int q = fabsf(scaled) < 128.0f ? (int)roundf(scaled) : 0;
    int sum = q;
    for (int step = WARP / 2; step > 0; step /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, step);
    unsigned char *block = out + b * BLOCK_BYTES;
    block[AT_QS + lane] = (unsigned char)q;
    if (lane == 0)
        *(unsigned int *)block = half_bits(d) | half_bits(d * (float)sum) << 16;
}
