// A kernel that never ends, on purpose: its deadline must, from outside.
__global__ void hang(const float *gate, const float *up, float *out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = gate[i] * up[i];
    for (volatile int on = 1; on;) {
    }
}
