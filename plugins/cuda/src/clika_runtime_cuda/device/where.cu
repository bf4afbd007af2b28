// where and masked_fill: operand 1 where operand 0 is true, else operand 2, by the size of elements.
#include "prelude.cuh"

template <class T>
CLIKA_INLINE T element(const Elementwise& e, int k, i64 at) {
  if (e.in[k].is_number != 0) return *reinterpret_cast<const T*>(&e.in[k].number);
  return static_cast<const T*>(e.in[k].data)[offset_of<i64>(at, e.rank, e.shape, e.in[k].strides)];
}
template <class T>
CLIKA_INLINE void chosen(const Elementwise& e) {
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 at = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; at < e.n; at += step) {
    const T x = element<u8>(e, 0, at) != 0 ? element<T>(e, 1, at) : element<T>(e, 2, at);
    static_cast<T*>(e.out)[offset_of<i64>(at, e.rank, e.shape, e.out_strides)] = x;
  }
}
extern "C" __global__ void where_1(const __grid_constant__ Elementwise e) { chosen<u8>(e); }
extern "C" __global__ void where_2(const __grid_constant__ Elementwise e) { chosen<u16>(e); }
extern "C" __global__ void where_4(const __grid_constant__ Elementwise e) { chosen<u32>(e); }
extern "C" __global__ void where_8(const __grid_constant__ Elementwise e) { chosen<u64>(e); }
