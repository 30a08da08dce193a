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

// Where a fiber goes on. The switch is part of the text: whoever switches keeps what it needs on its own stack, so
// that stack pointer, place and the two registers a compiler may need for its frame are all there is to exchange.
#ifndef FARM_UCONTEXT
#define HOST_INLINE_SWITCH 1
struct __host_context { void *sp, *ip, *frame, *base; };
#else
struct __host_context { void *record; };  // the ucontext_t of the portable switch
#endif

struct __host_thread;
struct __host_warp {
  unsigned runnable;     // lanes that may run now
  unsigned fresh;        // ... of which never started
  unsigned exist;        // a block's last warp may be short
  unsigned descending;   // the order in which lanes take turns
  unsigned met;          // lanes waiting in a shuffle of the whole warp
  int met_line;
  unsigned turn;         // counts those shuffles: a lane may be one ahead of the others, never two
  unsigned at_barrier;   // lanes waiting at the block's barrier
  int barrier_line;
  unsigned value[2][32];
  __host_thread *thread[32];
  struct __host_block *block;
  unsigned left;         // lanes that have returned
  unsigned converging;   // lanes waiting in a warp function of some lanes
  unsigned first;        // the linear index of lane 0
  unsigned part_value[32], part_result[32];
  unsigned char part_source[32];
  struct __host_fragments *brought[32];  // to a matrix product
  unsigned long long key[32];  // line and mask of the warp function of some lanes a lane waits in
};
struct __host_block { dim3 grid_dim, block_dim, block_index; void *dynamic_shared; };
struct __attribute__((aligned(64))) __host_thread : __host_context {
  uint3 index;
  unsigned lane;
  __host_warp *warp;
  __host_thread *beside;  // the lane that is next by the order of turns, once it has begun
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
__host_context *__host_next(__host_warp *warp);
unsigned __host_shuffle_some(unsigned mask, unsigned value, unsigned source, int line);
unsigned __host_ballot(unsigned mask, int predicate, int line);
[[noreturn]] void __host_diverged(int line);
[[noreturn]] void __host_barriers_differ(int line);
[[noreturn]] void __host_trap(const char *what, int line);
float __host_expf(float x) noexcept;
}

// ---- switching ---------------------------------------------------------------------------------------------

#if defined(HOST_INLINE_SWITCH) && defined(__x86_64__)

// k0 can't mask, but compilers keep spilled pointers in it.
#ifdef __AVX512F__
#define HOST_AVX512_REGISTERS "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", \
  "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31", "k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7",
#else
#define HOST_AVX512_REGISTERS
#endif
#ifdef __APX_F__
#define HOST_APX_REGISTERS "r16", "r17", "r18", "r19", "r20", "r21", "r22", "r23", "r24", "r25", "r26", "r27", "r28", \
  "r29", "r30", "r31",
#else
#define HOST_APX_REGISTERS
#endif
#define HOST_MORE_REGISTERS HOST_AVX512_REGISTERS HOST_APX_REGISTERS

inline __attribute__((always_inline)) void __host_switch(__host_context *from, __host_context *to) {
  __asm__ volatile(
      "leaq 1f(%%rip), %%rax\n\t"
      "movq %%rsp, (%0)\n\t"
      "movq %%rax, 8(%0)\n\t"
      "movq %%rbp, 16(%0)\n\t"
      "movq %%rbx, 24(%0)\n\t"
      "movq (%1), %%rsp\n\t"
      "movq 16(%1), %%rbp\n\t"
      "movq 24(%1), %%rbx\n\t"
      "jmpq *8(%1)\n"
      "1:"
      : "+D"(from), "+S"(to)
      :
      : "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1", "xmm2", "xmm3",
        "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15",
        HOST_MORE_REGISTERS "memory", "cc");
}

#elif defined(HOST_INLINE_SWITCH)

#ifdef __ARM_FEATURE_SVE
#define HOST_MORE_REGISTERS "p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "p10", "p11", "p12", "p13", \
  "p14", "p15",
#else
#define HOST_MORE_REGISTERS
#endif

// Hint 36 is `bti j`, and a jump by x17 may enter a function: both for systems that check where jumps land.
inline __attribute__((always_inline)) void __host_switch(__host_context *from, __host_context *to) {
  register __host_context *here __asm__("x0") = from, *there __asm__("x1") = to;
  __asm__ volatile(
      "adr x17, 1f\n\t"
      "mov x16, sp\n\t"
      "stp x16, x17, [%0]\n\t"
      "stp x29, x19, [%0, #16]\n\t"
      "ldp x16, x17, [%1]\n\t"
      "ldp x29, x19, [%1, #16]\n\t"
      "mov sp, x16\n\t"
      "br x17\n"
      "1:\n\t"
      "hint #36"
      : "+r"(here), "+r"(there)
      :
      : "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x18", "x20",
        "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x30", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7",
        "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23",
        "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31", HOST_MORE_REGISTERS "memory", "cc");
}

#else

extern "C" void __host_switch(__host_context *from, __host_context *to);

#endif

// Gives the turn to the first runnable lane of the warp, until somebody makes this one runnable again. It mostly is
// the lane beside this one: that is tried apart, since a processor then foresees the branch and needn't wait for the
// masks before it reads where to go.
inline __attribute__((always_inline)) void __host_wait(__host_thread *self, __host_warp *warp, unsigned bit) {
  unsigned runnable = warp->runnable & ~bit, begun = runnable & ~warp->fresh;
  warp->runnable = runnable;
  bool beside = warp->descending ? begun & bit >> 1 && runnable < bit : begun & bit << 1 && !(runnable & (bit - 1));
  __host_switch(self, __builtin_expect(beside, 1) ? self->beside : __host_next(warp));
}

inline __attribute__((always_inline)) void __host_barrier(int line) {
  __host_thread *self = __host_self();
  __host_warp *warp = self->warp;
  unsigned bit = 1u << self->lane, waiting = warp->at_barrier;
  if (__builtin_expect(waiting && warp->barrier_line != line, 0)) __host_barriers_differ(line);
  warp->barrier_line = line;
  warp->at_barrier = waiting | bit;
  __host_wait(self, warp, bit);
}

// The whole warp's shuffle: each lane leaves its value and waits; the last to come sets all free and goes on.
inline __attribute__((always_inline)) unsigned __host_shuffle(unsigned mask, unsigned value, unsigned source, int line) {
  __host_thread *self = __host_self();
  __host_warp *warp = self->warp;
  unsigned exist = warp->exist, met = warp->met, bit = 1u << self->lane;
  if (__builtin_expect((mask & exist) != exist, 0)) return __host_shuffle_some(mask, value, source, line);
  if (!met)
    warp->met_line = line;
  else if (__builtin_expect(warp->met_line != line, 0))
    __host_diverged(line);
  unsigned *values = warp->value[warp->turn & 1];
  const unsigned *result = values + (source & 31);
  values[self->lane] = value;
  met |= bit;
  if (met == exist) {
    warp->met = 0;
    warp->turn++;
    warp->runnable = exist;
  } else {
    warp->met = met;
    __host_wait(self, warp, bit);
  }
  return *result;
}
