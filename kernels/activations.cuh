// Activations of 16 bits, which a body reads as if they were floats: each becomes one where it is used.

struct f16 {
    unsigned short bits;
    __device__ __forceinline__ operator float() const { return half_bits_to_float(bits); }
};

struct bf16 {
    unsigned short bits;
    __device__ __forceinline__ operator float() const { return bits_to_float((unsigned int)bits << 16); }
};
