// out = x * rsqrt(mean(x^2) + 1e-5) * w, one block.
extern "C" __global__ void rmsnorm(const float *x, const float *w, float *out, int n) {
    __shared__ float sums[256];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += 256)
        sum += x[i] * x[i];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half)
            sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    const float scale = rsqrtf(sums[0] / (float)n + 1e-5f);
    for (int i = threadIdx.x; i < n; i += 256)
        out[i] = x[i] * scale * w[i];
}
