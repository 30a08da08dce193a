// A warp's matrix product, D = A * B + C, as PTX documents its fragments: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32.
//
// Lane l has rows l / 4 and l / 4 + 8 of A and of C, and column l / 4 of B. Register i of A is row l / 4 + 8 * (i % 2), two
// neighbours from column 2 * (l % 4) + 8 * (i / 2) on; register i of B two neighbours from row 2 * (l % 4) + 8 * i on;
// C's floats are columns 2 * (l % 4) and the next, of the first row and then of the second. Products of float16 are exact
// in float32; which order they are added in is not documented, and here it is that of the columns of A, from C on.
#pragma once

inline void __host_mma_m16n8k16(float *sums, const unsigned *a, const unsigned *b, int line = __builtin_LINE()) {
  const unsigned all = 0xffffffffu, lane = HOST_LANE;
  unsigned of_a[4][4], of_b[2][2][4];  // [register][lane of the row], [column][register][lane of the column]
  for (unsigned i = 0; i < 4; i++)
    for (unsigned from = 0; from < 4; from++) of_a[i][from] = HOST_SHUFFLE(all, a[i], lane / 4 * 4 + from, line);
  for (unsigned column = 0; column < 2; column++)
    for (unsigned i = 0; i < 2; i++)
      for (unsigned from = 0; from < 4; from++)
        of_b[column][i][from] = HOST_SHUFFLE(all, b[i], (lane % 4 * 2 + column) * 4 + from, line);
  for (unsigned row = 0; row < 2; row++)
    for (unsigned column = 0; column < 2; column++) {
      float sum = sums[2 * row + column];
      for (unsigned k = 0; k < 16; k++) {
        unsigned pair_a = of_a[k / 8 * 2 + row][k % 8 / 2], pair_b = of_b[column][k / 8][k % 8 / 2], shift = k % 2 * 16;
        float product = __host_half_to_float(pair_a >> shift) * __host_half_to_float(pair_b >> shift);
        sum = __host_rounded(sum + product);
      }
      sums[2 * row + column] = sum;
    }
}
