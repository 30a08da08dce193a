// out[token * rows + row] = W x for Q4_0: a 64 x 128 tile a block, 4 x 8 results a thread, K in steps of 32.
#define BM 64
#define BN 128
#define BK 32
#define TM 4
#define TN 8

extern "C" __global__ void __launch_bounds__(256)
mul_mm_q4_0(const unsigned char *__restrict__ weights, const float *__restrict__ x, float *__restrict__ out, int rows,
            int cols, int batch) {
    __shared__ float tile_w[BK * BM];
    __shared__ float tile_x[BK * BN];
    const int row0 = blockIdx.y * BM, token0 = blockIdx.x * BN, t = threadIdx.x;
    const int tm = t % (BM / TM) * TM, tn = t / (BM / TM) * TN;
    float sum[TM][TN];
    for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j)
            sum[i][j] = 0.0f;
    for (int k0 = 0; k0 < cols; k0 += BK) {
        if (t < 128) {
            const int r = t / 2, half = t % 2, row = min(row0 + r, rows - 1);
            const unsigned char *block = weights + ((long long)row * (cols / 32) + k0 / 32) * 18;
            const float d = __host_half_to_float((unsigned short)(block[0] | block[1] << 8));
            for (int i = 0; i < 16; ++i) {
                const int q = half ? block[2 + i] >> 4 : block[2 + i] & 15;
                tile_w[(half * 16 + i) * BM + r] = d * (float)(q - 8);
            }
        }
        for (int i = t; i < BN * BK; i += 256) {
            const int token = token0 + i / BK, k = i % BK;
            tile_x[k * BN + i / BK] = token < batch ? x[(long long)token * cols + k0 + k] : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < BK; ++k) {
            const float4 w = *(const float4 *)&tile_w[k * BM + tm];
            const float4 a = *(const float4 *)&tile_x[k * BN + tn];
            const float4 b = *(const float4 *)&tile_x[k * BN + tn + 4];
            const float ws[TM] = {w.x, w.y, w.z, w.w};
            const float xs[TN] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
            for (int i = 0; i < TM; ++i)
                for (int j = 0; j < TN; ++j)
                    sum[i][j] += ws[i] * xs[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j)
            if (row0 + tm + i < rows && token0 + tn + j < batch)
                out[(long long)(token0 + tn + j) * rows + row0 + tm + i] = sum[i][j];
}
