// The device's side of CUDA C++ on the host, for kernels of the tests. Threads of a block run one after the other; where
// the source has barriers or shuffles (EMULATED_TOGETHER) each is a fiber, and a barrier switches to the next.
#pragma once

// A checked longjmp takes another fiber's stack for a frame that has gone.
#undef _FORTIFY_SOURCE

#include <math.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#include <memory>
#include <vector>

#define __device__
#define __global__
#define __host__
#define __shared__ static
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define CLIKA_DYNAMIC_SHARED(name) char* name = emulated::dynamic_shared()

struct uint3_ {
  unsigned x, y, z;
};
static uint3_ threadIdx, blockIdx, blockDim, gridDim;

namespace emulated {

inline char* dynamic_shared() {
  static std::vector<char> memory(232448 + 64);
  return reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
}

#if defined(EMULATED_TOGETHER)
enum State { kReady, kAtWarp, kAtBlock, kDone };
struct Copy {  // in the background, until the thread waits for it
  void* to;
  const void* from;
  bool there;
  int set;
};
constexpr size_t kStack = 128 << 10;
struct Fiber {
  jmp_buf place;  // where it goes on; ucontext's switches, which ask the system each time, are for the first entry
  State state = kReady;
  bool entered = false;
  unsigned index = 0;
  uint32_t slot = 0;
  uint64_t words[6];  // what other lanes read
  std::vector<Copy> copies;
  int sets = 0;
  std::unique_ptr<char[]> stack{new char[kStack]};  // becomes real as it is written
};
// They outlive their block: the next one's threads run on them.
static std::vector<std::unique_ptr<Fiber>> fibers;
static jmp_buf scheduler;
static Fiber* running;
static void (*body)();

static __attribute__((noinline)) void wait(State state) {
  running->state = state;
  if (_setjmp(running->place) == 0) _longjmp(scheduler, 1);
}
static void enter() {
  for (;;) {
    body();
    wait(kDone);
  }
}
static __attribute__((noinline)) void go_on(Fiber& fiber) {
  running = &fiber;
  threadIdx.x = fiber.index;
  if (_setjmp(scheduler) != 0) return;
  if (fiber.entered) _longjmp(fiber.place, 1);
  fiber.entered = true;
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = fiber.stack.get();
  context.uc_stack.ss_size = kStack;
  context.uc_link = nullptr;
  makecontext(&context, enter, 0);
  setcontext(&context);
}
static void run_block(unsigned threads) {
  while (fibers.size() < threads) fibers.emplace_back(new Fiber);
  for (unsigned t = 0; t < threads; ++t) {
    Fiber& fiber = *fibers[t];
    fiber.state = kReady;
    fiber.index = t;
    fiber.copies.clear();
    fiber.sets = 0;
  }
  for (;;) {
    bool moved = false;
    for (unsigned t = 0; t < threads; ++t) {
      if (fibers[t]->state != kReady) continue;
      go_on(*fibers[t]);
      moved = true;
    }
    // A warp goes on when all of it waits; the block, when nobody does anything else.
    for (unsigned w = 0; w < threads; w += 32) {
      const unsigned end = w + 32 < threads ? w + 32 : threads;
      bool all = true;
      for (unsigned t = w; t < end; ++t) all = all && (fibers[t]->state == kAtWarp || fibers[t]->state == kDone);
      for (unsigned t = w; t < end && all; ++t) {
        if (fibers[t]->state == kAtWarp) {
          fibers[t]->state = kReady;
          moved = true;
        }
      }
    }
    if (moved) continue;
    bool all = true, done = true;
    for (unsigned t = 0; t < threads; ++t) {
      all = all && (fibers[t]->state == kAtBlock || fibers[t]->state == kDone);
      done = done && fibers[t]->state == kDone;
    }
    if (done) return;
    if (!all) __builtin_trap();  // a barrier that not all threads reach
    for (unsigned t = 0; t < threads; ++t) {
      if (fibers[t]->state == kAtBlock) fibers[t]->state = kReady;
    }
  }
}
#endif

template <class Kernel>
void run(const Kernel& kernel, unsigned gx, unsigned gy, unsigned gz, unsigned threads) {
  gridDim = {gx, gy, gz};
  blockDim = {threads, 1, 1};
  threadIdx = {0, 0, 0};
  for (unsigned z = 0; z < gz; ++z) {
    for (unsigned y = 0; y < gy; ++y) {
      for (unsigned x = 0; x < gx; ++x) {
        blockIdx = {x, y, z};
#if defined(EMULATED_TOGETHER)
        static const Kernel* now;
        now = &kernel;
        body = [] { (*now)(); };
        run_block(threads);
#else
        for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) kernel();
#endif
      }
    }
  }
}

}  // namespace emulated

#if defined(EMULATED_TOGETHER)
inline void __syncthreads() { emulated::wait(emulated::kAtBlock); }
inline void __syncwarp() { emulated::wait(emulated::kAtWarp); }
inline uint32_t emulated_exchange(uint32_t x, unsigned from) {
  emulated::running->slot = x;
  emulated::wait(emulated::kAtWarp);
  const uint32_t y = emulated::fibers[from]->slot;
  emulated::wait(emulated::kAtWarp);
  return y;
}
inline uint32_t __shfl_xor_sync(unsigned, uint32_t x, int mask) {
  return emulated_exchange(x, emulated::running->index ^ static_cast<unsigned>(mask));
}
inline uint32_t __shfl_sync(unsigned, uint32_t x, int lane) {
  return emulated_exchange(x, (emulated::running->index & ~31u) | static_cast<unsigned>(lane));
}
// Twins of tensor_cores.cuh. Lane l holds of 8 x 8 elements 2 (l % 4) and the next of row l / 4.
inline const emulated::Fiber& emulated_lane(unsigned lane) {
  return *emulated::fibers[(emulated::running->index & ~31u) | lane];
}
template <class Read>
inline void emulated_matrices(uint32_t (&r)[4], const void* row, const Read& read) {
  emulated::running->words[0] = reinterpret_cast<uintptr_t>(row);
  emulated::wait(emulated::kAtWarp);
  const auto element = [](unsigned matrix, unsigned row, unsigned column) {
    uint16_t x;
    memcpy(&x, reinterpret_cast<const char*>(emulated_lane(8 * matrix + row).words[0]) + 2 * column, 2);
    return static_cast<uint32_t>(x);
  };
  const unsigned lane = emulated::running->index & 31u, line = lane / 4, pair = 2 * (lane % 4);
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0) __builtin_trap();
  for (unsigned i = 0; i < 4; ++i) {
    r[i] = read(element, i, line, pair) | read(element, i, line, pair + 1) << 16;
  }
  emulated::wait(emulated::kAtWarp);
}
inline void load_matrices(uint32_t (&r)[4], const void* row) {
  emulated_matrices(r, row, [](auto element, unsigned i, unsigned line, unsigned at) { return element(i, line, at); });
}
inline void load_transposed(uint32_t (&r)[4], const void* row) {
  emulated_matrices(r, row, [](auto element, unsigned i, unsigned line, unsigned at) { return element(i, at, line); });
}
// d += a b: a has rows l / 4 and eight below, of columns 0 .. 7 and then 8 .. 15; b has column l / 4, of rows 0 .. 7 and
// then 8 .. 15.
template <class ToFloat>
inline void multiply_emulated(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, const ToFloat& to_float) {
  uint64_t(&words)[6] = emulated::running->words;
  for (int i = 0; i < 4; ++i) words[i] = a[i];
  words[4] = b0;
  words[5] = b1;
  emulated::wait(emulated::kAtWarp);
  const unsigned lane = emulated::running->index & 31u;
  for (unsigned e = 0; e < 4; ++e) {
    const unsigned below = e / 2, column = 2 * (lane % 4) + e % 2;
    float sum = 0.0f;
    for (unsigned k = 0; k < 16; ++k) {
      const unsigned holder = k % 8 / 2, shift = 16 * (k % 2);
      const uint64_t x = emulated_lane(lane / 4 * 4 + holder).words[below + 2 * (k / 8)];
      const uint64_t y = emulated_lane(column * 4 + holder).words[4 + k / 8];
      sum += to_float(static_cast<uint32_t>(x) >> shift & 0xffffu) * to_float(static_cast<uint32_t>(y) >> shift & 0xffffu);
    }
    d[e] += sum;
  }
  emulated::wait(emulated::kAtWarp);
}
inline void copy_async(void* to, const void* from, bool there) {
  if ((reinterpret_cast<uintptr_t>(to) | (there ? reinterpret_cast<uintptr_t>(from) : 0)) % 16 != 0) __builtin_trap();
  emulated::running->copies.push_back({to, from, there, emulated::running->sets});
}
inline void end_copies() { ++emulated::running->sets; }
template <int n>
inline void wait_copies() {
  std::vector<emulated::Copy> later;
  for (const emulated::Copy& copy : emulated::running->copies) {
    if (copy.set >= emulated::running->sets - n) {
      later.push_back(copy);
    } else if (copy.there) {
      memcpy(copy.to, copy.from, 16);
    } else {
      memset(copy.to, 0, 16);
    }
  }
  emulated::running->copies = later;
}
#else
inline void __syncthreads() { __builtin_trap(); }
inline void __syncwarp() { __builtin_trap(); }
inline uint32_t __shfl_xor_sync(unsigned, uint32_t, int) { __builtin_trap(); }
inline uint32_t __shfl_sync(unsigned, uint32_t, int) { __builtin_trap(); }
#endif

inline uint32_t __byte_perm(uint32_t a, uint32_t b, uint32_t which) {
  const uint64_t both = a | static_cast<uint64_t>(b) << 32;
  uint32_t made = 0;
  for (int i = 0; i < 4; ++i) made |= static_cast<uint32_t>(both >> (which >> 4 * i & 7) * 8 & 255) << 8 * i;
  return made;
}
inline float __uint_as_float(uint32_t bits) {
  float x;
  memcpy(&x, &bits, 4);
  return x;
}
inline uint32_t __float_as_uint(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return bits;
}
inline float __double2float_rz(double x) {
  float y = static_cast<float>(x);
  if (fabs(static_cast<double>(y)) > fabs(x)) y = nextafterf(y, 0.0f);
  return y;
}
inline float __fmul_rn(float a, float b) { return a * b; }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dadd_rn(double a, double b) { return a + b; }
template <class T>
inline T atomicMax(T* to, T with) {
  const T was = *to;
  if (with > was) *to = with;
  return was;
}
template <class T>
inline T atomicExch(T* to, T with) {
  const T was = *to;
  *to = with;
  return was;
}
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fdividef(float a, float b) { return a / b; }
inline void __threadfence_system() {}
inline void __threadfence() {}
inline uint32_t atomicCAS(uint32_t* to, uint32_t old, uint32_t with) {
  const uint32_t was = *to;
  if (was == old) *to = with;
  return was;
}
template <class T>
inline T atomicAdd(T* to, T by) {
  const T was = *to;
  *to += by;
  return was;
}
using std::isinf;
using std::signbit;

inline float half_to_float(unsigned short bits) {
  _Float16 x;
  memcpy(&x, &bits, 2);
  return static_cast<float>(x);
}
inline unsigned short float_to_half(float x) {
  const _Float16 y = static_cast<_Float16>(x);
  unsigned short bits;
  memcpy(&bits, &y, 2);
  return bits;
}
inline unsigned short float_to_bfloat(float x) {
  const uint32_t bits = __float_as_uint(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<unsigned short>((bits >> 16) | 0x40u);
  return static_cast<unsigned short>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

#define EMULATED_KERNEL(name, type)                                                                         \
  extern "C" __attribute__((visibility("default"))) void run_##name(const void* argument, unsigned gx,      \
                                                                    unsigned gy, unsigned gz, unsigned threads, unsigned) { \
    const type& e = *static_cast<const type*>(argument);                                                    \
    emulated::run([&] { name(e); }, gx, gy, gz, threads);                                                   \
  }                                                                                                         \
  extern "C" __attribute__((visibility("default"))) const size_t bytes_##name = sizeof(type);
