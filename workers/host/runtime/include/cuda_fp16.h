// float16 for CUDA text that is executed on the CPU: what text commonly uses of NVIDIA's header of this name.
#pragma once

#include "../small_floats.h"

struct __host_half_format {
  static unsigned short narrow(double x) { return __host_double_to_half(x); }
  static float widen(unsigned short bits) { return __host_half_to_float(bits); }
  static double sum(double a, double b) { return a + b; }
};
typedef __host_small<__host_half_format> __half;
typedef __host_pair<__host_half_format> __half2;
typedef __half half, nv_half;
typedef __half2 half2, nv_half2;
template <> struct __host_type_of<__half> { static constexpr __host_type value = {"f16", 0, 0}; };
template <> struct __host_type_of<__half2> { static constexpr __host_type value = {"f16x2", 0, 0}; };

inline __half __float2half(float x) { return __half(x); }
inline __half __float2half_rn(float x) { return __half(x); }
inline __half __double2half(double x) { return __half(x); }
inline __half __int2half_rn(int x) { return __half(x); }
inline __half __uint2half_rn(unsigned x) { return __half(x); }
inline __half __short2half_rn(short x) { return __half(x); }
inline __half __ushort2half_rn(unsigned short x) { return __half(x); }
inline float __half2float(__half a) { return a.wide(); }
inline int __half2int_rn(__half a) { return __host_saturated<int>(__builtin_rintf(a.wide()), -0x1p31f, 0x1p31f); }
inline int __half2int_rz(__half a) { return __host_saturated<int>(a.wide(), -0x1p31f, 0x1p31f); }
inline unsigned __half2uint_rn(__half a) { return __host_saturated<unsigned>(__builtin_rintf(a.wide()), 0.0f, 0x1p32f); }
inline unsigned __half2uint_rz(__half a) { return __host_saturated<unsigned>(a.wide(), 0.0f, 0x1p32f); }

inline unsigned short __half_as_ushort(__half a) { return a.__x; }
inline short __half_as_short(__half a) { return (short)a.__x; }
inline __half __ushort_as_half(unsigned short bits) { return __half::of(bits); }
inline __half __short_as_half(short bits) { return __half::of((unsigned short)bits); }

inline __half2 make_half2(__half x, __half y) { return {x, y}; }
inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }
inline __half2 __half2half2(__half a) { return {a, a}; }
inline __half2 __float2half2_rn(float x) { return {__half(x), __half(x)}; }
inline __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }
inline __half2 __float22half2_rn(float2 v) { return {__half(v.x), __half(v.y)}; }
inline float2 __half22float2(__half2 a) { return make_float2(a.x.wide(), a.y.wide()); }
inline __half __low2half(__half2 a) { return a.x; }
inline __half __high2half(__half2 a) { return a.y; }
inline __half2 __low2half2(__half2 a) { return {a.x, a.x}; }
inline __half2 __high2half2(__half2 a) { return {a.y, a.y}; }
inline __half2 __lows2half2(__half2 a, __half2 b) { return {a.x, b.x}; }
inline __half2 __highs2half2(__half2 a, __half2 b) { return {a.y, b.y}; }
