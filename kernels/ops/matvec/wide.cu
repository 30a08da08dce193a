// Byte i of a word of signed bytes whose signs were turned over: with 0x4B000000 above it, it is 2^23 + 128 + q.
__device__ __forceinline__ float quant_at(unsigned int turned, int i) {
    return bits_to_float(__byte_perm(turned, 0x4B000000u, 0x7540 + i)) - 8388736.0f;
}

// The sum of a piece's weights times x. The scale's product is rounded by itself: fused with the sum that it is added to,
// it would not overflow where the product does, and an Inf would stand where the order of the additions has a NaN.
__device__ __forceinline__ float piece_sum(const unsigned char *block, int sub, const float *x) {
    float dot = 0.0f;
#ifdef LOW
    int q[PIECE / 4];
    float scale, low, total = 0.0f;
    ints16(block, sub, q, &scale, &low);
    for (int i = 0; i < PIECE; ++i) {
        dot += quant_at((unsigned int)q[i / 4] ^ 0x80808080u, i % 4) * x[i];
        total += x[i];
    }
    return __fadd_rn(__fmul_rn(scale, dot), __fmul_rn(low, total));
#endif
#ifdef INTS
    int q[PIECE / 4];
    float scale;
    ints16(block, sub, q, &scale);
    for (int i = 0; i < PIECE; ++i)
        dot += quant_at((unsigned int)q[i / 4] ^ 0x80808080u, i % 4) * x[i];
    return __fmul_rn(scale, dot);
#endif
#ifdef FLOATS
    float w[PIECE];
    decode16(block, sub, w);
    for (int i = 0; i < PIECE; ++i)
        dot += w[i] * x[i];
    return dot;
#endif
}

// Four activations, by one load where they lie for it.
__device__ __forceinline__ float4 four_at(const float *x) {
    if ((unsigned long long)x % 16 == 0)
        return *(const float4 *)x;
    return make_float4(x[0], x[1], x[2], x[3]);
}

// y[row] = sum over cols of W[row, col] * x[col]; a warp takes ROWS rows, SPAN columns at a time. Its lanes load the
// bytes of all rows into shared memory, 16 at a time, and then take UNIT columns each from there. `split` warps share
// their rows and take spans in turn; the thread block stages the activations of all of them.
extern "C" __global__ void ENTRY(const unsigned char *weights, const float *x, float *out, int rows, int cols,
#ifdef TENSOR_SCALE
                                 long long row_bytes, int split, float weights_scale) {
#else
                                 long long row_bytes, int split) {
#endif
    extern __shared__ uint4 staged[];  // [warp][row][vector], and behind them the activations
    const int lane = threadIdx.x % WARP;
    const int warp = threadIdx.x / WARP;
    const int part = warp % split;
    const int groups = WARPS / split;  // of rows, in a thread block
    uint4 *mine = staged + warp * ROWS * VECTORS;
    float *xs = (float *)(staged + WARPS * ROWS * VECTORS);
    const unsigned char *start = weights + ((long long)blockIdx.x * groups + warp / split) * ROWS * row_bytes;
    const unsigned char *end = weights + (rows - 1) * row_bytes + (long long)(cols / BLOCK_ELEMENTS) * BLOCK_BYTES;
    // Bytes keep their place in a vector as it is in memory, unless that would tear a block's fields apart.
    const int kept = ((unsigned long long)weights | (unsigned long long)row_bytes) & TORN ? 0 : 15;
    float sums[ROWS];
    for (int r = 0; r < ROWS; ++r)
        sums[r] = 0.0f;
    for (int first = 0; first < cols; first += split * SPAN) {
        for (int c = 4 * threadIdx.x; c < split * SPAN && first + c < cols; c += 4 * WARPS * WARP)
            *(float4 *)(xs + c / UNIT * (UNIT + PAD) + c % UNIT) = four_at(x + first + c);
        const int column = first + part * SPAN;
        const unsigned char *from = start + (long long)(column / BLOCK_ELEMENTS) * BLOCK_BYTES;
        const unsigned char *begin[ROWS];  // of a row's first vector
        int phases[ROWS];                  // bytes of it before the span
        for (int r = 0; r < ROWS; ++r) {
            phases[r] = (int)(unsigned long long)(from + r * row_bytes) & kept;
            begin[r] = from + r * row_bytes - phases[r];
        }
        if (kept && begin[0] >= weights && (const uint4 *)begin[ROWS - 1] + VECTORS <= (const uint4 *)end) {
            uint4 loaded[ROWS][LOADS];
            for (int r = 0; r < ROWS; ++r)
                for (int i = 0; i < LOADS; ++i)
                    if (i * WARP + lane < VECTORS)
                        loaded[r][i] = *((const uint4 *)begin[r] + i * WARP + lane);
            for (int r = 0; r < ROWS; ++r)
                for (int i = 0; i < LOADS; ++i)
                    if (i * WARP + lane < VECTORS)
                        mine[r * VECTORS + i * WARP + lane] = loaded[r][i];
        } else
            for (int b = lane; b < ROWS * VECTORS * 16; b += WARP) {
                const unsigned char *at = from + b / (VECTORS * 16) * row_bytes;
                at += b % (VECTORS * 16) - ((unsigned long long)at & kept);
                ((unsigned char *)mine)[b] = at >= weights && at < end ? *at : 0;
            }
        __syncthreads();
        for (int unit = lane; unit < SPAN / UNIT && column + unit * UNIT < cols; unit += WARP) {
            float near[UNIT];
            for (int i = 0; i < UNIT; i += 4) {
                const float4 four = *(const float4 *)(xs + (part * (SPAN / UNIT) + unit) * (UNIT + PAD) + i);
                near[i] = four.x, near[i + 1] = four.y, near[i + 2] = four.z, near[i + 3] = four.w;
            }
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                const unsigned char *block =
                    (const unsigned char *)(mine + r * VECTORS) + phases[r] + unit / UNITS * BLOCK_BYTES;
                if (WHOLE) {
                    const int odd = (int)((unsigned long long)block % 4);
                    const unsigned int *at = (const unsigned int *)(block - odd);
                    unsigned int words[WORDS];
                    for (int i = 0; i < WORDS; ++i)
                        words[i] = (unsigned int)(((unsigned long long)at[i + 1] << 32 | at[i]) >> odd * 8);
                    sums[r] += piece_sum((const unsigned char *)words, 0, near);
                    sums[r] += piece_sum((const unsigned char *)words, 1, near + PIECE);
                } else {
                    block = (const unsigned char *)__builtin_assume_aligned(block, ALIGN);
                    sums[r] += piece_sum(block, unit % UNITS, near);
                }
            }
        }
        __syncthreads();
    }
    float *parts = (float *)staged;
    for (int r = 0; r < ROWS; ++r) {
        for (int step = WARP / 2; step > 0; step /= 2)
            sums[r] += __shfl_down_sync(0xffffffffu, sums[r], step);
        if (lane == 0)
            parts[warp * ROWS + r] = sums[r];
    }
    __syncthreads();
    const int group = threadIdx.x / ROWS;
    const long long row = ((long long)blockIdx.x * groups + group) * ROWS + threadIdx.x % ROWS;
    if (group < groups && row < rows) {
        float total = parts[group * split * ROWS + threadIdx.x % ROWS];
        for (int s = 1; s < split; ++s)
            total += parts[(group * split + s) * ROWS + threadIdx.x % ROWS];
#ifdef TENSOR_SCALE
        out[row] = weights_scale * total;
#else
        out[row] = total;
#endif
    }
}
