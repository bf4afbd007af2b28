// Products of matrices by tiles in shared memory: for dtypes and sizes that the library does not take. CLIKA_C is what
// products are added up in: float for float32, bfloat16 and float16; double; i64 and u64, which wrap around.
#include "prelude.cuh"

using C = CLIKA_C;
constexpr int kTile = 32, kDepth = 16, kThreads = 256;  // 32 x 32 results; a thread has 4 of them

template <class T>
CLIKA_INLINE T multiplied(T sum, T a, T b) {
  return sum + a * b;
}
template <>
CLIKA_INLINE i64 multiplied<i64>(i64 sum, i64 a, i64 b) {
  return static_cast<i64>(static_cast<u64>(sum) + static_cast<u64>(a) * static_cast<u64>(b));
}

extern "C" __global__ void tiles(const __grid_constant__ Matmul p) {
  __shared__ C left[kTile][kDepth + 1];
  __shared__ C right[kDepth][kTile + 1];
  const int bytes = bytes_of(p.dtype);
  const i64 columns = (p.n + kTile - 1) / kTile;
  const i64 row = blockIdx.x / columns * kTile, column = blockIdx.x % columns * kTile;
  const int t = threadIdx.x, x = t % kTile, y = t / kTile;
  for (i64 batch = blockIdx.y; batch < p.batches; batch += gridDim.y) {
    const char* a = static_cast<const char*>(p.left) + offset_of<i64>(batch, p.batch_rank, p.batch_shape, p.left_batch) * bytes;
    const char* b = static_cast<const char*>(p.right) + offset_of<i64>(batch, p.batch_rank, p.batch_shape, p.right_batch) * bytes;
    C sum[4] = {};
    for (i64 k = 0; k < p.k; k += kDepth) {
      for (int i = t; i < kTile * kDepth; i += kThreads) {
        const i64 r = row + i / kDepth, d = k + i % kDepth;
        left[i / kDepth][i % kDepth] =
            r < p.m && d < p.k ? load<C>(a + (r * p.left_row + d * p.left_column) * bytes, p.dtype) : C{};
        const i64 e = k + i / kTile, c = column + i % kTile;
        right[i / kTile][i % kTile] =
            e < p.k && c < p.n ? load<C>(b + (e * p.right_row + c * p.right_column) * bytes, p.dtype) : C{};
      }
      __syncthreads();
      for (int d = 0; d < kDepth; ++d) {
        for (int i = 0; i < 4; ++i) sum[i] = multiplied(sum[i], left[y + 8 * i][d], right[d][x]);
      }
      __syncthreads();
    }
    for (int i = 0; i < 4; ++i) {
      const i64 r = row + y + 8 * i, c = column + x;
      if (r < p.m && c < p.n) store(static_cast<char*>(p.out) + ((batch * p.m + r) * p.n + c) * bytes, p.dtype, sum[i]);
    }
  }
}
