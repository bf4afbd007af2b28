"""What this machine can do at best: the rate at which a plain loop reads memory.

python -m benchmarks.ceilings [BYTES] [THREADS]
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = r"""
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/mman.h>
typedef struct { const uint64_t *data; size_t n; uint64_t sum; } Part;
static void *read_part(void *arg) {
  Part *p = arg;
  uint64_t s[8] = {0};
  for (size_t i = 0; i + 32 <= p->n; i += 32)
    for (int k = 0; k < 8; ++k)
      s[k] += p->data[i + k] + p->data[i + 8 + k] + p->data[i + 16 + k] + p->data[i + 24 + k];
  for (int k = 0; k < 8; ++k) p->sum += s[k];
  return 0;
}
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}
double read_rate(size_t bytes, int threads, int rounds) {
  uint64_t *data = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  madvise(data, bytes, 14);
  memset(data, 1, bytes);
  double best = 0;
  for (int r = 0; r < rounds; ++r) {
    pthread_t ids[64];
    Part parts[64];
    size_t n = bytes / 8 / threads;
    double t = now();
    for (int i = 0; i < threads; ++i) {
      parts[i].data = data + i * n; parts[i].n = n; parts[i].sum = 0;
      if (i) pthread_create(&ids[i], 0, read_part, &parts[i]);
    }
    read_part(&parts[0]);
    for (int i = 1; i < threads; ++i) pthread_join(ids[i], 0);
    double rate = bytes / (now() - t);
    if (rate > best) best = rate;
  }
  munmap(data, bytes);
  return best;
}
"""


def read_bandwidth(nbytes: int, threads: int, rounds: int = 9) -> float:
    """The best of some passes over a buffer of that size, in bytes per second."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise RuntimeError("a C compiler is needed to measure the read loop")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "read.c")
        source.write_text(SOURCE)
        library = Path(folder, "read.so")
        subprocess.run(
            [
                compiler,
                "-O3",
                "-march=native",
                "-shared",
                "-fPIC",
                "-pthread",
                str(source),
                "-o",
                str(library),
            ],
            check=True,
        )
        call = ctypes.CDLL(str(library)).read_rate
        call.restype = ctypes.c_double
        call.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_int]
        return float(call(nbytes // 4096 * 4096, threads, rounds))


if __name__ == "__main__":
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 97 << 20
    for count in [int(sys.argv[2])] if len(sys.argv) > 2 else [1, 2]:
        print(
            f"{size / 1e6:.0f} MB, {count} thread(s): {read_bandwidth(size, count) / 1e9:.1f} GB/s"
        )
