// out[row] = x[row] * rsqrt(mean(x[row]^2) + eps) * weights; block per row, thread t takes elements t, t + THREADS, ...
extern "C" __global__ void ENTRY(const float *x, const float *weights, float *out, int n, float eps) {
    __shared__ float sums[THREADS];
    const float *from = x + (long long)blockIdx.x * n;
    float *to = out + (long long)blockIdx.x * n;
    float sum = 0.0f;
    for (long long i = threadIdx.x; i < n; i += THREADS)
        sum += from[i] * from[i];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    const float scale = rsqrtf(sums[0] / (float)n + eps);
    for (long long i = threadIdx.x; i < n; i += THREADS)
        to[i] = from[i] * scale * weights[i];
}
