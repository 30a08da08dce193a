// Lets a C++ compiler read CUDA C text as it is: built-in variables, vector types, intrinsics and launch glue.
//
// No standard header is included: the text may bring its own typedefs, and a small header keeps a build short.
// __CUDA_ARCH__ stays undefined, so text can tell this build from a GPU's.
#pragma once

#define __global__
#define __device__
#define __host__
#define __constant__
// Aligned since text reads float arrays as float4; used, lest a compiler that sees all accesses keep it in registers.
#define __shared__ static thread_local __attribute__((aligned(16), used))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)
#define __grid_constant__

typedef decltype(sizeof(0)) size_t;

#include "thread.h"

#ifdef FARM_CHECK
#include "called.h"
#else
#define threadIdx (__host_self()->index)
#define blockIdx (__host_self()->warp->block->block_index)
#define blockDim (__host_self()->warp->block->block_dim)
#define gridDim (__host_self()->warp->block->grid_dim)
#define HOST_LANE (__host_self()->lane)
#define HOST_DYNAMIC_SHARED (__host_self()->warp->block->dynamic_shared)
#define HOST_BARRIER __host_barrier
#define HOST_SHUFFLE __host_shuffle
#define HOST_SYNC_WARP(mask, line) __host_shuffle(mask, 0, 0, line)
#define HOST_UNCHECKED
#define HOST_COPIED(...)
#endif
#define warpSize 32

#define HOST_VECTOR(type, base, bytes2, bytes4)                                                     \
  struct base##1 { type x; };                                                                       \
  struct __align__(bytes2) base##2 { type x, y; HOST_COPIED(base##2, type, x, y) };                  \
  struct __align__(bytes4) base##4 { type x, y, z, w; HOST_COPIED(base##4, type, x, y, z, w) };      \
  inline base##1 make_##base##1(type x) { return {x}; }                                             \
  inline base##2 make_##base##2(type x, type y) { return {x, y}; }                                  \
  inline base##4 make_##base##4(type x, type y, type z, type w) { return {x, y, z, w}; }
HOST_VECTOR(signed char, char, 2, 4)
HOST_VECTOR(unsigned char, uchar, 2, 4)
HOST_VECTOR(short, short, 4, 8)
HOST_VECTOR(unsigned short, ushort, 4, 8)
HOST_VECTOR(int, int, 8, 16)
HOST_VECTOR(unsigned int, uint, 8, 16)
HOST_VECTOR(long long, longlong, 16, 16)
HOST_VECTOR(unsigned long long, ulonglong, 16, 16)
HOST_VECTOR(float, float, 8, 16)
HOST_VECTOR(double, double, 16, 16)
#undef HOST_VECTOR
struct int3 { int x, y, z; };
struct float3 { float x, y, z; };
inline int3 make_int3(int x, int y, int z) { return {x, y, z}; }
inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
inline float3 make_float3(float x, float y, float z) { return {x, y, z}; }

__forceinline__ void __syncthreads(int line = __builtin_LINE()) { HOST_BARRIER(line); }
__forceinline__ void __syncwarp(unsigned mask = 0xffffffffu, int line = __builtin_LINE()) { HOST_SYNC_WARP(mask, line); }
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
[[noreturn]] inline void __trap(int line = __builtin_LINE()) { __host_trap("__trap()", line); }
#ifndef assert
#define assert(claim) ((claim) ? (void)0 : __host_trap("assert(" #claim ")", __LINE__))
#endif

// ---- warp functions ----------------------------------------------------------------------------------------

template <class T> __forceinline__ T __host_shuffle_as(unsigned mask, T value, unsigned source, int line) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8, "a shuffle moves 2, 4 or 8 bytes");
  unsigned words[(sizeof(T) + 3) / 4] = {};
  __builtin_memcpy(words, &value, sizeof(T));
  for (unsigned i = 0; i < (sizeof(T) + 3) / 4; i++) words[i] = HOST_SHUFFLE(mask, words[i], source, line);
  __builtin_memcpy(&value, words, sizeof(T));
  return value;
}
template <class T>
__forceinline__ T __shfl_sync(unsigned mask, T value, int source, int width = 32, int line = __builtin_LINE()) {
  unsigned base = HOST_LANE & ~(width - 1u);
  return __host_shuffle_as(mask, value, base | (source & (width - 1u)), line);
}
template <class T>
__forceinline__ T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, int line = __builtin_LINE()) {
  unsigned lane = HOST_LANE, inside = (lane & (width - 1u)) + delta;
  return __host_shuffle_as(mask, value, inside < (unsigned)width ? lane + delta : lane, line);
}
template <class T>
__forceinline__ T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, int line = __builtin_LINE()) {
  unsigned lane = HOST_LANE, inside = lane & (width - 1u);
  return __host_shuffle_as(mask, value, inside >= delta ? lane - delta : lane, line);
}
template <class T>
__forceinline__ T __shfl_xor_sync(unsigned mask, T value, int flip, int width = 32, int line = __builtin_LINE()) {
  unsigned lane = HOST_LANE, source = lane ^ flip, end = (lane & ~(width - 1u)) + width;
  return __host_shuffle_as(mask, value, source < end ? source : lane, line);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  return __host_ballot(mask, predicate, line);
}
inline int __any_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  return __host_ballot(mask, predicate, line) != 0;
}
inline int __all_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  return __host_ballot(mask, !predicate, line) == 0;
}

// ---- arithmetic --------------------------------------------------------------------------------------------

template <class To, class From> inline To __host_bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "a change of type, not of size");
  To to;
  __builtin_memcpy(&to, &from, sizeof(to));
  return to;
}
inline int __float_as_int(float x) { return __host_bits<int>(x); }
inline unsigned __float_as_uint(float x) { return __host_bits<unsigned>(x); }
inline float __int_as_float(int x) { return __host_bits<float>(x); }
inline float __uint_as_float(unsigned x) { return __host_bits<float>(x); }

// Stands in the way of contraction: the _rn functions are rounded by themselves in every build.
inline float __host_rounded(float x) {
#if defined(__x86_64__)
  __asm__("" : "+x"(x));
#else
  __asm__("" : "+w"(x));
#endif
  return x;
}
inline float __fadd_rn(float a, float b) { return __host_rounded(a + b); }
inline float __fsub_rn(float a, float b) { return __host_rounded(a - b); }
inline float __fmul_rn(float a, float b) { return __host_rounded(a * b); }
inline float __fdiv_rn(float a, float b) { return __host_rounded(a / b); }
inline float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }
inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline float __fdividef(float a, float b) { return a / b; }

// As C declares them, so that a text may include <cmath> too; the compiler knows them, and all of these are exact.
extern "C" {
float fmaf(float a, float b, float c) noexcept;
float sqrtf(float x) noexcept;
float fabsf(float x) noexcept;
float floorf(float x) noexcept;
float ceilf(float x) noexcept;
float truncf(float x) noexcept;
float rintf(float x) noexcept;
float nearbyintf(float x) noexcept;
float roundf(float x) noexcept;
float fmodf(float x, float y) noexcept;
float copysignf(float x, float y) noexcept;
int abs(int x) noexcept;
}
inline float rsqrtf(float x) { return (float)(1.0 / __builtin_sqrt((double)x)); }
#define expf(x) __host_expf(x)   // a macro: the compiler would fold the expf it knows, with another rounding
#define __expf(x) __host_expf(x)
#define isnan(x) __builtin_isnan(x)
#define isinf(x) __builtin_isinf(x)

// PTX: the operand that is a number wins over NaN, and +0 is above -0.
extern "C" inline float fmaxf(float a, float b) noexcept {
  if (a == b) return __uint_as_float(__float_as_uint(a) & __float_as_uint(b));
  return a != a ? b : b != b ? a : a > b ? a : b;
}
extern "C" inline float fminf(float a, float b) noexcept {
  if (a == b) return __uint_as_float(__float_as_uint(a) | __float_as_uint(b));
  return a != a ? b : b != b ? a : a < b ? a : b;
}
#define HOST_MIN_MAX(type)                                                       \
  inline type min(type a, type b) { return b < a ? b : a; }                      \
  inline type max(type a, type b) { return a < b ? b : a; }
HOST_MIN_MAX(int)
HOST_MIN_MAX(unsigned)
HOST_MIN_MAX(long)
HOST_MIN_MAX(unsigned long)
HOST_MIN_MAX(long long)
HOST_MIN_MAX(unsigned long long)
#undef HOST_MIN_MAX
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }

// The conversions saturate and turn NaN into 0, as the GPU's do.
inline int __float2int_rn(float x) {
  return x != x ? 0 : x >= 0x1p31f ? 0x7fffffff : x < -0x1p31f ? (int)0x80000000u : (int)__builtin_rintf(x);
}
inline float __int2float_rn(int x) { return (float)x; }
inline float __uint2float_rn(unsigned x) { return (float)x; }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  unsigned long long bytes = (unsigned long long)b << 32 | a;
  unsigned out = 0;
  for (int i = 0; i < 4; i++) {
    unsigned pick = selector >> (4 * i) & 0xf, byte = bytes >> (8 * (pick & 7)) & 0xff;
    if (pick & 8) byte = byte & 0x80 ? 0xff : 0;
    out |= byte << (8 * i);
  }
  return out;
}
inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 32; i += 8) c += (signed char)(a >> i) * (signed char)(b >> i);
  return c;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 32; i += 8) c += (a >> i & 0xff) * (b >> i & 0xff);
  return c;
}

// The value of an IEEE half given by its bits: exact, subnormals and infinities included; a NaN stays one.
inline float __host_half_to_float(unsigned short bits) {
#if defined(__F16C__)
  typedef short halves __attribute__((vector_size(16)));
  return __builtin_ia32_vcvtph2ps((halves){(short)bits})[0];
#elif defined(__aarch64__)
  __fp16 half;
  __builtin_memcpy(&half, &bits, sizeof(half));
  return (float)half;
#else
  unsigned sign = (bits & 0x8000u) << 16, rest = bits & 0x7fffu;
  if (rest >= 0x7c00u) return __uint_as_float(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  if (rest < 0x0400u) return __uint_as_float(sign | __float_as_uint((float)rest * 0x1p-24f));
  return __uint_as_float(sign | ((rest << 13) + (112u << 23)));
#endif
}

#include "halves.h"
#include "mma.h"

// ---- memory ------------------------------------------------------------------------------------------------

template <class T> inline T __ldg(const T *address) { return *address; }

#define HOST_ATOMICS(type)                                                                                        \
  inline type atomicAdd(type *at, type by) { return __atomic_fetch_add(at, by, __ATOMIC_RELAXED); }               \
  inline type atomicOr(type *at, type by) { return __atomic_fetch_or(at, by, __ATOMIC_RELAXED); }                 \
  inline type atomicAnd(type *at, type by) { return __atomic_fetch_and(at, by, __ATOMIC_RELAXED); }               \
  inline type atomicExch(type *at, type to) { return __atomic_exchange_n(at, to, __ATOMIC_RELAXED); }             \
  inline type atomicCAS(type *at, type from, type to) {                                                           \
    __atomic_compare_exchange_n(at, &from, to, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);                        \
    return from;                                                                                                  \
  }                                                                                                               \
  inline type atomicMax(type *at, type by) {                                                                      \
    type old = __atomic_load_n(at, __ATOMIC_RELAXED);                                                                                           \
    while (old < by && !__atomic_compare_exchange_n(at, &old, by, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}   \
    return old;                                                                                                   \
  }                                                                                                               \
  inline type atomicMin(type *at, type by) {                                                                      \
    type old = __atomic_load_n(at, __ATOMIC_RELAXED);                                                                                           \
    while (by < old && !__atomic_compare_exchange_n(at, &old, by, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}   \
    return old;                                                                                                   \
  }
HOST_ATOMICS(int)
HOST_ATOMICS(unsigned)
HOST_ATOMICS(unsigned long long)
#undef HOST_ATOMICS
inline float atomicAdd(float *at, float by) {
  unsigned *bits = reinterpret_cast<unsigned *>(at), old = __atomic_load_n(bits, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(bits, &old, __float_as_uint(__uint_as_float(old) + by), true,
                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
  return __uint_as_float(old);
}

// ---- launch glue -------------------------------------------------------------------------------------------
// Deduces a kernel's argument types from its function type: they are exported for checking, and each argument is
// read from an 8-byte slot.

struct __host_type { const char *name; int pointer, is_const; };
struct __host_kernel { const char *name; void (*call)(const unsigned long long *slots); const __host_type *types; int count; };

template <class T> struct __host_type_of { static constexpr __host_type value = {"struct", 0, 0}; };
#define HOST_TYPE(type, text) \
  template <> struct __host_type_of<type> { static constexpr __host_type value = {text, 0, 0}; };
HOST_TYPE(void, "void") HOST_TYPE(bool, "bool") HOST_TYPE(char, "i8") HOST_TYPE(signed char, "i8")
HOST_TYPE(unsigned char, "u8") HOST_TYPE(short, "i16") HOST_TYPE(unsigned short, "u16") HOST_TYPE(int, "i32")
HOST_TYPE(unsigned, "u32") HOST_TYPE(long, "i64") HOST_TYPE(unsigned long, "u64") HOST_TYPE(long long, "i64")
HOST_TYPE(unsigned long long, "u64") HOST_TYPE(float, "f32") HOST_TYPE(double, "f64")
HOST_TYPE(float2, "float2") HOST_TYPE(float4, "float4") HOST_TYPE(uint2, "uint2") HOST_TYPE(uint4, "uint4")
HOST_TYPE(int4, "int4") HOST_TYPE(uchar4, "uchar4")
#undef HOST_TYPE
template <class T> struct __host_type_of<T *> {
  static constexpr __host_type value = {__host_type_of<T>::value.name, __host_type_of<T>::value.pointer + 1, 0};
};
template <class T> struct __host_type_of<const T *> {
  static constexpr __host_type value = {__host_type_of<T>::value.name, __host_type_of<T>::value.pointer + 1, 1};
};

template <int...> struct __host_indices {};
template <int N, int... I> struct __host_count : __host_count<N - 1, N - 1, I...> {};
template <int... I> struct __host_count<0, I...> { typedef __host_indices<I...> type; };

template <class F, F *kernel> struct __host_glue;
template <class... A, void (*kernel)(A...)> struct __host_glue<void(A...), kernel> {
  static_assert(((sizeof(A) <= 8) && ...), "a kernel's argument is a pointer or a scalar of at most 8 bytes");
  static constexpr int count = sizeof...(A);
  static constexpr __host_type types[count + 1] = {__host_type_of<A>::value..., {nullptr, 0, 0}};
  template <int... I> HOST_UNCHECKED static void spread(const unsigned long long *slots, __host_indices<I...>) {
    kernel(*reinterpret_cast<const A *>(slots + I)...);
  }
  static void call(const unsigned long long *slots) { spread(slots, typename __host_count<count>::type()); }
};
#define HOST_TEXT(...) #__VA_ARGS__
#define HOST_EXPANDED(...) HOST_TEXT(__VA_ARGS__)
#define HOST_KERNEL(...)                                                                                          \
  {HOST_EXPANDED(__VA_ARGS__), __host_glue<decltype(__VA_ARGS__), __VA_ARGS__>::call, __host_glue<decltype(__VA_ARGS__), __VA_ARGS__>::types, \
   __host_glue<decltype(__VA_ARGS__), __VA_ARGS__>::count},
