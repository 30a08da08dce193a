// Adds d * (q - 8) * x over a block's 32 weights to `sum`, in the order of the nibbles: 0 4 1 5 2 6 3 7 in a word.
__device__ __forceinline__ float add_block(const unsigned char *quants, float d, const float *x, float sum) {
    const uint4 four = *(const uint4 *)quants;
    const unsigned int words[4] = {four.x, four.y, four.z, four.w};
    for (int w = 0; w < 4; ++w)
        for (int i = 0; i < 8; ++i) {
            const int q = (int)(words[w] >> (4 * i) & 0xFu) - 8;
            sum += d * (float)q * x[8 * w + i % 2 * 4 + i / 2];
        }
    return sum;
}
