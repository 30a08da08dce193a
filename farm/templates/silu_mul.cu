// out[i] = gate[i] / (1 + exp(-gate[i])) * up[i]; one thread per element.
__global__ void mine(const float *gate, const float *up, float *out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
}
