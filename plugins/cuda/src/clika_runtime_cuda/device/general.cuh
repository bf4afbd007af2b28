// Elements of views by their numbers in row-major order.
#pragma once

#include "general_arguments.cuh"

CLIKA_INLINE i64 first_of_thread() { return static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; }
CLIKA_INLINE i64 threads_of_grid() { return static_cast<i64>(gridDim.x) * blockDim.x; }

CLIKA_INLINE const void* place_of(const View& v, i64 at) {
  if (v.is_number != 0) return &v.number;
  return static_cast<const char*>(v.data) + offset_of<i64>(at, v.rank, v.shape, v.strides) * bytes_of(v.dtype);
}
CLIKA_INLINE void* slot_of(const View& v, i64 at) {
  return static_cast<char*>(v.data) + offset_of<i64>(at, v.rank, v.shape, v.strides) * bytes_of(v.dtype);
}
template <class C>
CLIKA_INLINE C value_of(const View& v, i64 at) {
  return load<C>(place_of(v, at), v.dtype);
}
template <class C>
CLIKA_INLINE void put(const View& v, i64 at, C x) {
  store<C>(slot_of(v, at), v.dtype, x);
}
// An element of a view in one piece.
template <class C>
CLIKA_INLINE C item_of(const View& v, i64 offset) {
  if (v.is_number != 0) return load<C>(&v.number, v.dtype);
  return load<C>(static_cast<const char*>(v.data) + offset * bytes_of(v.dtype), v.dtype);
}
template <class C>
CLIKA_INLINE void put_item(const View& v, i64 offset, C x) {
  store<C>(static_cast<char*>(v.data) + offset * bytes_of(v.dtype), v.dtype, x);
}
CLIKA_INLINE void move_element(void* to, const void* from, int bytes) {
  switch (bytes) {
    case 1: *static_cast<u8*>(to) = *static_cast<const u8*>(from); return;
    case 2: *static_cast<u16*>(to) = *static_cast<const u16*>(from); return;
    case 4: *static_cast<u32*>(to) = *static_cast<const u32*>(from); return;
    default: *static_cast<u64*>(to) = *static_cast<const u64*>(from); return;
  }
}
CLIKA_INLINE bool is_real(int dtype) {
  return dtype == kFloat32 || dtype == kFloat64 || dtype == kFloat16 || dtype == kBfloat16;
}
CLIKA_INLINE i64 at_most(i64 a, i64 b) { return a < b ? a : b; }
CLIKA_INLINE i64 at_least(i64 a, i64 b) { return a > b ? a : b; }

// Whole numbers in the order of the values; NaN after all numbers.
constexpr u64 kNanKey = ~u64{0};
CLIKA_INLINE u64 key_of(double x) {
  if (x != x) return kNanKey;
  x += 0.0;  // -0 is 0
  u64 bits;
  memcpy(&bits, &x, 8);
  return bits >> 63 != 0 ? ~bits : bits | u64{1} << 63;
}
CLIKA_INLINE u64 key_at(const void* p, int dtype) {
  if (is_real(dtype)) return key_of(load<double>(p, dtype));
  if (dtype == kUint64) return load<u64>(p, dtype);
  return static_cast<u64>(load<i64>(p, dtype)) ^ u64{1} << 63;
}

// The inclusive scan over a block in the order of threads; `join` of a start value leaves the other.
template <class T, class Join>
CLIKA_INLINE T scan_block(T x, T start, const Join& join, T* all) {
  __shared__ T totals[32];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  for (int step = 1; step < 32; step <<= 1) {
    const T other = from_lane(x, lane >= step ? lane - step : lane);
    if (lane >= step) x = join(other, x);
  }
  __syncthreads();
  if (lane == 31) totals[warp] = x;
  __syncthreads();
  T before = start;
  for (int w = 0; w < warp; ++w) before = join(before, totals[w]);
  T total = before;
  for (int w = warp; w < warps; ++w) total = join(total, totals[w]);
  *all = total;
  return join(before, x);
}
