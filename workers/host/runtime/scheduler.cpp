// Runs the threads of CUDA blocks as fibers: one worker runs one block at a time, one warp at a time.
//
// A warp keeps a mask of runnable lanes. Whoever blocks clears its bit and switches to the next runnable lane of its
// own warp; the last to arrive at a shuffle finishes it for all and goes on. A warp without a runnable lane gives
// control back to its block, and when no warp can run, either the block's barrier is complete or the text is wrong.
//
// Always compiled with contraction off: the sequence of operations in __host_expf is part of the twins.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "faults.h"
#include "fragments.h"

#ifdef FARM_CHECK
#include "shadow.h"
#else
namespace {
inline void launch_begins(Check *) {}
inline void block_begins(const void *, unsigned long, const Worker &) {}
inline void barrier_passed() {}
}  // namespace
#endif

#include <fenv.h>
#include <pthread.h>
#include <time.h>

namespace {

const unsigned POISON = 0x7fc0dead;  // as float NaN, as index out of every buffer

#define DIVERGED "divergent warp functions: line %d with mask 0x%08x against line %d with mask 0x%08x"

// The module's TLS segment is its static shared memory, between two bands that are looked at after each block: what
// is initialized comes first in a segment, and this object is linked behind the text's.
const unsigned BAND_WORDS = 1024;
thread_local unsigned farm_band_before[BAND_WORDS] = {1};
thread_local unsigned farm_band_behind[BAND_WORDS];

// ---- switching ---------------------------------------------------------------------------------------------

[[noreturn]] void thread_main();

inline unsigned next_lane(const __host_warp &warp) {
  return warp.descending ? 31 - __builtin_clz(warp.runnable) : __builtin_ctz(warp.runnable);
}

inline void begin(Worker &worker, __host_warp &warp, __host_thread *thread, unsigned lane) {
  unsigned linear = warp.first + lane, x = worker.block_dim.x, y = worker.block_dim.y;
  thread->index = y * worker.block_dim.z == 1 ? uint3{linear, 0, 0} : uint3{linear % x, linear / x % y, linear / x / y};
  thread->lane = lane;
  thread->warp = &warp;
  warp.thread[lane] = thread;
  warp.fresh &= ~(1u << lane);
  unsigned before = warp.descending ? lane + 1 : lane - 1;
  if (before < 32 && warp.exist & ~warp.left & 1u << before) warp.thread[before]->beside = thread;
}

// Where to go on in this warp: a lane, or the block's scheduler when none can run.
inline __host_context *next_context(Worker &worker, __host_warp &warp) {
  if (!warp.runnable) return &worker.scheduler;
  unsigned lane = next_lane(warp);
  if (warp.fresh >> lane & 1) {
    __host_thread *thread = worker.free_threads[--worker.free_count];
    prepare(thread, thread_main);
    begin(worker, warp, thread, lane);
  }
  return warp.thread[lane];
}

// The body of every fiber. A thread that returns hands its stack to the next one that hasn't begun.
[[noreturn]] void thread_main() {
  __host_thread *self = __host_self();
  Worker &worker = worker_of(self);
  __host_warp &warp = *self->warp;
  for (;;) {
    worker.launch->call(worker.launch->slots);
    unsigned bit = 1u << self->lane;
    warp.left |= bit;
    warp.runnable &= ~bit;
    if (warp.runnable) {
      unsigned lane = next_lane(warp);
      if (warp.fresh >> lane & 1) {
        begin(worker, warp, self, lane);
        continue;
      }
    }
    __host_context *to = next_context(worker, warp);
    worker.free_threads[worker.free_count++] = self;
    __host_switch(self, to);
  }
}

// Waits until all lanes of the mask are here; whoever comes last runs `finish` for all of them.
template <class Finish> inline void converge(__host_thread *self, unsigned mask, int line, Finish finish) {
  __host_warp &warp = *self->warp;
  unsigned bit = 1u << self->lane;
  mask &= warp.exist;
  unsigned long long key = (unsigned long long)line << 32 | mask;
  warp.key[self->lane] = key;
  warp.converging |= bit;
  unsigned here = warp.converging & mask;
  if (warp.met & mask) fail(worker_of(self), 2, self, DIVERGED, warp.met_line, warp.exist, line, mask);
  if (!(mask & bit))
    fail(worker_of(self), 2, self, "line %d: mask 0x%08x does not name the calling lane %u", line, mask, self->lane);
  unsigned long long other = warp.key[__builtin_ctz(here)];
  if (other != key)
    fail(worker_of(self), 2, self, DIVERGED, (int)(other >> 32), (unsigned)other, line, mask);
  if (here == mask) {
    warp.converging &= ~mask;
    finish(warp, mask);
    warp.runnable |= mask;
  } else {
    __host_wait(self, &warp, bit);
  }
}

// ---- one block ---------------------------------------------------------------------------------------------

// No thread of the block can run: lets a complete barrier go, or says what is wrong. False when all have returned.
bool release(Worker &worker) {
  unsigned waiting = 0, left = 0;
  int line = 0;
  for (unsigned i = 0; i < worker.warp_count; i++) {
    __host_warp &warp = worker.warps[i];
    left += __builtin_popcount(warp.left);
    waiting += __builtin_popcount(warp.at_barrier);
    if (!(warp.converging | warp.met)) continue;
    unsigned lane = __builtin_ctz(warp.converging ? warp.converging : warp.met);
    unsigned long long key = warp.converging ? warp.key[lane] : (unsigned long long)warp.met_line << 32 | warp.exist;
    unsigned mask = (unsigned)key;
    if (warp.converging && mask & warp.met)
      fail(worker, 2, nullptr, DIVERGED, (int)(key >> 32), mask, warp.met_line, warp.exist);
    fail(worker, 2, nullptr, mask & warp.left
             ? "line %d: mask 0x%08x of a warp function names lanes that have left (left: 0x%08x), warp %u"
             : "line %d: mask 0x%08x of a warp function names lanes that never come (at a barrier: 0x%08x), warp %u",
         (int)(key >> 32), mask, mask & warp.left ? warp.left : warp.at_barrier, i);
  }
  if (left == worker.threads) return false;
  for (unsigned i = 0; i < worker.warp_count; i++) {
    __host_warp &warp = worker.warps[i];
    if (!warp.at_barrier) continue;
    if (line && warp.barrier_line != line)
      fail(worker, 2, nullptr, "divergent barriers: line %d and line %d", line, warp.barrier_line);
    line = warp.barrier_line;
  }
  if (waiting != worker.threads)
    fail(worker, 2, nullptr, "barrier at line %d reached by %u of %u threads, the others have returned", line, waiting,
         worker.threads);
  for (unsigned i = 0; i < worker.warp_count; i++) {
    worker.warps[i].runnable = worker.warps[i].at_barrier;
    worker.warps[i].at_barrier = 0;
  }
  barrier_passed();
  return true;
}

void run_block(Worker &worker) {
  for (unsigned i = 0; i < worker.warp_count; i++) {
    __host_warp &warp = worker.warps[i];
    unsigned lanes = worker.threads - 32 * i;
    warp.exist = warp.runnable = warp.fresh = lanes < 32 ? (1u << lanes) - 1 : ~0u;
    warp.left = warp.converging = warp.at_barrier = warp.met = 0;
    warp.first = 32 * i;
    warp.block = &worker;
    warp.descending = worker.launch->descending;
    if (~warp.exist)  // what a lane that doesn't exist holds is undefined
      for (unsigned lane = 0; lane < 32; lane++) warp.value[0][lane] = warp.value[1][lane] = POISON;
  }
  do {
    for (unsigned i = 0; i < worker.warp_count; i++) {
      __host_warp &warp = worker.warps[worker.launch->descending ? worker.warp_count - 1 - i : i];
      if (warp.runnable) __host_switch(&worker.scheduler, next_context(worker, warp));
    }
  } while (release(worker));
}

struct Shared { unsigned *before, *start, *behind; };

// Touching it allocates the segment. The compiler must not know whose addresses these are: the text writes there.
Shared shared_memory() {
  Shared shared = {farm_band_before, farm_band_before + BAND_WORDS, farm_band_behind};
  __asm__ volatile("" : "+r"(shared.before), "+r"(shared.start), "+r"(shared.behind) : : "memory");
  return shared;
}

void poison(void *start, size_t bytes) {
  unsigned *words = static_cast<unsigned *>(start);
  for (size_t i = 0; i < bytes / 4; i++) words[i] = POISON;
}

inline unsigned broken(const unsigned *band) {
  unsigned differ = 0;
  for (unsigned i = 0; i < BAND_WORDS; i++) differ |= band[i] ^ POISON;
  return differ;
}

void check_bands(Worker &worker, const Shared &shared) {
  if (!(broken(shared.before) | broken(shared.behind))) return;
  for (unsigned i = 0; i < BAND_WORDS; i++) {
    if (shared.behind[i] != POISON)
      fail(worker, 2, nullptr, "wrote past its shared memory: %u bytes past the end of what is static", 4 * i);
    if (shared.before[BAND_WORDS - 1 - i] != POISON)
      fail(worker, 2, nullptr, "wrote past its shared memory: %u bytes before the start of what is static", 4 * i + 4);
  }
}

// Takes blocks from the launch's counter until there are none, or one failed.
void run_blocks(Worker &worker) {
  Launch &launch = *worker.launch;
  const Shared shared = shared_memory();
  poison(shared.before, sizeof(farm_band_before));
  poison(shared.behind, sizeof(farm_band_behind));
  const unsigned *grid = launch.grid;
  unsigned long long total = (unsigned long long)grid[0] * grid[1] * grid[2];
  while (!__atomic_load_n(&launch.failed, __ATOMIC_RELAXED)) {
    unsigned long long i = __atomic_fetch_add(&launch.next_block, 1, __ATOMIC_RELAXED);
    if (i >= total) return;
    if (launch.descending) i = total - 1 - i;
    worker.block_index = {(unsigned)(i % grid[0]), (unsigned)(i / grid[0] % grid[1]), (unsigned)(i / grid[0] / grid[1])};
    poison(shared.start, (char *)shared.behind - (char *)shared.start);
    poison(worker.dynamic_shared, launch.dynamic_bytes);
    block_begins(shared.start, (char *)shared.behind - (char *)shared.start, worker);
    run_block(worker);
    check_bands(worker, shared);
  }
}

// ---- one worker --------------------------------------------------------------------------------------------

struct Job { Launch *launch; Stacks *stacks; };

void *run_worker(void *argument) {
  Job &job = *static_cast<Job *>(argument);
  Launch &launch = *job.launch;
  static_assert(sizeof(Worker) < 64 << 10, "a worker lies on its thread's stack");
  Worker worker;
  worker.launch = &launch;
  worker.stacks = job.stacks;
  worker.grid_dim = {launch.grid[0], launch.grid[1], launch.grid[2]};
  worker.block_dim = {launch.block[0], launch.block[1], launch.block[2]};
  worker.threads = launch.block[0] * launch.block[1] * launch.block[2];
  worker.warp_count = (worker.threads + 31) / 32;
  worker.dynamic_shared = job.stacks->shared_end - (launch.dynamic_bytes + 15) / 16 * 16;
  worker.free_count = worker.threads;
  for (unsigned i = 0; i < worker.threads; i++) worker.free_threads[i] = record_of(*job.stacks, worker.threads - 1 - i);
  scheduler_record(&worker.scheduler);
  stack_t alternate = {}, before;
  alternate.ss_sp = job.stacks->signal_stack;
  alternate.ss_size = SIGNAL_STACK_BYTES;
  sigaltstack(&alternate, &before);
  fenv_t floats;
  fegetenv(&floats);
  fesetenv(FE_DFL_ENV);  // some library may have switched subnormals off
  if (!sigsetjmp(worker.landing, 1)) run_blocks(worker);
  fesetenv(&floats);
  sigaltstack(&before, nullptr);
  return nullptr;
}

}  // namespace

#ifdef FARM_CHECK
#include "hooks.h"
#endif

// ---- what the text calls -----------------------------------------------------------------------------------

extern "C" {

__host_context *__host_next(__host_warp *warp) { return next_context(worker_of(__host_self()), *warp); }

void __host_barriers_differ(int line) {
  __host_thread *self = __host_self();
  fail(worker_of(self), 2, self, "divergent barriers: line %d and line %d", self->warp->barrier_line, line);
}

void __host_diverged(int line) {
  __host_thread *self = __host_self();
  __host_warp &warp = *self->warp;
  fail(worker_of(self), 2, self, DIVERGED, warp.met_line, warp.exist, line, warp.exist);
}

unsigned __host_shuffle_some(unsigned mask, unsigned value, unsigned source, int line) {
  __host_thread *self = __host_self();
  __host_warp &warp = *self->warp;
  unsigned lane = self->lane;
  warp.part_value[lane] = value;
  warp.part_source[lane] = source & 31;
  converge(self, mask, line, [](__host_warp &warp, unsigned mask) {
    if (mask == ~0u)
      for (unsigned i = 0; i < 32; i++) warp.part_result[i] = warp.part_value[warp.part_source[i]];
    else  // what a lane outside the mask holds is undefined
      for (unsigned i = 0; i < 32; i++)
        if (mask >> i & 1) warp.part_result[i] = mask >> warp.part_source[i] & 1 ? warp.part_value[warp.part_source[i]] : POISON;
  });
  return warp.part_result[lane];
}

unsigned __host_ballot(unsigned mask, int predicate, int line) {
  __host_thread *self = __host_self();
  __host_warp &warp = *self->warp;
  unsigned lane = self->lane;
  warp.part_value[lane] = predicate != 0;
  converge(self, mask, line, [](__host_warp &warp, unsigned mask) {
    unsigned votes = 0;
    for (unsigned i = 0; i < 32; i++) votes |= (mask >> i & warp.part_value[i] & 1) << i;
    for (unsigned i = 0; i < 32; i++)
      if (mask >> i & 1) warp.part_result[i] = votes;
  });
  return warp.part_result[lane];
}

void __host_multiply(__host_fragments *mine, int line) {
  __host_thread *self = __host_self();
  self->warp->brought[self->lane] = mine;
  converge(self, ~0u, line, [](__host_warp &warp, unsigned mask) {
    __host_fragments undefined, *lanes[32];  // what a lane that doesn't exist holds
    for (float &of : undefined.sums) of = __builtin_nanf("");
    for (float &of : undefined.a) of = __builtin_nanf("");
    for (float &of : undefined.b) of = __builtin_nanf("");
    for (unsigned i = 0; i < 32; i++) lanes[i] = mask >> i & 1 ? warp.brought[i] : &undefined;
    __host_multiply_all(lanes);
  });
}

void __host_trap(const char *what, int line) {
  __host_thread *self = __host_self();
  fail(worker_of(self), 2, self, "%s at line %d", what, line);
}

// The steps and coefficients are those of kernels/exp32.py, which gives them to the compiler.
float __host_expf(float x) noexcept {
  static const double polynomial[] = {FARM_EXP_POLYNOMIAL};  // highest power first
  if (x != x) return x;
  double clamped = x > FARM_EXP_CLAMP ? FARM_EXP_CLAMP : x < -FARM_EXP_CLAMP ? -FARM_EXP_CLAMP : (double)x;
  double k = clamped * FARM_EXP_INVERSE_LN2 + FARM_EXP_ROUNDER - FARM_EXP_ROUNDER;
  double r = clamped - k * FARM_EXP_LN2_HIGH - k * FARM_EXP_LN2_LOW;
  double p = polynomial[0];
  for (size_t i = 1; i < sizeof(polynomial) / sizeof(polynomial[0]); i++) p = p * r + polynomial[i];
  long long exponent = ((long long)k + 1023) << 52;
  double power;
  memcpy(&power, &exponent, sizeof(power));
  return (float)(p * power);
}

// ---- what Python calls -------------------------------------------------------------------------------------

__attribute__((visibility("default"))) Pool *farm_pool() { return new_pool(); }

// One launch at a time in a process: the pool of stacks and the signal handlers are the process's.
__attribute__((visibility("default"))) int farm_launch(Launch *launch) {
  Job jobs[MAX_WORKERS];
  pthread_t threads[MAX_WORKERS];
  unsigned size = launch->block[0] * launch->block[1] * launch->block[2];
  for (int i = 0; i < launch->workers; i++) {
    jobs[i] = {launch, &launch->pool->stacks[i]};
    if (!ready(*jobs[i].stacks, size)) return -1;
  }
  current = launch;
  launch_begins(launch->check);
  catch_signals();
  struct timespec from, to;
  clock_gettime(CLOCK_MONOTONIC, &from);
  int started = 1;
  while (started < launch->workers && !pthread_create(&threads[started], nullptr, run_worker, &jobs[started])) started++;
  run_worker(&jobs[0]);
  for (int i = 1; i < started; i++) pthread_join(threads[i], nullptr);
  clock_gettime(CLOCK_MONOTONIC, &to);
  launch->elapsed_us = (to.tv_sec - from.tv_sec) * 1e6 + (to.tv_nsec - from.tv_nsec) * 1e-3;
  restore_signals();
  current = nullptr;
  return 0;
}

}
