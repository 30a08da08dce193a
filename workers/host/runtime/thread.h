// The record of a running thread, how its own code finds it, and the functions of the scheduler that a text calls.
#pragma once

struct uint3 { unsigned x, y, z; };
struct dim3 { unsigned x, y, z; };

// Every fiber's stack lies in a region aligned to its own size, so the stack pointer alone leads to the thread's
// record. The record's place shifts from region to region (a page and two cache lines each time): at one fixed
// offset all records and stack tops would fall into the same cache and TLB sets.

#define HOST_REGION_BYTES 0x40000ul
#define HOST_COLOURS 32ul
#define HOST_COLOUR_BYTES (4096ul + 128ul)

struct __host_warp;
struct __host_block { dim3 grid_dim, block_dim, block_index; void *dynamic_shared; };
struct __attribute__((aligned(64))) __host_thread {
  uint3 index;
  unsigned lane;
  __host_warp *warp;
  __host_block *block;
  void *context;  // the saved stack pointer, or the ucontext_t of the portable switch
};

inline __host_thread *__host_self() {
  unsigned long sp;
#if defined(__x86_64__)
  __asm__("movq %%rsp, %0" : "=r"(sp));
#elif defined(__aarch64__)
  __asm__("mov %0, sp" : "=r"(sp));
#else
#error "the host runtime knows x86-64 and aarch64"
#endif
  unsigned long colour = sp / HOST_REGION_BYTES % HOST_COLOURS;
  unsigned long end = (sp & ~(HOST_REGION_BYTES - 1)) + HOST_REGION_BYTES;
  return reinterpret_cast<__host_thread *>(end - sizeof(__host_thread) - colour * HOST_COLOUR_BYTES);
}

extern "C" {
void __host_barrier(int line);
unsigned __host_shuffle(unsigned mask, unsigned value, unsigned source, int line);
unsigned __host_ballot(unsigned mask, int predicate, int line);
[[noreturn]] void __host_trap(const char *what, int line);
float __host_expf(float x);
}
