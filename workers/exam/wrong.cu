// out = gate * up, where silu_mul wants gate / (1 + exp(-gate)) * up: wrong at every element, on purpose.
__global__ void wrong(const float *gate, const float *up, float *out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = gate[i] * up[i];
}
