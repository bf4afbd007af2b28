"""What this machine can do at best: the rate at which a plain loop reads memory, and those of
independent float32 multiply-adds and of dot products of int8 in registers.

python -m benchmarks.ceilings [BYTES] [THREADS]
"""

from __future__ import annotations

import ctypes
import functools
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
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
#endif
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
#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX__)
#define LANES 8
#else
#define LANES 4
#endif
typedef float Lanes __attribute__((vector_size(4 * LANES)));
static volatile float kept;
static void *multiply_part(void *arg) {
  long n = *(long *)arg;
  Lanes a[12], x = (Lanes){0} + 0.999f, y = (Lanes){0} + 1e-3f;
  for (int i = 0; i < 12; ++i) a[i] = (Lanes){0} + (float)i;
  for (long k = 0; k < n; ++k)
    for (int i = 0; i < 12; ++i) a[i] = a[i] * x + y;
  float s = 0;
  for (int i = 0; i < 12; ++i) s += a[i][0];
  kept = s;
  return 0;
}
/* Sums of products of int8, four to a lane, by the best instruction that the machine has. */
#if defined(__AVX512VNNI__)
typedef __m512i Ints;
static inline Ints dot(Ints s, Ints a, Ints b) { return _mm512_dpbusd_epi32(s, a, b); }
#elif defined(__AVX2__)
typedef __m256i Ints;
static inline Ints dot(Ints s, Ints a, Ints b) {
  return _mm256_add_epi32(s, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), _mm256_set1_epi16(1)));
}
#elif defined(__ARM_FEATURE_DOTPROD)
typedef int32x4_t Ints;
static inline Ints dot(Ints s, Ints a, Ints b) {
  return vdotq_s32(s, vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b));
}
#else
typedef int Ints __attribute__((vector_size(16)));
static inline Ints dot(Ints s, Ints a, Ints b) { return s + a * b; } /* one product to a lane */
#endif
/* The compiler may not know what a register holds. */
#if defined(__x86_64__)
#define UNKNOWN(x) __asm__ volatile("" : "+v"(x))
#else
#define UNKNOWN(x) __asm__ volatile("" : "+w"(x))
#endif
static char bytes[65];
static void *dot_part(void *arg) {
  long n = *(long *)arg;
  Ints s[12], a, b;
  memcpy(&a, bytes, sizeof(a));
  memcpy(&b, bytes + 1, sizeof(b));
  for (int i = 0; i < 12; ++i) s[i] = a ^ b;
  UNKNOWN(b);
  for (long k = 0; k < n; ++k) {
    for (int i = 0; i < 12; ++i) {
      UNKNOWN(a); /* or one product would do for all sums */
      s[i] = dot(s[i], a, b);
      UNKNOWN(s[i]); /* or the sums would be found as a tree, or without a loop */
    }
  }
  for (int i = 1; i < 12; ++i) s[0] ^= s[i];
  int first;
  memcpy(&first, &s[0], sizeof(first));
  kept = (float)first;
  return 0;
}
static double rate_of(void *(*part)(void *), double operations, int threads, int rounds) {
  double best = 0;
  for (int r = 0; r < rounds; ++r) {
    pthread_t ids[64];
    long n = 1000000;
    double t = now();
    for (int i = 1; i < threads; ++i) pthread_create(&ids[i], 0, part, &n);
    part(&n);
    for (int i = 1; i < threads; ++i) pthread_join(ids[i], 0);
    double rate = operations * 12 * n * threads / (now() - t);
    if (rate > best) best = rate;
  }
  return best;
}
double multiply_rate(int threads, int rounds) {
  return rate_of(multiply_part, 2.0 * LANES, threads, rounds);
}
double dot_rate(int threads, int rounds) {
  return rate_of(dot_part, 2.0 * sizeof(Ints), threads, rounds);
}
"""


@functools.cache
def _library() -> Any:
    """The C source, compiled for this machine."""
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
        return ctypes.CDLL(str(library))


def _measure(name: str, *values: tuple[Any, int]) -> float:
    """The result of a function of the library; ``values`` are its arguments with their types."""
    call = getattr(_library(), name)
    call.restype = ctypes.c_double
    return float(call(*(kind(value) for kind, value in values)))


def read_bandwidth(nbytes: int, threads: int, rounds: int = 9) -> float:
    """The best of some passes over a buffer of that size, in bytes per second."""
    size = (ctypes.c_size_t, nbytes // 4096 * 4096)
    return _measure("read_rate", size, (ctypes.c_int, threads), (ctypes.c_int, rounds))


def fma_rate(threads: int, rounds: int = 15) -> float:
    """The best of some loops of float32 multiply-adds in registers, in operations per second."""
    return _measure("multiply_rate", (ctypes.c_int, threads), (ctypes.c_int, rounds))


def dot_rate(threads: int, rounds: int = 15) -> float:
    """The best of some loops of int8 dot products in registers, in operations per second."""
    return _measure("dot_rate", (ctypes.c_int, threads), (ctypes.c_int, rounds))


if __name__ == "__main__":
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 97 << 20
    for count in [int(sys.argv[2])] if len(sys.argv) > 2 else [1, 2]:
        print(
            f"{size / 1e6:.0f} MB, {count} thread(s): {read_bandwidth(size, count) / 1e9:.1f} GB/s"
        )
        print(f"{'':7}float32 multiply-adds: {fma_rate(count) / 1e9:.0f} GFLOP/s")
        print(f"{'':7}int8 dot products: {dot_rate(count) / 1e9:.0f} Gop/s")
