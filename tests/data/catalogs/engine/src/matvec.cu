// Whole-number dot products: x is quantized once into scratch, then a warp per row multiplies bytes by bytes.
#include "blocks.cuh"
#include <q8_1.cuh>

namespace engine {

__global__ void quantize_x(const float *__restrict__ x, Activations *__restrict__ out, int blocks) {
    const int block = blockIdx.x * blockDim.y + threadIdx.y;
    if (block < blocks)
        quantize(x + block * 32, out + block, threadIdx.x);
}

template <int BYTES, int WARPS>
__global__ void __launch_bounds__(32 * WARPS)
matvec(const uint8_t *__restrict__ weights, const Activations *__restrict__ x, float *__restrict__ out, int rows,
       int blocks, int64_t row_bytes) {
    const int row = blockIdx.x * WARPS + threadIdx.y;
    if (row >= rows)
        return;
    const Block<BYTES> *from = reinterpret_cast<const Block<BYTES> *>(weights + row * row_bytes);
    float sum = 0.0f;
    for (int b = threadIdx.x; b < blocks; b += 32) {
        int dot = 0;
        for (int i = 0; i < 32; i++)
            dot += from[b].q(i) * x[b].q[i];
        sum += from_half(from[b].d[0] | from[b].d[1] << 8) * from_half(x[b].d) * (float)dot;
    }
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (threadIdx.x == 0)
        out[row] = sum;
}

} // namespace engine
