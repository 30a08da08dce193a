// out[token * rows + row] = sum over cols of W[row, col] * x[token, col]; a BM x BN tile of rows and tokens per thread
// block, BK columns at a time. Rows past the end read the last row again and are dropped at the store; tokens past the
// end are zero.
extern "C" __global__ void ENTRY(const unsigned char *weights, const X_TYPE *x, float *out, int rows, int cols,
#ifdef TENSOR_SCALE
                                 int batch, long long row_bytes, float weights_scale) {
#else
                                 int batch, long long row_bytes) {
#endif
    __shared__ __align__(16) float w_tile[BK * BM];  // [column][row]
    __shared__ __align__(16) float x_tile[BK * BN];  // [column][token]
    const int thread = threadIdx.x;
    const long long first_row = (long long)blockIdx.y * BM;
    const long long first_token = (long long)blockIdx.x * BN;
    const int my_row = thread % (BM / TM) * TM;
    const int my_token = thread / (BM / TM) * TN;
    float sums[TN][TM];
    for (int j = 0; j < TN; ++j)
        for (int i = 0; i < TM; ++i)
            sums[j][i] = 0.0f;

    for (int k = 0; k < cols; k += BK) {
        for (int piece = thread; piece < BM * (BK / SUB); piece += THREADS) {
            const int r = piece % BM;
            const int c = piece / BM * SUB;
            const long long row = first_row + r < rows ? first_row + r : rows - 1;
            const unsigned char *block = weights + row * row_bytes + (long long)(k / BLOCK_ELEMENTS) * BLOCK_BYTES;
            float w[SUB];
            decode16(block, (k % BLOCK_ELEMENTS + c) / SUB, w);
            for (int i = 0; i < SUB; ++i)
                w_tile[(c + i) * BM + r] = w[i];
        }
        for (int at = thread; at < BN * BK; at += THREADS) {
            const int c = at % BK;
            const int t = at / BK;
            x_tile[c * BN + t] = first_token + t < batch ? x[(first_token + t) * cols + k + c] : 0.0f;
        }
        __syncthreads();
        for (int c = 0; c < BK; ++c) {
            float w[TM], xs[TN];
            for (int i = 0; i < TM; i += 4) {
                const float4 four = *(const float4 *)&w_tile[c * BM + my_row + i];
                w[i] = four.x, w[i + 1] = four.y, w[i + 2] = four.z, w[i + 3] = four.w;
            }
            for (int j = 0; j < TN; j += 4) {
                const float4 four = *(const float4 *)&x_tile[c * BN + my_token + j];
                xs[j] = four.x, xs[j + 1] = four.y, xs[j + 2] = four.z, xs[j + 3] = four.w;
            }
            for (int j = 0; j < TN; ++j)
                for (int i = 0; i < TM; ++i)
                    sums[j][i] += w[i] * xs[j];
        }
        __syncthreads();
    }

    for (int j = 0; j < TN; ++j)
        for (int i = 0; i < TM; ++i) {
            const long long token = first_token + my_token + j;
            const long long row = first_row + my_row + i;
            if (token < batch && row < rows)
#ifdef TENSOR_SCALE
                out[token * rows + row] = weights_scale * sums[j][i];
#else
                out[token * rows + row] = sums[j][i];
#endif
        }
}
