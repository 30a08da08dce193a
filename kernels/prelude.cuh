// What every kernel's text may use: little-endian loads at any address, and the f16 conversion.

__device__ __forceinline__ float half_bits_to_float(unsigned short bits) {
#ifdef __CUDA_ARCH__
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
#else
    return __host_half_to_float(bits);
#endif
}

// The float16 at p, which need not be aligned.
__device__ __forceinline__ float half_at(const unsigned char *p) {
    return half_bits_to_float((unsigned short)(p[0] | p[1] << 8));
}

// The four bytes at p as one load; p must be a multiple of 4.
__device__ __forceinline__ unsigned int word_at(const unsigned char *p) {
    return *(const unsigned int *)p;
}

// The same four bytes at any address.
__device__ __forceinline__ unsigned int bytes_at(const unsigned char *p) {
    return p[0] | p[1] << 8 | p[2] << 16 | (unsigned int)p[3] << 24;
}

// The two bytes at p as one load; p must be a multiple of 2.
__device__ __forceinline__ unsigned int pair_at(const unsigned char *p) {
    return *(const unsigned short *)p;
}

// The float with these bits.
__device__ __forceinline__ float bits_to_float(unsigned int bits) {
#ifdef __CUDA_ARCH__
    return __uint_as_float(bits);
#else
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
#endif
}

// Byte i (0..3) of a word, low byte first.
__device__ __forceinline__ unsigned int byte_of(unsigned int word, int i) {
    return word >> (8 * i) & 0xFFu;
}
