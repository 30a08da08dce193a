// Two float16 in a word, the low one first. The instructions need sm_53; the host computes the same bits.

__device__ __forceinline__ unsigned int halves_of(float low, float high) {
#ifdef __CUDA_ARCH__
    unsigned short low_bits, high_bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(low_bits) : "f"(low));
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(high_bits) : "f"(high));
    return low_bits | (unsigned int)high_bits << 16;
#else
    return __host_halves_of(low, high);
#endif
}

__device__ __forceinline__ unsigned int halves_sub(unsigned int a, unsigned int b) {
#ifdef __CUDA_ARCH__
    unsigned int difference;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(difference) : "r"(a), "r"(b));
    return difference;
#else
    return __host_halves_sub(a, b);
#endif
}

// a * b + c, rounded once.
__device__ __forceinline__ unsigned int halves_fma(unsigned int a, unsigned int b, unsigned int c) {
#ifdef __CUDA_ARCH__
    unsigned int sum;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
    return sum;
#else
    return __host_halves_fma(a, b, c);
#endif
}
