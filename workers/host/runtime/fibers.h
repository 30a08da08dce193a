// Stacks for fibers, and what a switch from one to another needs: nothing but where to begin, or by choice ucontext.
#pragma once

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef HOST_INLINE_SWITCH
#include <ucontext.h>
#endif

const int MAX_WORKERS = 64;
const unsigned MAX_THREADS = 1024;
const size_t SIGNAL_STACK_BYTES = 64 << 10;
const size_t SHARED_BYTES = 64 << 10;
const size_t CONTEXT_BYTES = 16 << 10;  // at a region's start, under its guard: the ucontext switch's record

// One worker's stacks. A region, from its lowest address: record of the switch, guard page, stack, thread's record.
struct Stacks {
  char *regions;       // MAX_THREADS of them, opened as they are needed
  unsigned opened;
  char *shared_end;    // dynamic shared memory ends here, flush against a guard page
  char *signal_stack;
};
struct Pool { Stacks stacks[MAX_WORKERS]; };

inline size_t guard_bytes() { return (size_t)sysconf(_SC_PAGESIZE); }

inline char *region_of(unsigned long address) { return (char *)(address & ~(HOST_REGION_BYTES - 1)); }

inline char *stack_floor(const void *inside) { return region_of((unsigned long)inside) + CONTEXT_BYTES + guard_bytes(); }

inline __host_thread *record_in(unsigned long address) {
  unsigned long colour = address / HOST_REGION_BYTES % HOST_COLOURS;
  char *end = region_of(address) + HOST_REGION_BYTES - colour * HOST_COLOUR_BYTES;
  return (__host_thread *)(end - sizeof(__host_thread));
}

inline __host_thread *record_of(const Stacks &stacks, unsigned i) {
  return record_in((unsigned long)stacks.regions + i * HOST_REGION_BYTES);
}

inline bool stacks_holding(const Pool *pool, int workers, unsigned long address) {
  for (int i = 0; i < workers; i++)
    if (address - (unsigned long)pool->stacks[i].regions < MAX_THREADS * HOST_REGION_BYTES) return true;
  return false;
}

inline Pool *new_pool() { return (Pool *)calloc(1, sizeof(Pool)); }

inline char *reserve(size_t bytes) {
  void *at = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at == MAP_FAILED ? nullptr : (char *)at;
}

// Makes the first `threads` stacks usable; false when the system has no memory for them.
inline bool ready(Stacks &stacks, unsigned threads) {
  if (!stacks.regions) {
    char *at = reserve((MAX_THREADS + 1) * HOST_REGION_BYTES);
    size_t guard = guard_bytes();
    char *shared = reserve(SHARED_BYTES + 2 * guard);
    stacks.signal_stack = (char *)malloc(SIGNAL_STACK_BYTES);
    if (!at || !shared || !stacks.signal_stack) return false;
    if (mprotect(shared + guard, SHARED_BYTES, PROT_READ | PROT_WRITE)) return false;
    stacks.shared_end = shared + guard + SHARED_BYTES;
    stacks.regions = region_of((unsigned long)at + HOST_REGION_BYTES - 1);
  }
  for (; stacks.opened < threads; stacks.opened++) {
    char *region = stacks.regions + stacks.opened * HOST_REGION_BYTES, *floor = stack_floor(region);
    if (mprotect(floor, region + HOST_REGION_BYTES - floor, PROT_READ | PROT_WRITE)) return false;
    if (mprotect(region, CONTEXT_BYTES, PROT_READ | PROT_WRITE)) return false;
  }
  return true;
}

#ifdef HOST_INLINE_SWITCH

// A new stack begins as if `body` had just been called: on x86-64 with the place to return to on top.
inline void prepare(__host_thread *thread, void (*body)()) {
  void **top = (void **)thread;
#ifdef __x86_64__
  *--top = nullptr;
#endif
  thread->sp = top;
  thread->ip = (void *)body;
}

#define scheduler_record(context) (void)(context)

#else

static_assert(sizeof(ucontext_t) <= CONTEXT_BYTES, "the record of the switch has its room");

extern "C" void __host_switch(__host_context *from, __host_context *to) {
  swapcontext((ucontext_t *)from->record, (ucontext_t *)to->record);
}

inline void prepare(__host_thread *thread, void (*body)()) {
  ucontext_t *context = (ucontext_t *)region_of((unsigned long)thread);
  getcontext(context);
  context->uc_stack.ss_sp = stack_floor(thread);
  context->uc_stack.ss_size = (char *)thread - stack_floor(thread);
  context->uc_link = nullptr;
  makecontext(context, body, 0);
  thread->record = context;
}

#define scheduler_record(context) ucontext_t record_of_scheduler; (context)->record = &record_of_scheduler

#endif
