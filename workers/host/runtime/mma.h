// How a text reaches the warp's matrix product: each lane brings its fragments, and the last to come multiplies for all.
#pragma once

#include "fragments.h"

inline void __host_mma_m16n8k16(float *sums, const unsigned *a, const unsigned *b, int line = __builtin_LINE()) {
  __host_fragments mine;
  for (unsigned i = 0; i < 8; i++) mine.a[i] = __host_half_to_float(a[i / 2] >> i % 2 * 16);
  for (unsigned i = 0; i < 4; i++) mine.b[i] = __host_half_to_float(b[i / 2] >> i % 2 * 16);
  for (unsigned i = 0; i < 4; i++) mine.sums[i] = sums[i];
  __host_multiply(&mine, line);
  for (unsigned i = 0; i < 4; i++) sums[i] = mine.sums[i];
}
