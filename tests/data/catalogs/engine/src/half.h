// float16 by its bits, both ways.
#pragma once
#include <cuda_fp16.h>
#include <stdint.h>

__device__ inline float from_half(uint16_t bits) { return __half2float(__ushort_as_half(bits)); }

__device__ inline uint16_t to_half(float value) { return __half_as_ushort(__float2half_rn(value)); }
