// bfloat16 for CUDA text that is executed on the CPU: what text commonly uses of NVIDIA's header of this name.
#pragma once

#include "../small_floats.h"

struct __host_bfloat_format {
  static unsigned short narrow(double x) { return __host_double_to_bfloat(x); }
  static float widen(unsigned short bits) { return __host_bfloat_to_float(bits); }
  static double sum(double a, double b) { return __host_sum_odd(a, b); }
};
typedef __host_small<__host_bfloat_format> __nv_bfloat16;
typedef __host_pair<__host_bfloat_format> __nv_bfloat162;
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;
template <> struct __host_type_of<__nv_bfloat16> { static constexpr __host_type value = {"bf16", 0, 0}; };
template <> struct __host_type_of<__nv_bfloat162> { static constexpr __host_type value = {"bf16x2", 0, 0}; };

inline __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
inline __nv_bfloat16 __float2bfloat16_rn(float x) { return __nv_bfloat16(x); }
inline __nv_bfloat16 __double2bfloat16(double x) { return __nv_bfloat16(x); }
inline __nv_bfloat16 __int2bfloat16_rn(int x) { return __nv_bfloat16(x); }
inline __nv_bfloat16 __uint2bfloat16_rn(unsigned x) { return __nv_bfloat16(x); }
inline float __bfloat162float(__nv_bfloat16 a) { return a.wide(); }
inline int __bfloat162int_rn(__nv_bfloat16 a) {
  return __host_saturated<int>(__builtin_rintf(a.wide()), -0x1p31f, 0x1p31f);
}
inline int __bfloat162int_rz(__nv_bfloat16 a) { return __host_saturated<int>(a.wide(), -0x1p31f, 0x1p31f); }

inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 a) { return a.__x; }
inline short __bfloat16_as_short(__nv_bfloat16 a) { return (short)a.__x; }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return __nv_bfloat16::of(bits); }
inline __nv_bfloat16 __short_as_bfloat16(short bits) { return __nv_bfloat16::of((unsigned short)bits); }

inline __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 a) { return {a, a}; }
inline __nv_bfloat162 __float2bfloat162_rn(float x) { return {__nv_bfloat16(x), __nv_bfloat16(x)}; }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {__nv_bfloat16(x), __nv_bfloat16(y)}; }
inline __nv_bfloat162 __float22bfloat162_rn(float2 v) { return {__nv_bfloat16(v.x), __nv_bfloat16(v.y)}; }
inline float2 __bfloat1622float2(__nv_bfloat162 a) { return make_float2(a.x.wide(), a.y.wide()); }
inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 a) { return a.x; }
inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 a) { return a.y; }
inline __nv_bfloat162 __low2bfloat162(__nv_bfloat162 a) { return {a.x, a.x}; }
inline __nv_bfloat162 __high2bfloat162(__nv_bfloat162 a) { return {a.y, a.y}; }
inline __nv_bfloat162 __lows2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) { return {a.x, b.x}; }
inline __nv_bfloat162 __highs2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) { return {a.y, b.y}; }
