// Elements that move as they are, by their size in bytes, and casts.
#include "prelude.cuh"

// T: u8, u16, u32 or u64 for elements of that many bytes.
template <class T>
CLIKA_INLINE void moved(const Elementwise& e) {
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 at = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; at < e.n; at += step) {
    const T x = e.in[0].is_number != 0
                    ? *reinterpret_cast<const T*>(&e.in[0].number)
                    : static_cast<const T*>(e.in[0].data)[offset_of<i64>(at, e.rank, e.shape, e.in[0].strides)];
    static_cast<T*>(e.out)[offset_of<i64>(at, e.rank, e.shape, e.out_strides)] = x;
  }
}
extern "C" __global__ void move_1(const __grid_constant__ Elementwise e) { moved<u8>(e); }
extern "C" __global__ void move_2(const __grid_constant__ Elementwise e) { moved<u16>(e); }
extern "C" __global__ void move_4(const __grid_constant__ Elementwise e) { moved<u32>(e); }
extern "C" __global__ void move_8(const __grid_constant__ Elementwise e) { moved<u64>(e); }

struct alignas(16) Sixteen {
  u64 words[2];
};
extern "C" __global__ void move_16(const __grid_constant__ Elementwise e) {
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 at = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; at < e.n; at += step) {
    static_cast<Sixteen*>(e.out)[at] = static_cast<const Sixteen*>(e.in[0].data)[at];
  }
}
// Bytes that become truth values: every one but 0 is true, and a true one is 1.
extern "C" __global__ void truths(const __grid_constant__ Elementwise e) {
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 at = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; at < e.n; at += step) {
    const u8 x = static_cast<const u8*>(e.in[0].data)[offset_of<i64>(at, e.rank, e.shape, e.in[0].strides)];
    static_cast<u8*>(e.out)[offset_of<i64>(at, e.rank, e.shape, e.out_strides)] = x != 0;
  }
}

// A value goes through the widest type of its kind and is rounded once on the way out.
template <class C>
CLIKA_INLINE void converted(const Elementwise& e) {
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 at = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; at < e.n; at += step) {
    const i64 from = offset_of<i64>(at, e.rank, e.shape, e.in[0].strides) * bytes_of(e.in[0].dtype);
    const i64 to = offset_of<i64>(at, e.rank, e.shape, e.out_strides) * bytes_of(e.out_dtype);
    store(static_cast<char*>(e.out) + to, e.out_dtype,
          load<C>(static_cast<const char*>(e.in[0].data) + from, e.in[0].dtype));
  }
}
extern "C" __global__ void cast_float(const __grid_constant__ Elementwise e) { converted<float>(e); }
extern "C" __global__ void cast_double(const __grid_constant__ Elementwise e) { converted<double>(e); }
extern "C" __global__ void cast_i64(const __grid_constant__ Elementwise e) { converted<i64>(e); }
extern "C" __global__ void cast_u64(const __grid_constant__ Elementwise e) { converted<u64>(e); }
