// The four bytes at p, from staged blocks: where blocks have an even size, all that is read this way is at even places.
#if EVEN
__device__ __forceinline__ unsigned int staged_at(const unsigned char *p) {
    return pair_at(p) | pair_at(p + 2) << 16;
}
#define bytes_at staged_at
#endif
