// What every kernel starts from: types, dtypes, loads and stores, sums over a block. No header of the toolkit is
// needed. The host includes the structures of arguments (arguments.cuh) too.
#pragma once

#include "arguments.cuh"

#define CLIKA_INLINE __device__ __forceinline__

// Shared memory whose size the launch gives.
#if !defined(CLIKA_DYNAMIC_SHARED)
#define CLIKA_DYNAMIC_SHARED(name) extern __shared__ __align__(16) char name[]
#endif

#define CLIKA_INFINITY __uint_as_float(0x7f800000u)
#define CLIKA_NAN __uint_as_float(0x7fc00000u)

// What the hardware converts; the emulator of the tests brings its own.
#if !defined(CLIKA_EMULATED)
CLIKA_INLINE float half_to_float(u16 bits) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(bits));
  return y;
}
CLIKA_INLINE u16 float_to_half(float x) {
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
CLIKA_INLINE u16 float_to_bfloat(float x) {
  u16 bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
#endif

// ---------------------------------------------------------------- between kernels
// A kernel of a program that begins early may start while those before it on the stream still run. It calls
// wait_for_earlier before it reads or writes any memory: that returns when all of them are done. What may come first is
// ask_early, which asks for memory without looking at it. The kernel behind it may start when all blocks have called
// let_next_begin or are done. Kernels whose blocks stay to the end call that late, or not: blocks of the next one would
// take the places that happen to be free, and share the work unevenly.
#if !defined(CLIKA_EMULATED) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
CLIKA_INLINE void wait_for_earlier() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
CLIKA_INLINE void let_next_begin() { asm volatile("griddepcontrol.launch_dependents;"); }
CLIKA_INLINE void ask_early(const void* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }
#else
CLIKA_INLINE void wait_for_earlier() {}
CLIKA_INLINE void let_next_begin() {}
CLIKA_INLINE void ask_early(const void*) {}
#endif
// For short kernels.
CLIKA_INLINE void begin_early() {
  wait_for_earlier();
  let_next_begin();
}

// ---------------------------------------------------------------- 16-bit floats
struct bf16 {
  u16 bits;
};
struct f16 {
  u16 bits;
};

CLIKA_INLINE float to_float(float x) { return x; }
CLIKA_INLINE float to_float(bf16 x) { return __uint_as_float(static_cast<u32>(x.bits) << 16); }
CLIKA_INLINE float to_float(f16 x) { return half_to_float(x.bits); }
template <class T>
CLIKA_INLINE T from_float(float x);
template <>
CLIKA_INLINE float from_float<float>(float x) {
  return x;
}
template <>
CLIKA_INLINE bf16 from_float<bf16>(float x) {
  return {float_to_bfloat(x)};
}
template <>
CLIKA_INLINE f16 from_float<f16>(float x) {
  return {float_to_half(x)};
}
// Towards the odd neighbour, so that a second rounding to fewer digits is as good as one.
CLIKA_INLINE float to_odd(double x) {
  float y = __double2float_rz(x);
  if (static_cast<double>(y) != x && x == x) y = __uint_as_float(__float_as_uint(y) | 1u);
  return y;
}

// ---------------------------------------------------------------- elements by dtype
// The element at p in compute type C: float, double, i64 or u64.
template <class C>
CLIKA_INLINE C load(const void* p, int dtype) {
  switch (dtype) {
    case kBool: return static_cast<C>(*static_cast<const u8*>(p) != 0);
    case kInt8: return static_cast<C>(*static_cast<const signed char*>(p));
    case kInt16: return static_cast<C>(*static_cast<const short*>(p));
    case kInt32: return static_cast<C>(*static_cast<const int*>(p));
    case kInt64: return static_cast<C>(*static_cast<const i64*>(p));
    case kUint8: return static_cast<C>(*static_cast<const u8*>(p));
    case kUint16: return static_cast<C>(*static_cast<const u16*>(p));
    case kUint32: return static_cast<C>(*static_cast<const u32*>(p));
    case kUint64: return static_cast<C>(*static_cast<const u64*>(p));
    case kFloat16: return static_cast<C>(to_float(*static_cast<const f16*>(p)));
    case kBfloat16: return static_cast<C>(to_float(*static_cast<const bf16*>(p)));
    case kFloat32: return static_cast<C>(*static_cast<const float*>(p));
    case kFloat64: return static_cast<C>(*static_cast<const double*>(p));
    default: return C{};
  }
}
CLIKA_INLINE float as_float(float x) { return x; }
CLIKA_INLINE float as_float(double x) { return to_odd(x); }
CLIKA_INLINE float as_float(i64 x) { return to_odd(static_cast<double>(x)); }
CLIKA_INLINE float as_float(u64 x) { return to_odd(static_cast<double>(x)); }

CLIKA_INLINE int bytes_of(int dtype) {
  switch (dtype) {
    case kInt16: case kUint16: case kFloat16: case kBfloat16: return 2;
    case kInt32: case kUint32: case kFloat32: return 4;
    case kInt64: case kUint64: case kFloat64: return 8;
    default: return 1;
  }
}
template <class C>
CLIKA_INLINE void store(void* p, int dtype, C x) {
  switch (dtype) {
    case kBool: *static_cast<u8*>(p) = x != C{}; return;
    case kInt8: *static_cast<signed char*>(p) = static_cast<signed char>(static_cast<i64>(x)); return;
    case kInt16: *static_cast<short*>(p) = static_cast<short>(static_cast<i64>(x)); return;
    case kInt32: *static_cast<int*>(p) = static_cast<int>(static_cast<i64>(x)); return;
    case kInt64: *static_cast<i64*>(p) = static_cast<i64>(x); return;
    case kUint8: *static_cast<u8*>(p) = static_cast<u8>(static_cast<i64>(x)); return;
    case kUint16: *static_cast<u16*>(p) = static_cast<u16>(static_cast<i64>(x)); return;
    case kUint32: *static_cast<u32*>(p) = static_cast<u32>(static_cast<i64>(x)); return;
    case kUint64: *static_cast<u64*>(p) = static_cast<u64>(x); return;
    case kFloat16: *static_cast<f16*>(p) = from_float<f16>(as_float(x)); return;
    case kBfloat16: *static_cast<bf16*>(p) = from_float<bf16>(as_float(x)); return;
    case kFloat32: *static_cast<float*>(p) = static_cast<float>(x); return;
    case kFloat64: *static_cast<double*>(p) = static_cast<double>(x); return;
    default: return;
  }
}

// ---------------------------------------------------------------- places
// The offset, in elements, of element `at` in row-major order of the shape.
template <class I>
CLIKA_INLINE i64 offset_of(I at, int rank, const i64* shape, const i64* strides) {
  i64 offset = 0;
  for (int d = rank - 1; d > 0; --d) {
    const I size = static_cast<I>(shape[d]);
    const I rest = at / size;
    offset += static_cast<i64>(at - rest * size) * strides[d];
    at = rest;
  }
  return rank > 0 ? offset + static_cast<i64>(at) * strides[0] : offset;
}

// Says what went wrong to whoever reads next; the first one to say it is heard.
CLIKA_INLINE void report(Report* to, u32 code, u64 op, i64 value, i64 size) {
  if (to == nullptr || atomicCAS(&to->claimed, 0u, 1u) != 0u) return;
  to->op = op;
  to->value = value;
  to->size = size;
  __threadfence_system();
  *reinterpret_cast<volatile u32*>(&to->code) = code;
}

// ---------------------------------------------------------------- over a block
// The value of the lane whose number differs by `mask`; all 32 lanes take part.
template <class T>
CLIKA_INLINE T shuffle_xor(T x, int mask) {
  static_assert(sizeof(T) % 4 == 0, "whole words");
  u32 words[sizeof(T) / 4];
  memcpy(words, &x, sizeof(T));
  for (u32& word : words) word = __shfl_xor_sync(0xffffffffu, word, mask);
  memcpy(&x, words, sizeof(T));
  return x;
}

// The value of another lane; all 32 lanes take part.
template <class T>
CLIKA_INLINE T from_lane(T x, int lane) {
  static_assert(sizeof(T) % 4 == 0, "whole words");
  u32 words[sizeof(T) / 4];
  memcpy(words, &x, sizeof(T));
  for (u32& word : words) word = __shfl_sync(0xffffffffu, word, lane);
  memcpy(&x, words, sizeof(T));
  return x;
}
// The sum of the values of the lanes up to this one.
template <class T>
CLIKA_INLINE T over_lanes(T x) {
  const int lane = threadIdx.x & 31;
  for (int step = 1; step < 32; step <<= 1) {
    const T other = from_lane(x, lane >= step ? lane - step : lane);
    if (lane >= step) x += other;
  }
  return x;
}

// `join` of the values of all threads, in an order that depends on the number of threads alone; every thread gets it.
// The block is whole warps, 1024 threads at most.
template <class T, class Join>
CLIKA_INLINE T over_block(T x, T start, const Join& join) {
  __shared__ T parts[32];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  for (int step = 16; step > 0; step >>= 1) x = join(x, shuffle_xor(x, step));
  __syncthreads();  // the parts of a call before have been read
  if (lane == 0) parts[warp] = x;
  __syncthreads();
  x = lane < warps ? parts[lane] : start;
  for (int step = 16; step > 0; step >>= 1) x = join(x, shuffle_xor(x, step));
  return x;
}
