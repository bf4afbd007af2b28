// softmax and log_softmax along one dim: a block per line. CLIKA_C: float or double.
#include "prelude.cuh"

using C = CLIKA_C;

template <bool kLog>
CLIKA_INLINE void line(const Lines& l) {
  const i64 from = offset_of<i64>(blockIdx.x, l.rank, l.shape, l.in_strides);
  const i64 to = offset_of<i64>(blockIdx.x, l.rank, l.shape, l.out_strides);
  const int in_bytes = bytes_of(l.in_dtype), out_bytes = bytes_of(l.out_dtype);
  const char* in = static_cast<const char*>(l.in) + from * in_bytes;
  char* out = static_cast<char*>(l.out) + to * out_bytes;
  C top = -static_cast<C>(CLIKA_INFINITY);
  for (i64 i = threadIdx.x; i < l.n; i += blockDim.x) {
    const C x = load<C>(in + i * l.in_step * in_bytes, l.in_dtype);
    top = x > top || x != x ? x : top;
  }
  top = over_block(top, -static_cast<C>(CLIKA_INFINITY), [](C a, C b) { return a != a ? a : b > a || b != b ? b : a; });
  C sum = C{};
  for (i64 i = threadIdx.x; i < l.n; i += blockDim.x) {
    sum += exp(load<C>(in + i * l.in_step * in_bytes, l.in_dtype) - top);
  }
  sum = over_block(sum, C{}, [](C a, C b) { return a + b; });
  const C log_sum = kLog ? log(sum) : C{};
  for (i64 i = threadIdx.x; i < l.n; i += blockDim.x) {
    const C x = load<C>(in + i * l.in_step * in_bytes, l.in_dtype) - top;
    store(out + i * l.out_step * out_bytes, l.out_dtype, kLog ? x - log_sum : exp(x) / sum);
  }
}
extern "C" __global__ void __launch_bounds__(1024) softmax_lines(const __grid_constant__ Lines l) { line<false>(l); }
extern "C" __global__ void __launch_bounds__(1024) log_softmax_lines(const __grid_constant__ Lines l) { line<true>(l); }
