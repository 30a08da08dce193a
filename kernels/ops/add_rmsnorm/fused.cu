// v = x + residual; out = v * rsqrt(mean(v^2) + eps) * weights; one block, thread t takes elements t, t + THREADS, ...
extern "C" __global__ void ENTRY(const float *x, const float *residual, const float *weights, float *out, int n,
                                 float eps) {
    __shared__ float sums[THREADS];
    float sum = 0.0f;
    for (long long i = threadIdx.x; i < n; i += THREADS) {
        const float v = x[i] + residual[i];
        sum += v * v;
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    const float scale = rsqrtf(sums[0] / (float)n + eps);
    for (long long i = threadIdx.x; i < n; i += THREADS)
        out[i] = (x[i] + residual[i]) * scale * weights[i];
}
