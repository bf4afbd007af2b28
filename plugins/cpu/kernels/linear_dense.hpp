// linear over a dense weight in groups of interleaved rows (interleaved.hpp). Included after linear.hpp, math.hpp
// and linear_gate.hpp.
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
// The sums of even and odd rows as those of the first rows and the next ones.
CLIKA_INLINE void sort_rows(float* first, float* second) {
  float rows[2 * W];
  for (int i = 0; i < W; ++i) {
    rows[2 * i] = first[i];
    rows[2 * i + 1] = second[i];
  }
  store(first, load(rows));
  store(second, load(rows + W));
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

// ------------------------------------------------------------------ few tokens
using GroupKernel = void (*)(const void* weight, int64_t group, const float* x, int64_t columns, float* sums);

// The sums [vector][token] of a group with T tokens, row by row.
template <class V, int T>
void multiply_group_of(const void* weight, int64_t group, const float* x, int64_t columns, float* sums) {
  multiply_interleaved<V, T>(static_cast<const V*>(weight) + group * kInterleaved * columns, x, columns, sums);
  if constexpr (std::is_same_v<V, bf16>) {
    for (int v = 0; v < kRowVectors; v += 2) {
      for (int t = 0; t < T; ++t) sort_rows(sums + (v * T + t) * W, sums + ((v + 1) * T + t) * W);
    }
  }
}
template <class V, int... T>
constexpr GroupKernel group_kernel(int64_t tokens, std::integer_sequence<int, T...>) {
  constexpr GroupKernel kKernels[] = {multiply_group_of<V, T + 1>...};
  return kKernels[tokens - 1];
}

// The number as the output would hold it.
CLIKA_INLINE vf rounded(vf x, int32_t dtype) {
  if (dtype == CLIKA_BFLOAT16) return widen_bf16(narrow_bf16(x));
  if (dtype == CLIKA_FLOAT16) {
    f16 narrow[W];
    store(narrow, x);
    return load(narrow);
  }
  return x;
}

// Several products of the same few tokens.
struct FewTokens {
  const Linear* products;
  int32_t count;
  Gate gate;
  const float* tokens;
  GroupKernel kernels[kMostProducts];
  int64_t first[kMostProducts + 1];  // group of each product, and their number

  FewTokens(const Linear* given, int32_t n, Gate what, const float* x)
      : products(given), count(n), gate(what), tokens(x) {
    constexpr auto kTokens = std::make_integer_sequence<int, kExactTokens>();
    first[0] = 0;
    for (int32_t i = 0; i < count; ++i) {
      visit_float(products[i].weight->dtype,
                  [&](auto tag) { kernels[i] = group_kernel<decltype(tag)>(products[i].m, kTokens); });
      first[i + 1] = first[i] + group_count(products[i].n, kInterleaved);
    }
  }
  void multiply(int32_t i, int64_t group, float* sums) const {
    kernels[i](products[i].weight->data, group, tokens, products[i].k, sums);
  }
  // Calls body with a token, a group of W rows and its place among sums [vector][token], for the rows that there are.
  template <class Body>
  static CLIKA_INLINE void each_sum(const Linear& p, int64_t group, const Body& body) {
    const int64_t vectors = std::min<int64_t>(kRowVectors, group_count(p.n - group * kInterleaved, W));
    for (int64_t t = 0; t < p.m; ++t) {
      for (int64_t v = 0; v < vectors; ++v) body(t, group * kRowVectors + v, (v * p.m + t) * W);
    }
  }
  // Groups [begin, end) of all products.
  void run(int64_t begin, int64_t end) const {
    alignas(64) float sums[kInterleaved * kExactTokens];
    int32_t i = 0;
    for (int64_t g = begin; g < end; ++g) {
      while (g >= first[i + 1]) ++i;
      const Linear& p = products[i];
      multiply(i, g - first[i], sums);
      each_sum(p, g - first[i], [&](int64_t t, int64_t rows, int64_t at) {
        put(p, t, rows, with_bias(p, rows, load(sums + at)));
      });
    }
  }
  // Groups [begin, end) of a gate and its other half, some of one and then of the other: so each is read in runs.
  void run_gated(int64_t begin, int64_t end) const {
    constexpr int64_t kRun = 8;
    constexpr int64_t kSums = kInterleaved * kExactTokens;
    alignas(64) float gates[kRun * kSums];
    alignas(64) float sums[kSums];
    const Linear& p = products[0];
    const Linear& up = products[1];
    for (int64_t g = begin; g < end; g += kRun) {
      const int64_t last = std::min(end, g + kRun);
      for (int64_t i = g; i < last; ++i) multiply(0, i, gates + (i - g) * kSums);
      for (int64_t i = g; i < last; ++i) {
        multiply(1, i, sums);
        each_sum(p, i, [&](int64_t t, int64_t rows, int64_t at) {
          const vf a = rounded(with_bias(p, rows, load(gates + (i - g) * kSums + at)), p.out_dtype);
          const vf b = rounded(with_bias(up, rows, load(sums + at)), p.out_dtype);
          put(p, t, rows, gated(gate, a, b));
        });
      }
    }
  }
};
