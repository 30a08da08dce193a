// A wild write, on purpose: the process that runs it must go, and nothing else.
__global__ void crash(const float *gate, const float *up, float *out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = gate[i] * up[i];
    if (i == 0)
        *(volatile int *)16 = 1;
}
