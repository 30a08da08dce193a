#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#error "mma.m16n8k16 needs sm_80"
#endif
// sums += a * b for a warp's 16 rows, 8 tokens and 16 columns, in fragments as PTX documents them.
__device__ __forceinline__ void multiply(float *sums, const unsigned int *a, const unsigned int *b) {
#ifdef __CUDA_ARCH__
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    __host_mma_m16n8k16(sums, a, b);
#endif
}

// Four activations of a token, by one load where they lie for it.
__device__ __forceinline__ float4 four_at(const float *x) {
    if ((unsigned long long)x % 16 == 0)
        return *(const float4 *)x;
    return make_float4(x[0], x[1], x[2], x[3]);
}

// A tile of BK columns into shared memory as float16: a thread decodes a piece of a row, and moves activations in fours.
// Rows and tokens past the end are the last ones again.
__device__ __forceinline__ void stage(const unsigned char *weights, const float *x, int rows, int cols, int batch,
                                      long long row_bytes, int k, unsigned int (*w_tile)[PITCH],
                                      unsigned int (*x_tile)[PITCH]) {
    const int r = threadIdx.x % BM;
    const int piece = threadIdx.x / BM;
    const long long first = (long long)blockIdx.y * BM + r;
    const long long row = first < rows ? first : rows - 1;
    float w[SUB];
    decode16(weights + row * row_bytes + (long long)(k / BLOCK_ELEMENTS) * BLOCK_BYTES, k / SUB % PIECES + piece, w);
    for (int i = 0; i < SUB; i += 8)
        *(uint4 *)&w_tile[r][piece * (SUB / 2) + i / 2] =
            make_uint4(halves_of(w[i], w[i + 1]), halves_of(w[i + 2], w[i + 3]), halves_of(w[i + 4], w[i + 5]),
                       halves_of(w[i + 6], w[i + 7]));
    for (int at = threadIdx.x; at < BN * (BK / 4); at += THREADS) {
        const int t = at / (BK / 4);
        const int c = at % (BK / 4) * 4;
        const long long first = (long long)blockIdx.x * BN + t;
        const long long token = first < batch ? first : batch - 1;
        const float4 four = four_at(x + token * cols + k + c);
        x_tile[t][c / 2] = halves_of(four.x, four.y);
        x_tile[t][c / 2 + 1] = halves_of(four.z, four.w);
    }
}

// out[token * rows + row] = sum over cols of W[row, col] * x[token, col]; a BM x BN tile of rows and tokens per thread
// block, BK columns at a time, the next ones staged in the other half of shared memory while these are multiplied. A warp
// has WM x WN of the tile, in fragments of 16 rows and 8 tokens.
extern "C" __global__ void ENTRY(const unsigned char *weights, const float *x, float *out, int rows, int cols,
#ifdef TENSOR_SCALE
                                 int batch, long long row_bytes, float weights_scale) {
#else
                                 int batch, long long row_bytes) {
#endif
    __shared__ __align__(16) unsigned int w_tiles[2][BM][PITCH];  // [half][row][pair of columns]
    __shared__ __align__(16) unsigned int x_tiles[2][BN][PITCH];  // [half][token][pair of columns]
    const int lane = threadIdx.x % WARP;
    const int warp = threadIdx.x / WARP;
    const int my_row = warp % (BM / WM) * WM + lane / 4;
    const int my_token = warp / (BM / WM) * WN;
    float sums[WM / 16][WN / 8][4];
    for (int m = 0; m < WM / 16; ++m)
        for (int n = 0; n < WN / 8; ++n)
            for (int i = 0; i < 4; ++i)
                sums[m][n][i] = 0.0f;

    stage(weights, x, rows, cols, batch, row_bytes, 0, w_tiles[0], x_tiles[0]);
    __syncthreads();
    for (int k = 0; k < cols; k += BK) {
        const int half = k / BK % 2;
        if (k + BK < cols)
            stage(weights, x, rows, cols, batch, row_bytes, k + BK, w_tiles[1 - half], x_tiles[1 - half]);
        for (int pair = lane % 4; pair < BK / 2; pair += 8) {
            unsigned int a[WM / 16][4];
            for (int m = 0; m < WM / 16; ++m)
                for (int i = 0; i < 4; ++i)
                    a[m][i] = w_tiles[half][my_row + 16 * m + i % 2 * 8][pair + i / 2 * 4];
            for (int n = 0; n < WN / 8; ++n) {
                const unsigned int *of_token = x_tiles[half][my_token + 8 * n + lane / 4];
                const unsigned int b[2] = {of_token[pair], of_token[pair + 4]};
                for (int m = 0; m < WM / 16; ++m)
                    multiply(sums[m][n], a[m], b);
            }
        }
        __syncthreads();
    }

    for (int m = 0; m < WM / 16; ++m)
        for (int n = 0; n < WN / 8; ++n)
            for (int i = 0; i < 4; ++i) {
                const long long token = (long long)blockIdx.x * BN + my_token + 8 * n + lane % 4 * 2 + i % 2;
                const long long row = (long long)blockIdx.y * BM + my_row + 16 * m + i / 2 * 8;
                if (token < batch && row < rows)
#ifdef TENSOR_SCALE
                    out[token * rows + row] = weights_scale * sums[m][n][i];
#else
                    out[token * rows + row] = sums[m][n][i];
#endif
            }
}
