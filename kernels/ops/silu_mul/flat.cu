// out[i] = gate[i] / (1 + exp(-gate[i])) * up[i]; one thread per element.
extern "C" __global__ void ENTRY(const float *gate, const float *up, float *out, int n) {
    const long long i = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (i < n) {
        const float g = gate[i];
        out[i] = g / (1.0f + expf(-g)) * up[i];
    }
}
