// One launch and its workers, and what becomes of a block that breaks a rule or touches memory that isn't its own.
#pragma once

#include "thread.h"

#include "fibers.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

// What Python fills in and reads back; workers/host/module.py has the same fields.
struct Report {
  int kind;  // 0 well, 1 a fault at `address`, 2 a rule of CUDA broken, 3 stopped by a finding of the check build
  int write;  // 1 a write, 0 a read, -1 where the CPU does not say
  unsigned long long address;
  unsigned at;  // of a fault: the place in the module's file
  char text[256];
};
struct Check;
struct Launch {
  void (*call)(const unsigned long long *);
  const unsigned long long *slots;
  unsigned grid[3], block[3];
  unsigned dynamic_bytes;
  int descending, workers;
  Pool *pool;
  double elapsed_us;
  Report report;
  unsigned long long next_block;
  int failed;
  Check *check;  // null but in the check build
};

extern "C" char __ehdr_start[] __attribute__((visibility("hidden")));  // where the module's file begins in memory

namespace {

const int SIGNALS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
const int SIGNAL_COUNT = sizeof(SIGNALS) / sizeof(SIGNALS[0]);

struct Worker : __host_block {
  Launch *launch;
  Stacks *stacks;
  __host_context scheduler;
  __host_warp warps[32];
  unsigned warp_count, threads;
  __host_thread *free_threads[1024];
  unsigned free_count;
  sigjmp_buf landing;
};

Launch *current;               // for the signal handler: the one launch that runs
struct sigaction previous[SIGNAL_COUNT];

Worker &worker_of(__host_thread *thread) { return *static_cast<Worker *>(thread->warp->block); }

// Records the first failure of a launch and leaves the block for good.
[[noreturn]] __attribute__((format(printf, 4, 5))) void fail(Worker &worker, int kind, const __host_thread *thread,
                                                            const char *format, ...) {
  if (!__atomic_exchange_n(&worker.launch->failed, 1, __ATOMIC_SEQ_CST)) {
    Report &report = worker.launch->report;
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(report.text, sizeof(report.text), format, arguments);
    va_end(arguments);
    const dim3 &b = worker.block_index;
    if (size < (int)sizeof(report.text)) {
      char *end = report.text + size;
      size_t room = sizeof(report.text) - size;
      if (thread)
        snprintf(end, room, ", thread (%u,%u,%u) of block (%u,%u,%u)", thread->index.x, thread->index.y,
                 thread->index.z, b.x, b.y, b.z);
      else
        snprintf(end, room, ", block (%u,%u,%u)", b.x, b.y, b.z);
    }
    report.kind = kind;
  }
  siglongjmp(worker.landing, 1);
}

[[noreturn]] void report_fault(Worker &worker, const __host_thread *thread, int number, siginfo_t *info, int write) {
  char *at = static_cast<char *>(info->si_addr);
  char *guard = worker.stacks->shared_end;
  if (number == SIGFPE) fail(worker, 2, thread, "arithmetic fault: an integer division by zero or an overflow of one");
  if (number != SIGSEGV && number != SIGBUS) fail(worker, 2, thread, "the text gave up (%s)", strsignal(number));
  if (at >= stack_floor(thread) - guard_bytes() && at < stack_floor(thread))
    fail(worker, 2, thread, "stack overflow: local arrays and calls take more than %zu bytes",
         (size_t)((const char *)thread - stack_floor(thread)));
  if (at >= guard && at < guard + guard_bytes())
    fail(worker, 2, thread, "wild access: %zu bytes past the end of the %u bytes of dynamic shared memory",
         (size_t)(at - static_cast<char *>(worker.dynamic_shared)) - worker.launch->dynamic_bytes, worker.launch->dynamic_bytes);
  worker.launch->report.address = (unsigned long long)at;
  worker.launch->report.write = write;
  if (info->si_code == SI_KERNEL) fail(worker, 2, thread, "wild access: a misaligned or an impossible address");
  fail(worker, 1, thread, "%s", "");
}

void on_signal(int number, siginfo_t *info, void *argument) {
  ucontext_t *context = static_cast<ucontext_t *>(argument);
#if defined(__x86_64__)
  unsigned long sp = context->uc_mcontext.gregs[REG_RSP];
  unsigned long pc = context->uc_mcontext.gregs[REG_RIP];
  int write = context->uc_mcontext.gregs[REG_ERR] >> 1 & 1;
#else
  unsigned long sp = context->uc_mcontext.sp, pc = context->uc_mcontext.pc;
  int write = -1;
#endif
  if (current && stacks_holding(current->pool, current->workers, sp)) {
    const __host_thread *thread = record_in(sp);
    current->report.at = (unsigned)(pc - (unsigned long)__ehdr_start);
    report_fault(*static_cast<Worker *>(thread->warp->block), thread, number, info, write);
  }
  for (int i = 0; i < SIGNAL_COUNT; i++)  // not ours: whoever was there before gets it
    if (SIGNALS[i] == number) sigaction(number, &previous[i], nullptr);
  if (info->si_code <= 0) raise(number);
}

void catch_signals() {
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (int i = 0; i < SIGNAL_COUNT; i++) sigaction(SIGNALS[i], &action, &previous[i]);
}

void restore_signals() {
  for (int i = 0; i < SIGNAL_COUNT; i++) sigaction(SIGNALS[i], &previous[i], nullptr);
}

}  // namespace
