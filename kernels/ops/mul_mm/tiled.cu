// Four activations of a token, by one load where they lie for it.
__device__ __forceinline__ float4 four_at(const float *x) {
    if ((unsigned long long)x % 16 == 0)
        return *(const float4 *)x;
    return make_float4(x[0], x[1], x[2], x[3]);
}

// A tile of BK columns into shared memory: the first half of the threads decodes a row's piece each, the second half
// moves activations, in fours. Rows and tokens past the end are the last ones again.
__device__ __forceinline__ void stage(const unsigned char *weights, const float *x, int rows, int cols, int batch,
                                      long long row_bytes, int k, float (*w_tile)[BM + PAD], float (*x_tile)[BN + PAD]) {
    const int thread = threadIdx.x;
    if (thread < BM) {
        const long long first = (long long)blockIdx.y * BM + thread;
        const long long row = first < rows ? first : rows - 1;
        float w[BK];
        decode16(weights + row * row_bytes + (long long)(k / BLOCK_ELEMENTS) * BLOCK_BYTES, k / BK % PIECES, w);
        for (int c = 0; c < BK; ++c)
            w_tile[c][thread] = w[c];
    } else
        for (int at = thread - BM; at < BN * (BK / 4); at += THREADS - BM) {
            const int t = at / (BK / 4);
            const int c = at % (BK / 4) * 4;
            const long long first = (long long)blockIdx.x * BN + t;
            const long long token = first < batch ? first : batch - 1;
            const float4 four = four_at(x + token * cols + k + c);
            x_tile[c][t] = four.x, x_tile[c + 1][t] = four.y, x_tile[c + 2][t] = four.z, x_tile[c + 3][t] = four.w;
        }
}

// out[token * rows + row] = sum over cols of W[row, col] * x[token, col]; a BM x BN tile of rows and tokens per thread
// block, BK columns at a time, the next ones staged in the other half of shared memory while these are multiplied. A
// thread has two runs of four rows and two of four tokens, half a tile apart: its neighbours then read other banks.
extern "C" __global__ void ENTRY(const unsigned char *weights, const float *x, float *out, int rows, int cols,
#ifdef TENSOR_SCALE
                                 int batch, long long row_bytes, float weights_scale) {
#else
                                 int batch, long long row_bytes) {
#endif
    __shared__ __align__(16) float w_tiles[2][BK][BM + PAD];  // [half][column][row]
    __shared__ __align__(16) float x_tiles[2][BK][BN + PAD];  // [half][column][token]
    const int my_row = threadIdx.x % (BM / 8) * 4;
    const int my_token = threadIdx.x / (BM / 8) * 4;
    float sums[8][8];
    for (int j = 0; j < 8; ++j)
        for (int i = 0; i < 8; ++i)
            sums[j][i] = 0.0f;

    stage(weights, x, rows, cols, batch, row_bytes, 0, w_tiles[0], x_tiles[0]);
    __syncthreads();
    for (int k = 0; k < cols; k += BK) {
        const int half = k / BK % 2;
        if (k + BK < cols)
            stage(weights, x, rows, cols, batch, row_bytes, k + BK, w_tiles[1 - half], x_tiles[1 - half]);
        for (int c = 0; c < BK; ++c) {
            float w[8], xs[8];
            for (int run = 0; run < 2; ++run) {
                const float4 ws = *(const float4 *)&w_tiles[half][c][my_row + run * (BM / 2)];
                w[4 * run] = ws.x, w[4 * run + 1] = ws.y, w[4 * run + 2] = ws.z, w[4 * run + 3] = ws.w;
                const float4 four = *(const float4 *)&x_tiles[half][c][my_token + run * (BN / 2)];
                xs[4 * run] = four.x, xs[4 * run + 1] = four.y, xs[4 * run + 2] = four.z, xs[4 * run + 3] = four.w;
            }
            for (int j = 0; j < 8; ++j)
                for (int i = 0; i < 8; ++i)
                    sums[j][i] += w[i] * xs[j];
        }
        __syncthreads();
    }

    for (int j = 0; j < 8; ++j)
        for (int i = 0; i < 8; ++i) {
            const long long token = (long long)blockIdx.x * BN + my_token + j / 4 * (BN / 2) + j % 4;
            const long long row = (long long)blockIdx.y * BM + my_row + i / 4 * (BM / 2) + i % 4;
            if (token < batch && row < rows)
#ifdef TENSOR_SCALE
                out[token * rows + row] = weights_scale * sums[j][i];
#else
                out[token * rows + row] = sums[j][i];
#endif
        }
}
