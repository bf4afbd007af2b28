"""What this machine can do at best: the rate at which a plain loop reads memory, and that of
independent float32 multiply-adds in registers.

python -m benchmarks.ceilings [BYTES] [THREADS]
"""

from __future__ import annotations

import ctypes
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

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
typedef float Lanes __attribute__((vector_size(64)));
static volatile float kept;
static void *multiply_part(void *arg) {
  long n = *(long *)arg;
  Lanes a[12], x = (Lanes){0} + 0.999f, y = (Lanes){0} + 1e-3f;
  for (int i = 0; i < 12; ++i) a[i] = (Lanes){0} + (float)i;
  for (long k = 0; k < n; ++k)
    for (int i = 0; i < 12; ++i) a[i] = a[i] * x + y;
  float s = 0;
  for (int i = 0; i < 12; ++i) s += a[i][i];
  kept = s;
  return 0;
}
double multiply_rate(int threads, int rounds) {
  double best = 0;
  for (int r = 0; r < rounds; ++r) {
    pthread_t ids[64];
    long n = 1000000;
    double t = now();
    for (int i = 1; i < threads; ++i) pthread_create(&ids[i], 0, multiply_part, &n);
    multiply_part(&n);
    for (int i = 1; i < threads; ++i) pthread_join(ids[i], 0);
    double rate = 2.0 * 16 * 12 * n * threads / (now() - t);
    if (rate > best) best = rate;
  }
  return best;
}
"""


def _compiled(name: str) -> Any:
    """A function of the C source, compiled for this machine."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise RuntimeError("a C compiler is needed to measure the ceilings")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "ceilings.c")
        source.write_text(SOURCE)
        library = Path(folder, "ceilings.so")
        flags = ["-O3", "-march=native", "-ffp-contract=fast"]
        if platform.machine() in ("x86_64", "AMD64"):
            flags.append("-mprefer-vector-width=512")
        flags += ["-shared", "-fPIC", "-pthread"]
        subprocess.run([compiler, *flags, str(source), "-o", str(library)], check=True)
        call = getattr(ctypes.CDLL(str(library)), name)
    call.restype = ctypes.c_double
    return call


def read_bandwidth(nbytes: int, threads: int, rounds: int = 9) -> float:
    """The best of some passes over a buffer of that size, in bytes per second."""
    call = _compiled("read_rate")
    call.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_int]
    return float(call(nbytes // 4096 * 4096, threads, rounds))


def fma_rate(threads: int, rounds: int = 15) -> float:
    """The best of some loops of float32 multiply-adds in registers, in operations per second."""
    call = _compiled("multiply_rate")
    call.argtypes = [ctypes.c_int, ctypes.c_int]
    return float(call(threads, rounds))


if __name__ == "__main__":
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 97 << 20
    for count in [int(sys.argv[2])] if len(sys.argv) > 2 else [1, 2]:
        print(
            f"{size / 1e6:.0f} MB, {count} thread(s): {read_bandwidth(size, count) / 1e9:.1f} GB/s"
        )
        print(f"{'':7}multiply-adds: {fma_rate(count) / 1e9:.0f} GFLOP/s")
