// What the check build remembers of every word of memory, and what it finds wrong when a thread touches one.
//
// Time is a counter that goes on with every launch, block, barrier and warp barrier; one worker runs all blocks, so a
// moment says which block and which stretch between barriers an access belongs to.
#pragma once

#include "faults.h"

enum Kind { OUTSIDE = 1, READ_ONLY, UNWRITTEN, RACE_BLOCK, RACE_WARP, RACE_GRID, MISALIGNED, BOUNDS, OBJECT, SHIFT, OVERFLOW, DIVISION, LOCAL, PROMISE, CAST };

// A word, or a byte of a word that was once accessed by the byte. The latest write, and the reads since.
struct Cell {
  unsigned wrote, read;           // when; 0 never
  unsigned short writer, reader;  // threads of their blocks, and flags
  unsigned lanes;                 // of the reader's warp: who read
  unsigned wrote_at, read_at;     // places in the text
};
const unsigned THREAD = 0x3ff;
const unsigned ATOMIC = 0x400, MANY_WRITERS = 0x800, SPLIT = 0x8000;    // of a writer
const unsigned MANY_READERS = 0x400, OTHER_BLOCKS = 0x800;              // of a reader

// Global memory that a kernel may touch; without cells it is never written.
struct Region { unsigned long long start, nbytes; Cell *words, *bytes; int read_only; };

// What Python makes words of; workers/host/check.py has the same fields.
struct Finding {
  int kind, write;
  unsigned long long address;
  unsigned size, at, other_at, other_write, other_thread;
  unsigned thread[3], block[3];
};
const unsigned char COMPILERS = 255;
const int MOST_FINDINGS = 16;
struct Check {
  Region *regions;
  int region_count;
  const unsigned char *owners;  // which variable each byte of static shared memory belongs to; 0 none, or the compiler's own
  unsigned now;
  int found;
  Finding findings[MOST_FINDINGS];
  unsigned long long static_shared, dynamic_shared;  // where they were
};

namespace {

const unsigned MOST_SHARED_WORDS = SHARED_BYTES / 4;
Cell static_words[MOST_SHARED_WORDS], static_bytes[4 * MOST_SHARED_WORDS];
Cell dynamic_words[MOST_SHARED_WORDS], dynamic_bytes[4 * MOST_SHARED_WORDS];

Check *check;  // of the launch that runs; null: nothing is checked
struct Span { unsigned long long start, nbytes; };
const int MOST_INPUTS = 8;
Span inputs[MOST_INPUTS];      // what is known to be written and never will be again
int input_count;
Span fixed, dynamic;           // the block's shared memory, static and dynamic
unsigned launch_began, block_began, epoch;  // epoch: the latest barrier
bool fenced, acquired, released;            // a block's fence before an atomic access orders it before other blocks
unsigned warp_synced[32], warp_partly[32], seen[32][32][32];

inline unsigned place(const void *pc) { return (unsigned)((const char *)pc - __ehdr_start) - 1; }

struct Access {
  unsigned long long address;
  unsigned size, at, thread, now, floor;  // floor: what was written before is not there any more
  bool write, atomic, global;
};

__attribute__((noinline)) void report(Kind kind, const Access &access, unsigned other_at = 0, unsigned other_write = 0,
                                      unsigned other_thread = 0) {
  for (int i = 0; i < check->found; i++) {
    const Finding &known = check->findings[i];
    if (known.kind == kind && known.at == access.at && known.other_at == other_at) return;
  }
  if (check->found == MOST_FINDINGS) return;
  __host_thread *self = __host_self();
  const dim3 &b = self->warp->block->block_index;
  check->findings[check->found++] = {kind, access.write, access.address, access.size, access.at, other_at, other_write,
    other_thread & THREAD, {self->index.x, self->index.y, self->index.z}, {b.x, b.y, b.z}};
}

// For what can't go on: the access itself would harm the process.
[[noreturn]] __attribute__((noinline)) void stop(Kind kind, const Access &access) {
  report(kind, access);
  __host_thread *self = __host_self();
  fail(worker_of(self), 3, self, "%s", "");
}

// Whether what that thread of this block did at that moment is ordered before what this thread does now.
inline bool ordered(const Access &a, unsigned other, unsigned moment) {
  unsigned warp = a.thread >> 5;
  other &= THREAD;
  if (other == a.thread) return true;
  if (other >> 5 != warp) return false;
  if (moment < warp_synced[warp]) return true;
  return warp_partly[warp] >= epoch && moment < seen[warp][a.thread & 31][other & 31];
}

inline Kind race_with(const Access &a, unsigned other) { return (other & THREAD) >> 5 == a.thread >> 5 ? RACE_WARP : RACE_BLOCK; }

inline void against_write(const Cell &cell, const Access &a) {
  if (cell.wrote >= epoch) {
    if (a.atomic && cell.writer & ATOMIC) return;
    if (cell.writer & MANY_WRITERS || !ordered(a, cell.writer, cell.wrote))
      report(race_with(a, cell.writer), a, cell.wrote_at, 1, cell.writer);
  } else if (cell.wrote < a.floor) {
    if (!a.write || a.atomic) report(UNWRITTEN, a);
  } else if (a.global && cell.wrote < block_began && cell.wrote >= launch_began) {
    if (!(a.atomic && cell.writer & ATOMIC) && !(acquired && released)) report(RACE_GRID, a, cell.wrote_at, 1, cell.writer);
  }
}

inline void against_reads(const Cell &cell, const Access &a) {
  if (cell.read < launch_began) return;
  if (a.global && (cell.read < block_began || cell.reader & OTHER_BLOCKS) && !(acquired && released))
    return report(RACE_GRID, a, cell.read_at, 0, cell.reader);
  if (cell.read < epoch) return;
  if (cell.reader & MANY_READERS) return report(RACE_BLOCK, a, cell.read_at, 0, cell.reader);
  unsigned warp = a.thread >> 5;
  if ((cell.reader & THREAD) >> 5 != warp) return report(RACE_BLOCK, a, cell.read_at, 0, cell.reader);
  if (cell.read < warp_synced[warp]) return;
  // After a barrier of some lanes only the last reader's moment is known.
  unsigned others = warp_partly[warp] >= epoch ? 1u << (cell.reader & 31) : cell.lanes;
  for (others &= ~(1u << (a.thread & 31)); others; others &= others - 1) {
    unsigned other = warp << 5 | __builtin_ctz(others);
    if (!ordered(a, other, cell.read)) return report(RACE_WARP, a, cell.read_at, 0, other);
  }
}

inline void note_write(Cell &cell, const Access &a) {
  unsigned flags = cell.writer & SPLIT;
  if (a.atomic) {
    bool many = cell.wrote >= epoch && cell.writer & ATOMIC && (cell.writer & THREAD) >> 5 != a.thread >> 5;
    flags |= ATOMIC | (many ? MANY_WRITERS : 0);
  }
  cell.wrote = a.now, cell.writer = a.thread | flags, cell.wrote_at = a.at, cell.read = 0;
}

inline __attribute__((always_inline)) void note_read(Cell &cell, unsigned thread, unsigned at, unsigned now, bool global) {
  unsigned bit = 1u << (thread & 31), flags = 0;
  if (global && cell.read >= launch_began) flags = cell.read < block_began ? OTHER_BLOCKS : cell.reader & OTHER_BLOCKS;
  if (cell.read >= epoch) {
    bool same = (cell.reader & THREAD) >> 5 == thread >> 5;
    flags |= same ? cell.reader & MANY_READERS : MANY_READERS;
    cell.lanes = same && cell.read >= warp_synced[thread >> 5] ? cell.lanes | bit : bit;
  } else {
    cell.lanes = bit;
  }
  cell.read = now, cell.reader = thread | flags, cell.read_at = at;
}

inline void step(Cell &cell, const Access &a) {
  against_write(cell, a);
  if (!a.write) {  // an atomic read is no reason for an atomic write to wait
    if (!a.atomic) note_read(cell, a.thread, a.at, a.now, a.global);
    return;
  }
  if (cell.read) against_reads(cell, a);
  note_write(cell, a);
}

// Every word that is touched, or, where a word is touched in part, every byte.
inline void steps(Cell *words, Cell *bytes, unsigned long long offset, const Access &a) {
  for (unsigned long long at = offset, end = offset + a.size; at < end;) {
    Cell &word = words[at / 4];
    if (at % 4 == 0 && end - at >= 4 && !(word.writer & SPLIT)) {
      step(word, a);
      at += 4;
      continue;
    }
    if (!(word.writer & SPLIT)) {
      for (int i = 0; i < 4; i++) bytes[at / 4 * 4 + i] = word;
      word.writer |= SPLIT;
    }
    step(bytes[at++], a);
  }
}

// ---- time --------------------------------------------------------------------------------------------------

// Shared memory has a past in one launch only; another launch may count time from the start.
inline void launch_begins(Check *checked) {
  check = checked;
  if (!checked) return;
  input_count = 0;
  for (int i = 0; i < checked->region_count && input_count < MOST_INPUTS; i++)
    if (!checked->regions[i].words) inputs[input_count++] = {checked->regions[i].start, checked->regions[i].nbytes};
  launch_began = ++checked->now;
  released = false;
  memset(static_words, 0, sizeof(static_words));
  memset(dynamic_words, 0, sizeof(dynamic_words));
  memset(warp_synced, 0, sizeof(warp_synced));
  memset(warp_partly, 0, sizeof(warp_partly));
  memset(seen, 0, sizeof(seen));
}

inline void block_begins(const void *start, unsigned long nbytes, const Worker &worker) {
  if (!check) return;
  fixed = {(unsigned long long)start, nbytes};
  dynamic = {(unsigned long long)worker.dynamic_shared, worker.launch->dynamic_bytes};
  check->static_shared = fixed.start;
  check->dynamic_shared = dynamic.start;
  block_began = epoch = ++check->now;
  fenced = acquired = false;
}

inline void barrier_passed() {
  if (check) epoch = ++check->now;
}

inline void warp_passed(const __host_warp &warp, unsigned mask) {
  if (!check) return;
  unsigned w = warp.first / 32, now = ++check->now;
  if (mask == warp.exist) {
    warp_synced[w] = now;
    return;
  }
  unsigned merged[32];
  for (unsigned b = 0; b < 32; b++) {
    merged[b] = mask >> b & 1 ? now : 0;
    for (unsigned a = 0; a < 32; a++)
      if (mask >> a & 1 && seen[w][a][b] > merged[b]) merged[b] = seen[w][a][b];
  }
  for (unsigned a = 0; a < 32; a++)
    if (mask >> a & 1) memcpy(seen[w][a], merged, sizeof(merged));
  warp_partly[w] = now;
}

}  // namespace
