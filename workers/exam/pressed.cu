// out = gate / (1 + exp(-gate)) * up, by lanes that hold a value in every register while others have their turn. Where the
// host's switch between lanes forgets a register, one of the values is another's, and so is the output.
#if defined(__CUDA_ARCH__)
#define HOLD_WORD(v)
#define HOLD_FLOAT(v)
#elif defined(__AVX512F__)
#define HOLD_WORD(v) __asm__ volatile("" : "+r"(v));
#define HOLD_FLOAT(v) __asm__ volatile("" : "+v"(v));
#define HOLD_MASK(v) __asm__ volatile("" : "+k"(v));
#elif defined(__x86_64__)
#define HOLD_WORD(v) __asm__ volatile("" : "+r"(v));
#define HOLD_FLOAT(v) __asm__ volatile("" : "+x"(v));
#else
#define HOLD_WORD(v) __asm__ volatile("" : "+r"(v));
#define HOLD_FLOAT(v) __asm__ volatile("" : "+w"(v));
#endif
#ifndef HOLD_MASK
#define HOLD_MASK(v)
#endif

#define EIGHT(DO, k) DO(k##0) DO(k##1) DO(k##2) DO(k##3) DO(k##4) DO(k##5) DO(k##6) DO(k##7)
#define WORDS(DO) EIGHT(DO, 1) EIGHT(DO, 2) EIGHT(DO, 3) EIGHT(DO, 4)
#define FLOATS(DO) EIGHT(DO, 1) EIGHT(DO, 2) EIGHT(DO, 3) EIGHT(DO, 4)
#define MASKS(DO) EIGHT(DO, 1)

#define WORD(k) (0x3F800000u + (unsigned int)(i * 64 + k))
#define BEGIN_WORD(k) unsigned int word##k = WORD(k);
#define KEEP_WORD(k) HOLD_WORD(word##k)
#define COUNT_WORD(k) wrong += word##k != WORD(k);
#define BEGIN_FLOAT(k) float float##k = __uint_as_float(WORD(k));
#define KEEP_FLOAT(k) HOLD_FLOAT(float##k)
#define COUNT_FLOAT(k) wrong += __float_as_uint(float##k) != WORD(k);
#define BEGIN_MASK(k) unsigned short mask##k = (unsigned short)WORD(k);
#define KEEP_MASK(k) HOLD_MASK(mask##k)
#define COUNT_MASK(k) wrong += mask##k != (unsigned short)WORD(k);

// Shuffles and barriers, with the values held before and behind each.
#define TAKE_TURNS(KEEP)                                                                  \
    for (int step = 16; step > 0; step /= 2) {                                            \
        KEEP                                                                              \
        wrong += __shfl_xor_sync(0xffffffffu, threadIdx.x, step) != (threadIdx.x ^ step); \
        KEEP                                                                              \
        __syncthreads();                                                                  \
    }                                                                                     \
    KEEP

__global__ void pressed(const float *gate, const float *up, float *out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    int wrong = 0;
    {
        WORDS(BEGIN_WORD)
        TAKE_TURNS(WORDS(KEEP_WORD))
        WORDS(COUNT_WORD)
    }
    {
        FLOATS(BEGIN_FLOAT)
        TAKE_TURNS(FLOATS(KEEP_FLOAT))
        FLOATS(COUNT_FLOAT)
    }
    {
        MASKS(BEGIN_MASK)
        TAKE_TURNS(MASKS(KEEP_MASK))
        MASKS(COUNT_MASK)
    }
    if (i < n)
        out[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i] + (float)wrong;
}
