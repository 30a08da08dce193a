// A warp's matrix product, D = A * B + C, as PTX documents its fragments: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32.
//
// Lane l has rows l / 4 and l / 4 + 8 of A and of C, and column l / 4 of B. Elements 2i and 2i + 1 of its A are row
// l / 4 + 8 * (i % 2), two neighbours from column 2 * (l % 4) + 8 * (i / 2) on; those of its B two neighbours from row
// 2 * (l % 4) + 8 * i on; its sums are columns 2 * (l % 4) and the next, of the first row and then of the second.
#pragma once

struct __host_fragments { float sums[4], a[8], b[4]; };  // of one lane; what was float16 is exact here

extern "C" void __host_multiply(__host_fragments *mine, int line);

// For all lanes at once. Products of float16 are exact in float32; which order they are added in is not documented, and
// here it is that of the columns of A, from C on. Contraction must be off.
inline void __host_multiply_all(__host_fragments *const *lanes) {
  float a[16][16], b[16][8];
  for (unsigned lane = 0; lane < 32; lane++)
    for (unsigned at = 0; at < 8; at++) {
      a[lane / 4 + at / 2 % 2 * 8][lane % 4 * 2 + at / 4 * 8 + at % 2] = lanes[lane]->a[at];
      if (at < 4) b[lane % 4 * 2 + at / 2 * 8 + at % 2][lane / 4] = lanes[lane]->b[at];
    }
  for (unsigned row = 0; row < 16; row++) {
    float sums[8];
    for (unsigned column = 0; column < 8; column++)
      sums[column] = lanes[row % 8 * 4 + column / 2]->sums[row / 8 * 2 + column % 2];
    for (unsigned k = 0; k < 16; k++)
      for (unsigned column = 0; column < 8; column++) sums[column] += a[row][k] * b[k][column];
    for (unsigned column = 0; column < 8; column++)
      lanes[row % 8 * 4 + column / 2]->sums[row / 8 * 2 + column % 2] = sums[column];
  }
}
