// scaled_dot_product_attention over any strides and masks: a block per row of queries, keys a tile at a time.
// CLIKA_C: float or double. What neither has a mask nor odd strides goes to attention_prefill.cu.
#include "attention_arguments.cuh"
#include "prelude.cuh"

using C = CLIKA_C;
constexpr int kThreads = 128;  // keys of a tile, one of a thread

// Offset of product `index` over the leading dims; `shared` neighbours along the last of them have one place.
CLIKA_INLINE i64 leading(const Scores& s, i64 index, const i64* strides, int shared) {
  i64 at = 0;
  for (int d = s.rank - 1; d >= 0; --d) {
    i64 i = index % s.shape[d];
    index /= s.shape[d];
    if (d == s.rank - 1) i /= shared;
    at += i * strides[d];
  }
  return at;
}
CLIKA_INLINE C element(const void* p, int dtype, i64 at) {
  return load<C>(static_cast<const char*>(p) + at * bytes_of(dtype), dtype);
}

extern "C" __global__ void __launch_bounds__(128) attention_rows(const __grid_constant__ Scores s) {
  CLIKA_DYNAMIC_SHARED(memory);
  __shared__ C weights[kThreads];
  C* query = reinterpret_cast<C*>(memory);
  C* totals = query + s.size;
  const C infinity = static_cast<C>(CLIKA_INFINITY);
  const i64 product = blockIdx.x / s.length, row = blockIdx.x - product * s.length;
  const i64 query_at = leading(s, product, s.query_strides, 1) + row * s.query_row;
  const i64 key_at = leading(s, product, s.key_strides, s.group);
  const i64 value_at = leading(s, product, s.value_strides, s.group);
  const i64 mask_at = s.mask == nullptr ? 0 : leading(s, product, s.mask_strides, 1) + row * s.mask_row;
  for (i64 e = threadIdx.x; e < s.size; e += kThreads) query[e] = element(s.query, s.dtype, query_at + e * s.query_step);
  for (i64 e = threadIdx.x; e < s.value_size; e += kThreads) totals[e] = C{};
  __syncthreads();
  const i64 end = s.causal != 0 && row + 1 < s.positions ? row + 1 : s.positions;
  C top = -infinity, sum = C{};
  for (i64 base = 0; base < end; base += kThreads) {
    const i64 j = base + threadIdx.x;
    C score = -infinity;
    if (j < end) {
      C dot = C{};
      for (i64 e = 0; e < s.size; ++e) {
        dot += query[e] * element(s.key, s.dtype, key_at + j * s.key_row + e * s.key_step);
      }
      score = dot * static_cast<C>(s.scale);
      const C cap = static_cast<C>(s.softcap);
      if (cap != C{}) score = cap * tanh(score / cap);
      if (s.mask != nullptr) {
        const i64 at = mask_at + j * s.mask_step;
        if (s.mask_dtype == kBool) {
          score = static_cast<const u8*>(s.mask)[at] != 0 ? score : -infinity;
        } else {
          score += element(s.mask, s.mask_dtype, at);
        }
      }
    }
    const C higher = over_block(score > top || score != score ? score : top, -infinity,
                                [](C a, C b) { return a != a ? a : b > a || b != b ? b : a; });
    const C zero = higher == -infinity ? C{} : higher;
    const C factor = top == -infinity ? C{} : exp(top - zero);
    const C weight = score == -infinity ? C{} : exp(score - zero);
    top = higher;
    sum = sum * factor + over_block(weight, C{}, [](C a, C b) { return a + b; });
    weights[threadIdx.x] = weight;
    __syncthreads();
    const i64 count = end - base < kThreads ? end - base : kThreads;
    for (i64 e = threadIdx.x; e < s.value_size; e += kThreads) {
      C total = totals[e] * factor;
      for (i64 k = 0; k < count; ++k) {
        total += weights[k] * element(s.value, s.dtype, value_at + (base + k) * s.value_row + e * s.value_step);
      }
      totals[e] = total;
    }
    __syncthreads();
  }
  char* out = static_cast<char*>(s.out) + (product * s.length + row) * s.value_size * bytes_of(s.dtype);
  for (i64 e = threadIdx.x; e < s.value_size; e += kThreads) {
    store(out + e * bytes_of(s.dtype), s.dtype, sum == C{} ? C{} : totals[e] / sum);
  }
}
