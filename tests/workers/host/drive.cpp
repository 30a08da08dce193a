// Launches a built matvec text without Python, so that an emulator can run it: drive TEXT ROWS COLS ROW_BYTES GRID
// SHARED; weights and activations come from w.bin and x.bin, y0.bin and y1.bin get the sums of the two orders.
#include "faults.h"

#include <dlfcn.h>

static void *slurp(const char *name) {
  FILE *file = fopen(name, "rb");
  fseek(file, 0, SEEK_END);
  size_t bytes = ftell(file);
  void *content = aligned_alloc(64, (bytes + 63) / 64 * 64);
  rewind(file);
  return fread(content, 1, bytes, file) == bytes ? content : nullptr;
}

int main(int, char **words) {
  struct Kernel { const char *name; void (*call)(const unsigned long long *); };
  void *text = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
  if (!text) return puts(dlerror());
  unsigned rows = atoi(words[2]), cols = atoi(words[3]), row_bytes = atoi(words[4]), grid = atoi(words[5]);
  float *y = (float *)calloc(rows, sizeof(float));
  unsigned long long slots[] = {(size_t)slurp("w.bin"), (size_t)slurp("x.bin"), (size_t)y, rows, cols, row_bytes};
  Pool *pool = ((Pool * (*)()) dlsym(text, "farm_pool"))();
  for (int turn = 0; turn < 3; turn++) {
    if (turn == 2) slots[1] = 0;  // a null pointer for the activations
    Launch launch = {((Kernel *)dlsym(text, "farm_kernels"))->call, slots, {grid, 1, 1}, {256, 1, 1},
                     (unsigned)atoi(words[6]), turn & 1, 2, pool, 0, {}, 0, 0};
    if (((int (*)(Launch *))dlsym(text, "farm_launch"))(&launch)) return 1;
    printf("turn %d: failed %d kind %d%s\n", turn, launch.failed, launch.report.kind, launch.report.text);
    if (turn == 2) return 0;
    FILE *file = fopen(turn ? "y1.bin" : "y0.bin", "wb");
    fwrite(y, sizeof(float), rows, file);
    fclose(file);
    memset(y, 0, rows * sizeof(float));
  }
}
