// How a text of the check build reaches its thread: by calls, since every access that is inlined into it is checked.
#pragma once

extern "C" {
// Const: within one thread the answer never changes.
__attribute__((const)) uint3 __host_index();
__attribute__((const)) unsigned __host_lane();
__attribute__((const)) dim3 __host_block_index();
__attribute__((const)) dim3 __host_block_dim();
__attribute__((const)) dim3 __host_grid_dim();
__attribute__((const)) void *__host_dynamic();
void __host_call_barrier(int line);
void __host_sync(unsigned mask, int line);
const void *__host_promised(const void *address, unsigned long long alignment, unsigned long long offset = 0);
}

#define threadIdx (__host_index())
#define blockIdx (__host_block_index())
#define blockDim (__host_block_dim())
#define gridDim (__host_grid_dim())
#define HOST_LANE (__host_lane())
#define HOST_DYNAMIC_SHARED (__host_dynamic())
// A compiler that sees all accesses to a variable may hold that no call changes it, but for what it can't see through.
#define HOST_FENCE __asm__ volatile("" : : : "memory")
#define HOST_BARRIER(line) HOST_FENCE; __host_call_barrier(line); HOST_FENCE
#define HOST_SYNC_WARP(mask, line) HOST_FENCE; __host_sync(mask, line); HOST_FENCE
#define HOST_SHUFFLE __host_shuffle_some
// What a text promises of an address is an error on a GPU where it doesn't hold, whatever the code here makes of it.
#define __builtin_assume_aligned(address, ...) \
  __builtin_assume_aligned(__host_promised(address, __VA_ARGS__), __VA_ARGS__)
#define HOST_UNCHECKED __attribute__((no_sanitize("thread", "undefined")))

// A vector that is copied by a function of its own is checked for its alignment as a whole.
#define HOST_COPIED_2(name, type, a, b)                                          \
  name() = default;                                                              \
  name(type a, type b) : a(a), b(b) {}                                           \
  inline name(const name &o) : a(o.a), b(o.b) {}                                 \
  inline name &operator=(const name &o) { a = o.a, b = o.b; return *this; }
#define HOST_COPIED_4(name, type, a, b, c, d)                                    \
  name() = default;                                                              \
  name(type a, type b, type c, type d) : a(a), b(b), c(c), d(d) {}               \
  inline name(const name &o) : a(o.a), b(o.b), c(o.c), d(o.d) {}                 \
  inline name &operator=(const name &o) { a = o.a, b = o.b, c = o.c, d = o.d; return *this; }
#define HOST_PICK(_1, _2, _3, _4, _5, _6, picked, ...) picked
#define HOST_COPIED(...) HOST_PICK(__VA_ARGS__, HOST_COPIED_4, _, HOST_COPIED_2, _)(__VA_ARGS__)
