// float16 and bfloat16 by their bits: every operation is rounded once, to nearest even; a NaN comes out as 0x7fff.
//
// double holds sums of two and products of any two of these exactly where it matters: what it can't hold of a sum is
// too small to move the result off or over a midpoint, but for bfloat16's product and sum, which __host_sum_odd gives.
#pragma once

// x rounded to `digits` binary digits, of weight 2^(lowest - digits + 1) at least; exponents have no upper end, and what
// is past both formats' largest numbers comes back as it is.
inline double __host_round(double x, int digits, int lowest) {
  int exponent = (int)(__host_bits<unsigned long long>(x) >> 52 & 0x7ff) - 1023;
  if (exponent > 512) return x;
  unsigned long long field = (exponent > lowest ? exponent : lowest) - digits + 53 + 1023;
  double magnet = __host_bits<double>(field << 52 | 1ull << 51);  // an addition rounds at its last digit
  double magnitude = __builtin_fabs(x);
  return __builtin_copysign((magnitude + magnet) - magnet, x);
}

inline unsigned short __host_double_to_half(double x) {
  if (x != x) return 0x7fff;
  double rounded = __builtin_fabs(__host_round(x, 11, -14));
  unsigned short sign = __host_bits<unsigned long long>(x) >> 48 & 0x8000;
  if (rounded >= 0x1p16) return sign | 0x7c00;
  if (rounded < 0x1p-14) return sign | (unsigned short)(rounded * 0x1p24);
  return sign | (unsigned short)((__host_bits<unsigned>((float)rounded) >> 13) - (112u << 10));
}

inline unsigned short __host_double_to_bfloat(double x) {
  if (x != x) return 0x7fff;
  return __host_bits<unsigned>((float)__host_round(x, 8, -126)) >> 16;
}

inline float __host_bfloat_to_float(unsigned short bits) { return __host_bits<float>((unsigned)bits << 16); }

// a + b to the odd neighbour where double doesn't hold it, so that a later rounding is the only one.
inline double __host_sum_odd(double a, double b) {
  double sum = a + b, of_b = sum - a, rest = (a - (sum - of_b)) + (b - of_b);
  unsigned long long bits = __host_bits<unsigned long long>(sum);
  if (!(rest < 0 || rest > 0) || bits & 1) return sum;
  return __host_bits<double>((rest > 0) == (sum > 0) ? bits + 1 : bits - 1);
}

inline unsigned short __host_half_fma(unsigned short a, unsigned short b, unsigned short c) {
  double product = (double)__host_half_to_float(a) * __host_half_to_float(b);
  return __host_double_to_half(product + __host_half_to_float(c));
}
inline unsigned short __host_half_sub(unsigned short a, unsigned short b) {
  return __host_double_to_half((double)__host_half_to_float(a) - __host_half_to_float(b));
}

// Pairs of float16 in a word, the low one first, as the f16x2 instructions take them.
inline unsigned __host_halves_of(float low, float high) {
  return __host_double_to_half(low) | (unsigned)__host_double_to_half(high) << 16;
}
inline unsigned __host_halves_fma(unsigned a, unsigned b, unsigned c) {
  return __host_half_fma(a, b, c) | (unsigned)__host_half_fma(a >> 16, b >> 16, c >> 16) << 16;
}
inline unsigned __host_halves_sub(unsigned a, unsigned b) {
  return __host_half_sub(a, b) | (unsigned)__host_half_sub(a >> 16, b >> 16) << 16;
}
