// What the check build's compiler calls before every access to memory and when a rule of the language is broken:
// the names are those of -fsanitize=thread and =undefined, whose libraries are not linked.
#pragma once

#include "shadow.h"

namespace {

__attribute__((noinline)) void outside(Access &a, Kind kind) {
  if (a.address - (unsigned long long)current->pool->stacks[0].regions < MAX_THREADS * HOST_REGION_BYTES) kind = LOCAL;
  stop(kind, a);
}

inline bool in_image(unsigned long long address) {
  extern char end_of_image[] __asm__("_end") __attribute__((visibility("hidden")));
  return address - (unsigned long long)__ehdr_start < (unsigned long long)(end_of_image - __ehdr_start);
}

Region *region_of(const Access &a) {
  for (Region *one = check->regions; one < check->regions + check->region_count; one++)
    if (a.address - one->start < one->nbytes) return one;
  return nullptr;
}

inline unsigned long long stack_pointer() {
  unsigned long long sp;
#if defined(__x86_64__)
  __asm__("movq %%rsp, %0" : "=r"(sp));
#else
  __asm__("mov %0, sp" : "=r"(sp));
#endif
  return sp;
}

// Whether the access lies in the span; one that begins before it and reaches into it doesn't.
inline bool within(unsigned long long address, unsigned long long size, const Span &span) {
  unsigned long long offset = address - span.start;
  return offset < span.nbytes && span.nbytes - offset >= size;
}

// Every access in full.
__attribute__((noinline)) void visit(const void *address, unsigned long long size, bool write, bool atomic, const void *pc) {
  unsigned long long to = (unsigned long long)address;
  if ((to ^ stack_pointer()) < HOST_REGION_BYTES || !check || !size) return;
  __host_thread *self = __host_self();
  Access a = {to, (unsigned)size, place(pc), self->warp->first + self->lane, check->now, block_began, write, atomic, false};
  unsigned long long offset = to - fixed.start;
  if (offset < fixed.nbytes) {
    if (!within(to, size, fixed)) outside(a, OUTSIDE);
    unsigned char owner = check->owners[offset];
    if (owner == COMPILERS) return;
    if (!owner || owner != check->owners[offset + size - 1]) outside(a, OUTSIDE);
    return steps(static_words, static_bytes, offset, a);
  }
  offset = to - dynamic.start;
  if (offset < dynamic.nbytes) {
    if (!within(to, size, dynamic)) outside(a, OUTSIDE);
    return steps(dynamic_words, dynamic_bytes, offset, a);
  }
  Region *found = region_of(a);
  if (!found) {
    if (in_image(to)) return;  // the text's own tables
    outside(a, OUTSIDE);
  }
  if (!within(to, size, {found->start, found->nbytes})) outside(a, OUTSIDE);
  if (write && found->read_only) stop(READ_ONLY, a);
  if (!found->words) return;
  a.floor = 1, a.global = true;
  steps(found->words, found->bytes, to - found->start, a);
}

// What nearly all accesses to shared memory are: in order after the barrier before. False: it takes a closer look.
template <bool write> inline bool well(Cell &cell, unsigned thread, unsigned at) {
  if (cell.writer & SPLIT) return false;
  if (write) {
    if (cell.wrote >= epoch || cell.read >= epoch) return false;
    cell.wrote = check->now, cell.writer = thread, cell.wrote_at = at, cell.read = 0;
    return true;
  }
  if (cell.wrote - block_began >= epoch - block_began) return false;
  note_read(cell, thread, at, check->now, false);
  return true;
}

// An access of a size whose alignment the compiler took the address to have; what is common is done here.
template <unsigned size, bool write> inline void visit_aligned(const void *address, const void *pc) {
  unsigned long long to = (unsigned long long)address;
  if ((to ^ stack_pointer()) < HOST_REGION_BYTES || !check) return;
  if (__builtin_expect(to & (size - 1), 0)) stop(MISALIGNED, {to, size, place(pc), 0, 0, 0, write, false, false});
  Cell *cell = nullptr;
  if (within(to, size, fixed)) {
    const unsigned char *owner = check->owners + (to - fixed.start);
    if (owner[0] && owner[0] == owner[size - 1] && owner[0] != COMPILERS) cell = static_words + (to - fixed.start) / 4;
  } else if (within(to, size, dynamic)) {
    cell = dynamic_words + (to - dynamic.start) / 4;
  } else if (!write) {
    for (int i = 0; i < input_count; i++)
      if (within(to, size, inputs[i])) return;
  }
  if (size < 4 || !cell) return visit(address, size, write, false, pc);
  __host_thread *self = __host_self();
  unsigned thread = self->warp->first + self->lane;
  for (unsigned i = 0; i < size / 4; i++)
    if (!well<write>(cell[i], thread, place(pc))) visit((const char *)address + 4 * i, 4, write, false, pc);
}

// An access at any address.
inline void visit_range(const void *address, unsigned long long size, bool write, const void *pc) {
  if (!write)
    for (int i = 0; i < input_count; i++)
      if (within((unsigned long long)address, size, inputs[i])) return;
  visit(address, size, write, false, pc);
}

inline void broken_promise(unsigned long long address, unsigned long long alignment, const void *pc) {
  if (check && address & (alignment - 1))
    stop(PROMISE, {address, (unsigned)alignment, place(pc), 0, 0, 0, false, false, false});
}

inline void broken_rule(Kind kind, const void *pc) {
  if (check) stop(kind, {0, 0, place(pc), 0, 0, 0, false, false, false});
}

inline void atomic(const volatile void *address, unsigned size, bool write, bool read, const void *pc) {
  if (!check) return;
  if (read && write) {
    released |= fenced;
    acquired = true;
  }
  visit((const void *)address, size, write, true, pc);
}

struct Place { const char *file; unsigned line, column; };
struct TypeMismatch { Place place; const void *type; unsigned char log_alignment, kind; };

}  // namespace

#define HERE __builtin_return_address(0)

extern "C" {

#define HOOKS(size)                                                                                       \
  void __tsan_read##size(const void *p) { visit_aligned<size, false>(p, HERE); }                          \
  void __tsan_write##size(const void *p) { visit_aligned<size, true>(p, HERE); }                          \
  void __tsan_volatile_read##size(const void *p) { visit_aligned<size, false>(p, HERE); }                 \
  void __tsan_volatile_write##size(const void *p) { visit_aligned<size, true>(p, HERE); }                 \
  void __tsan_unaligned_read##size(const void *p) { visit_range(p, size, false, HERE); }                 \
  void __tsan_unaligned_write##size(const void *p) { visit_range(p, size, true, HERE); }                 \
  void __tsan_unaligned_volatile_read##size(const void *p) { visit_range(p, size, false, HERE); }        \
  void __tsan_unaligned_volatile_write##size(const void *p) { visit_range(p, size, true, HERE); }
HOOKS(1) HOOKS(2) HOOKS(4) HOOKS(8) HOOKS(16)
#undef HOOKS
void __tsan_read_range(const void *p, unsigned long size) { visit_range(p, size, false, HERE); }
void __tsan_write_range(const void *p, unsigned long size) { visit_range(p, size, true, HERE); }
void __tsan_vptr_update(void **, void *) {}
void __tsan_vptr_read(void **) {}
void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}

void *__tsan_memcpy(void *to, const void *from, unsigned long size) {
  visit_range(from, size, false, HERE);
  visit_range(to, size, true, HERE);
  return __builtin_memcpy(to, from, size);
}
void *__tsan_memmove(void *to, const void *from, unsigned long size) {
  visit_range(from, size, false, HERE);
  visit_range(to, size, true, HERE);
  return __builtin_memmove(to, from, size);
}
void *__tsan_memset(void *to, int byte, unsigned long size) {
  visit_range(to, size, true, HERE);
  return __builtin_memset(to, byte, size);
}

#define CHANGE(bits, type, name)                                                              \
  type __tsan_atomic##bits##_##name(volatile type *p, type value, int) {                      \
    atomic(p, bits / 8, true, true, HERE);                                                    \
    return __atomic_##name(p, value, __ATOMIC_SEQ_CST);                                       \
  }
#define ATOMICS(bits, type)                                                                   \
  type __tsan_atomic##bits##_load(const volatile type *p, int) {                              \
    atomic(p, bits / 8, false, true, HERE);                                                   \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                              \
  }                                                                                           \
  void __tsan_atomic##bits##_store(volatile type *p, type value, int) {                       \
    atomic(p, bits / 8, true, false, HERE);                                                   \
    __atomic_store_n(p, value, __ATOMIC_SEQ_CST);                                             \
  }                                                                                           \
  type __tsan_atomic##bits##_exchange(volatile type *p, type value, int) {                    \
    atomic(p, bits / 8, true, true, HERE);                                                    \
    return __atomic_exchange_n(p, value, __ATOMIC_SEQ_CST);                                   \
  }                                                                                           \
  CHANGE(bits, type, fetch_add) CHANGE(bits, type, fetch_sub) CHANGE(bits, type, fetch_and)   \
  CHANGE(bits, type, fetch_or) CHANGE(bits, type, fetch_xor) CHANGE(bits, type, fetch_nand)   \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile type *p, type *from, type to, int, int) {   \
    atomic(p, bits / 8, true, true, HERE);                                                    \
    return __atomic_compare_exchange_n(p, from, to, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);          \
  }                                                                                           \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile type *p, type *from, type to, int, int) {     \
    atomic(p, bits / 8, true, true, HERE);                                                    \
    return __atomic_compare_exchange_n(p, from, to, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);          \
  }                                                                                           \
  type __tsan_atomic##bits##_compare_exchange_val(volatile type *p, type from, type to, int, int) {      \
    atomic(p, bits / 8, true, true, HERE);                                                    \
    __atomic_compare_exchange_n(p, &from, to, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);     \
    return from;                                                                              \
  }
ATOMICS(8, unsigned char) ATOMICS(16, unsigned short) ATOMICS(32, unsigned) ATOMICS(64, unsigned long long)
#undef ATOMICS
#undef CHANGE
void __tsan_atomic_thread_fence(int) { fenced = true; }
void __tsan_atomic_signal_fence(int) {}

void __ubsan_handle_type_mismatch_v1(const TypeMismatch *told, unsigned long long address) {
  if (!check) return;
  unsigned long long alignment = 1ull << told->log_alignment;
  bool misaligned = address & (alignment - 1), write = told->kind == 1;
  Kind kind = !address ? OUTSIDE : misaligned ? MISALIGNED : OBJECT;
  stop(kind, {address, (unsigned)alignment, place(HERE), 0, 0, 0, write, false, false});
}
void __ubsan_handle_alignment_assumption(const void *, unsigned long long address, unsigned long long alignment, unsigned long long offset) {
  broken_promise(address - offset, alignment, HERE);
}
void __ubsan_handle_out_of_bounds(const void *, unsigned long long) { broken_rule(BOUNDS, HERE); }
void __ubsan_handle_shift_out_of_bounds(const void *, unsigned long long, unsigned long long) { broken_rule(SHIFT, HERE); }
void __ubsan_handle_float_cast_overflow(const void *, unsigned long long) { broken_rule(CAST, HERE); }
void __ubsan_handle_divrem_overflow(const void *, unsigned long long, unsigned long long) { broken_rule(DIVISION, HERE); }
void __ubsan_handle_add_overflow(const void *, unsigned long long, unsigned long long) { broken_rule(OVERFLOW, HERE); }
void __ubsan_handle_sub_overflow(const void *, unsigned long long, unsigned long long) { broken_rule(OVERFLOW, HERE); }
void __ubsan_handle_mul_overflow(const void *, unsigned long long, unsigned long long) { broken_rule(OVERFLOW, HERE); }
void __ubsan_handle_negate_overflow(const void *, unsigned long long) { broken_rule(OVERFLOW, HERE); }
void __ubsan_handle_pointer_overflow(const void *, unsigned long long, unsigned long long) { broken_rule(OVERFLOW, HERE); }

// ---- what the text calls in place of its header's own ways -------------------------------------------------------

uint3 __host_index() { return __host_self()->index; }
unsigned __host_lane() { return __host_self()->lane; }
const __host_block *__host_block_of() { return __host_self()->warp->block; }
void *__host_dynamic() { return __host_self()->warp->block->dynamic_shared; }
dim3 __host_block_index() { return __host_block_of()->block_index; }
dim3 __host_block_dim() { return __host_block_of()->block_dim; }
dim3 __host_grid_dim() { return __host_block_of()->grid_dim; }
const void *__host_promised(const void *address, unsigned long long alignment, unsigned long long offset) {
  bool power = alignment && !(alignment & (alignment - 1));  // of anything else a compiler assumes nothing
  if (power) broken_promise((unsigned long long)address - offset, alignment, HERE);
  return address;
}
void __host_call_barrier(int line) { __host_barrier(line); }

void __host_sync(unsigned mask, int line) {
  converge(__host_self(), mask, line, [](__host_warp &warp, unsigned mask) { warp_passed(warp, mask); });
}

}
