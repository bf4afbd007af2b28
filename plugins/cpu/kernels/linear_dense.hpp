// linear over a dense weight in groups of interleaved rows (interleaved.hpp). Included after linear.hpp.
//
// Up to kExactTokens tokens meet the weight itself, which is read once; more meet panels of float32. A sum is one chain
// of fma over ascending columns either way, as over a published weight.
#pragma once

constexpr int kRowVectors = static_cast<int>(kInterleaved / W);

// Two vectors of rows: the first W and the next ones; of bfloat16 those with even and those with odd numbers, which is
// one operation each, as the halves of a word are floats but for their lower bits.
template <class T>
CLIKA_INLINE void load_rows(const T* at, vf* first, vf* second) {
  *first = load(at);
  *second = load(at + W);
}
CLIKA_INLINE void load_rows(const bf16* at, vf* first, vf* second) {
  const vu words = load_words(reinterpret_cast<const uint8_t*>(at));
  *first = reinterpret_cast<vf>(words << 16);
  *second = reinterpret_cast<vf>(words & 0xffff0000u);
}
// The sums of such vectors, row by row.
template <class T>
CLIKA_INLINE void sort_rows(float* sums) {
  if constexpr (std::is_same_v<T, bf16>) {
    float halves[2 * W];
    std::memcpy(halves, sums, sizeof(halves));
    for (int i = 0; i < W; ++i) {
      sums[2 * i] = halves[i];
      sums[2 * i + 1] = halves[W + i];
    }
  }
}

// Vectors of rows whose sums with T tokens stay in registers, with room for values.
constexpr int kSumRegisters = (CLIKA_X86 && CLIKA_LEVEL == 2) || CLIKA_ARM ? 24 : 12;
constexpr int vectors_at_once(int tokens) {
  int n = kRowVectors;
  while (n > 2 && n * tokens > kSumRegisters) n /= 2;
  return n;
}
// Columns that few vectors at a time walk together: the next vectors find them in the first-level cache.
constexpr int64_t kWalkedColumns = 128;

// Adds the products of `columns` columns of N vectors of rows with T tokens, x[column][token], to sums[vector][token].
template <class V, int N, int T>
CLIKA_INLINE void multiply_vectors(const V* weight, const float* x, int64_t columns, float* sums) {
  vf total[N][T];
#pragma GCC unroll 8
  for (int v = 0; v < N; ++v) {
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) total[v][t] = load(sums + (v * T + t) * W);
  }
#pragma GCC unroll 2
  for (int64_t k = 0; k < columns; ++k) {
#pragma GCC unroll 4
    for (int v = 0; v < N; v += 2) {
      vf first;
      vf second;
      load_rows(weight + k * kInterleaved + v * W, &first, &second);
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) {
        const vf s = splat(x[k * T + t]);
        total[v][t] = fma(first, s, total[v][t]);
        total[v + 1][t] = fma(second, s, total[v + 1][t]);
      }
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < N; ++v) {
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) store(sums + (v * T + t) * W, total[v][t]);
  }
}

// The sums [vector][token] of a group with T tokens.
template <class V, int T>
void multiply_interleaved(const V* group, const float* x, int64_t columns, float* sums) {
  constexpr int N = vectors_at_once(T);
  std::memset(sums, 0, sizeof(float) * static_cast<size_t>(kInterleaved * T));
  const int64_t walked = N == kRowVectors ? columns : kWalkedColumns;
  for (int64_t k = 0; k < columns; k += walked) {
    const int64_t count = std::min(walked, columns - k);
    for (int v = 0; v < kRowVectors; v += N) {
      multiply_vectors<V, N, T>(group + k * kInterleaved + v * W, x + k * T, count, sums + v * T * W);
    }
  }
}
template <class V>
using InterleavedKernel = void (*)(const V* group, const float* x, int64_t columns, float* sums);
template <class V, int... T>
CLIKA_INLINE InterleavedKernel<V> interleaved_kernel(int64_t tokens, std::integer_sequence<int, T...>) {
  static constexpr InterleavedKernel<V> kKernels[] = {multiply_interleaved<V, T + 1>...};
  return kKernels[tokens - 1];
}

// The values of such a weight for panels.
template <class V>
struct InterleavedSource {
  static constexpr bool kHasSingle = false;
  const V* data;
  int64_t columns;

  void fill(int64_t group, int64_t first, int64_t last, float* panel) const {
    const int64_t row = group * kGroup;
    const V* from = data + (row / kInterleaved * columns + first) * kInterleaved + row % kInterleaved;
    for (int64_t k = 0; k < last - first; ++k) store(panel + k * W, load(from + k * kInterleaved));
  }
};

template <class V>
int32_t run_interleaved(const Linear& p) {
  const V* data = static_cast<const V*>(p.weight->data);
  if (p.m > kExactTokens) return run_exact(p, InterleavedSource<V>{data, p.k});
  const float* tokens = exact_tokens(p);
  if (tokens == nullptr) return CLIKA_UNAVAILABLE;
  const auto multiply = interleaved_kernel<V>(p.m, std::make_integer_sequence<int, kExactTokens>());
  const int64_t groups = group_count(p.n, kInterleaved);
  const double cost = static_cast<double>(kInterleaved * p.k) * (0.05 + static_cast<double>(p.m) / 32.0);
  parallel(p.call, groups, piece(p.call, groups, cost), [&](int64_t begin, int64_t end, int32_t) {
    alignas(64) float sums[kInterleaved * kExactTokens];
    for (int64_t g = begin; g < end; ++g) {
      multiply(data + g * kInterleaved * p.k, tokens, p.k, sums);
      const int64_t vectors = std::min<int64_t>(kRowVectors, group_count(p.n - g * kInterleaved, W));
      for (int64_t t = 0; t < p.m; ++t) {
        float rows[kInterleaved];
        for (int v = 0; v < kRowVectors; ++v) store(rows + v * W, load(sums + (v * p.m + t) * W));
        for (int v = 0; v < kRowVectors; v += 2) sort_rows<V>(rows + v * W);
        for (int64_t v = 0; v < vectors; ++v) {
          const int64_t group = g * kRowVectors + v;
          put(p, t, group, with_bias(p, group, load(rows + v * W)));
        }
      }
    }
  });
  return CLIKA_OK;
}
