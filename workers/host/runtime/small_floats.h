// What __half and __nv_bfloat16 have in common: the type, its pair, arithmetic, comparisons, operators, atomics.
//
// An operation takes its operands' floats, exactly, computes in double and rounds once, as halves.h says.
#pragma once

// Format: `narrow` rounds a double to bits, `widen` is the float of bits, `sum` is an addition before a later rounding.
template <class Format> struct __host_small {
  unsigned short __x;

  __host_small() = default;
  __host_small(float x) : __x(Format::narrow(x)) {}
  __host_small(double x) : __x(Format::narrow(x)) {}
  __host_small(short x) : __x(Format::narrow(x)) {}
  __host_small(unsigned short x) : __x(Format::narrow(x)) {}
  __host_small(int x) : __x(Format::narrow(x)) {}
  __host_small(unsigned x) : __x(Format::narrow(x)) {}
  __host_small(long x) : __host_small((long long)x) {}
  __host_small(unsigned long x) : __host_small((unsigned long long)x) {}
  __host_small(long long x) : __x(Format::narrow(Format::sum((double)(x >> 32) * 0x1p32, (double)(unsigned)x))) {}
  __host_small(unsigned long long x) : __x(Format::narrow(Format::sum((double)(x >> 32) * 0x1p32, (double)(unsigned)x))) {}
  operator float() const { return Format::widen(__x); }

  static __host_small of(unsigned short bits) {
    __host_small made;
    made.__x = bits;
    return made;
  }
  static __host_small round(double x) { return of(Format::narrow(x)); }
  float wide() const { return Format::widen(__x); }

  friend __host_small __hadd(__host_small a, __host_small b) { return round((double)a.wide() + b.wide()); }
  friend __host_small __hsub(__host_small a, __host_small b) { return round((double)a.wide() - b.wide()); }
  friend __host_small __hmul(__host_small a, __host_small b) { return round((double)a.wide() * b.wide()); }
  friend __host_small __hdiv(__host_small a, __host_small b) { return round((double)a.wide() / b.wide()); }
  friend __host_small __hfma(__host_small a, __host_small b, __host_small c) {
    return round(Format::sum((double)a.wide() * b.wide(), c.wide()));
  }
  friend __host_small __hadd_rn(__host_small a, __host_small b) { return __hadd(a, b); }
  friend __host_small __hsub_rn(__host_small a, __host_small b) { return __hsub(a, b); }
  friend __host_small __hmul_rn(__host_small a, __host_small b) { return __hmul(a, b); }
  friend __host_small __hneg(__host_small a) { return of(a.__x ^ 0x8000); }
  friend __host_small __habs(__host_small a) { return of(a.__x & 0x7fff); }
  friend __host_small __hmax(__host_small a, __host_small b) { return round(fmaxf(a.wide(), b.wide())); }
  friend __host_small __hmin(__host_small a, __host_small b) { return round(fminf(a.wide(), b.wide())); }
  friend __host_small hsqrt(__host_small a) { return round(__builtin_sqrt((double)a.wide())); }
  friend __host_small hfloor(__host_small a) { return round(__builtin_floorf(a.wide())); }
  friend __host_small hceil(__host_small a) { return round(__builtin_ceilf(a.wide())); }
  friend __host_small htrunc(__host_small a) { return round(__builtin_truncf(a.wide())); }
  friend __host_small hrint(__host_small a) { return round(__builtin_rintf(a.wide())); }

  friend bool __hisnan(__host_small a) { return a.wide() != a.wide(); }
  friend int __hisinf(__host_small a) { return !__builtin_isinf(a.wide()) ? 0 : a.__x & 0x8000 ? -1 : 1; }
  friend bool __heq(__host_small a, __host_small b) { return a.wide() == b.wide(); }
  friend bool __hne(__host_small a, __host_small b) { return __hlt(a, b) || __hgt(a, b); }  // false where one is NaN
  friend bool __hneu(__host_small a, __host_small b) { return a.wide() != b.wide(); }
  friend bool __hlt(__host_small a, __host_small b) { return a.wide() < b.wide(); }
  friend bool __hle(__host_small a, __host_small b) { return a.wide() <= b.wide(); }
  friend bool __hgt(__host_small a, __host_small b) { return a.wide() > b.wide(); }
  friend bool __hge(__host_small a, __host_small b) { return a.wide() >= b.wide(); }

  friend __host_small operator+(__host_small a, __host_small b) { return __hadd(a, b); }
  friend __host_small operator-(__host_small a, __host_small b) { return __hsub(a, b); }
  friend __host_small operator*(__host_small a, __host_small b) { return __hmul(a, b); }
  friend __host_small operator/(__host_small a, __host_small b) { return __hdiv(a, b); }
  friend __host_small &operator+=(__host_small &a, __host_small b) { return a = __hadd(a, b); }
  friend __host_small &operator-=(__host_small &a, __host_small b) { return a = __hsub(a, b); }
  friend __host_small &operator*=(__host_small &a, __host_small b) { return a = __hmul(a, b); }
  friend __host_small &operator/=(__host_small &a, __host_small b) { return a = __hdiv(a, b); }
  friend __host_small operator-(__host_small a) { return __hneg(a); }
  friend bool operator==(__host_small a, __host_small b) { return __heq(a, b); }
  friend bool operator!=(__host_small a, __host_small b) { return __hneu(a, b); }
  friend bool operator<(__host_small a, __host_small b) { return __hlt(a, b); }
  friend bool operator<=(__host_small a, __host_small b) { return __hle(a, b); }
  friend bool operator>(__host_small a, __host_small b) { return __hgt(a, b); }
  friend bool operator>=(__host_small a, __host_small b) { return __hge(a, b); }

  friend __host_small atomicAdd(__host_small *at, __host_small by) {
    unsigned short *bits = &at->__x, old = __atomic_load_n(bits, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(bits, &old, __hadd(of(old), by).__x, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
    return of(old);
  }
};

template <class Format> struct __align__(4) __host_pair {
  typedef __host_small<Format> one;
  one x, y;

#ifdef FARM_CHECK
  HOST_COPIED(__host_pair, one, x, y)
#else
  __host_pair() = default;
  __host_pair(one x, one y) : x(x), y(y) {}
#endif

#define HOST_BY_PARTS(name, of_one)                                                                          \
  friend __host_pair name(__host_pair a, __host_pair b) { return {of_one(a.x, b.x), of_one(a.y, b.y)}; }
#define HOST_COMPARED(name, of_one)                                                                          \
  friend __host_pair name(__host_pair a, __host_pair b) {                                                    \
    return {one(of_one(a.x, b.x) ? 1.0f : 0.0f), one(of_one(a.y, b.y) ? 1.0f : 0.0f)};                        \
  }
  HOST_BY_PARTS(__hadd2, __hadd) HOST_BY_PARTS(__hsub2, __hsub) HOST_BY_PARTS(__hmul2, __hmul)
  HOST_BY_PARTS(__hadd2_rn, __hadd) HOST_BY_PARTS(__hsub2_rn, __hsub) HOST_BY_PARTS(__hmul2_rn, __hmul)
  HOST_BY_PARTS(__h2div, __hdiv) HOST_BY_PARTS(__hmax2, __hmax) HOST_BY_PARTS(__hmin2, __hmin)
  HOST_BY_PARTS(operator+, __hadd) HOST_BY_PARTS(operator-, __hsub)
  HOST_BY_PARTS(operator*, __hmul) HOST_BY_PARTS(operator/, __hdiv)
  HOST_COMPARED(__heq2, __heq) HOST_COMPARED(__hne2, __hne) HOST_COMPARED(__hlt2, __hlt) HOST_COMPARED(__hle2, __hle)
  HOST_COMPARED(__hgt2, __hgt) HOST_COMPARED(__hge2, __hge)
#undef HOST_BY_PARTS
#undef HOST_COMPARED
  friend __host_pair __hfma2(__host_pair a, __host_pair b, __host_pair c) {
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
  }
  friend __host_pair __hneg2(__host_pair a) { return {__hneg(a.x), __hneg(a.y)}; }
  friend __host_pair __habs2(__host_pair a) { return {__habs(a.x), __habs(a.y)}; }
  friend __host_pair h2sqrt(__host_pair a) { return {hsqrt(a.x), hsqrt(a.y)}; }
  friend __host_pair operator-(__host_pair a) { return __hneg2(a); }
  friend __host_pair &operator+=(__host_pair &a, __host_pair b) { return a = __hadd2(a, b); }
  friend __host_pair &operator-=(__host_pair &a, __host_pair b) { return a = __hsub2(a, b); }
  friend __host_pair &operator*=(__host_pair &a, __host_pair b) { return a = __hmul2(a, b); }
  friend __host_pair &operator/=(__host_pair &a, __host_pair b) { return a = __h2div(a, b); }

  friend float __low2float(__host_pair a) { return a.x.wide(); }
  friend float __high2float(__host_pair a) { return a.y.wide(); }
  friend __host_pair __lowhigh2highlow(__host_pair a) { return {a.y, a.x}; }

  friend __host_pair atomicAdd(__host_pair *at, __host_pair by) {
    unsigned *bits = reinterpret_cast<unsigned *>(at), old = __atomic_load_n(bits, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(bits, &old, __host_bits<unsigned>(__hadd2(__host_bits<__host_pair>(old), by)), true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
    return __host_bits<__host_pair>(old);
  }
};

// To an integer as the GPU converts: saturated, NaN is 0.
template <class Integer> inline Integer __host_saturated(float x, float least, float past) {
  return x != x ? 0 : x < least ? (Integer)least : x >= past ? (Integer)~(Integer)least : (Integer)x;
}
