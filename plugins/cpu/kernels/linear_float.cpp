// linear over dense float32, bfloat16 and float16 weights, as published or with their rows interleaved.
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <type_traits>
#include <utility>

#include "level.hpp"

#include "blocks.hpp"
#include "linear_lanes.hpp"
#include "pack.hpp"
#include "quantize_activations.hpp"
#include "linear.hpp"
#include "interleaved.hpp"
#include "math.hpp"
#include "linear_gate.hpp"
#include "linear_dense.hpp"

#if CLIKA_X86 && CLIKA_LEVEL == 2
// Word c of row r to lane r of words[c]: 16 rows of 64 bytes.
CLIKA_INLINE void transpose16(const char* const (&rows)[16], int64_t at, __m512i (&words)[16]) {
  __m512i a[16];
  __m512i b[16];
#pragma GCC unroll 16
  for (int r = 0; r < 16; ++r) a[r] = _mm512_loadu_si512(rows[r] + at);
#pragma GCC unroll 8
  for (int r = 0; r < 16; r += 2) {
    b[r] = _mm512_unpacklo_epi32(a[r], a[r + 1]);
    b[r + 1] = _mm512_unpackhi_epi32(a[r], a[r + 1]);
  }
#pragma GCC unroll 4
  for (int r = 0; r < 16; r += 4) {  // quarter q of a[r + j]: word 4 q + j of rows r .. r + 3
    a[r] = _mm512_unpacklo_epi64(b[r], b[r + 2]);
    a[r + 1] = _mm512_unpackhi_epi64(b[r], b[r + 2]);
    a[r + 2] = _mm512_unpacklo_epi64(b[r + 1], b[r + 3]);
    a[r + 3] = _mm512_unpackhi_epi64(b[r + 1], b[r + 3]);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m512i first = _mm512_shuffle_i32x4(a[j], a[4 + j], 0x44);
    const __m512i second = _mm512_shuffle_i32x4(a[j], a[4 + j], 0xee);
    const __m512i third = _mm512_shuffle_i32x4(a[8 + j], a[12 + j], 0x44);
    const __m512i fourth = _mm512_shuffle_i32x4(a[8 + j], a[12 + j], 0xee);
    words[j] = _mm512_shuffle_i32x4(first, third, 0x88);
    words[4 + j] = _mm512_shuffle_i32x4(first, third, 0xdd);
    words[8 + j] = _mm512_shuffle_i32x4(second, fourth, 0x88);
    words[12 + j] = _mm512_shuffle_i32x4(second, fourth, 0xdd);
  }
}
// The values of a word in ascending order of columns.
template <class T>
struct WordValues;
template <>
struct WordValues<float> {
  static constexpr int kCount = 1;
  static CLIKA_INLINE vf value(__m512i word, int) { return (vf)word; }
};
template <>
struct WordValues<bf16> {
  static constexpr int kCount = 2;
  static CLIKA_INLINE vf value(__m512i word, int i) {
    return (vf)(i == 0 ? _mm512_slli_epi32(word, 16) : _mm512_and_si512(word, _mm512_set1_epi32(-65536)));
  }
};
template <>
struct WordValues<f16> {
  static constexpr int kCount = 2;
  static CLIKA_INLINE vf value(__m512i word, int i) {
    constexpr __mmask16 kEvery = static_cast<__mmask16>(-1);
    if (i == 1) word = _mm512_srli_epi32(word, 16);
    return (vf)_mm512_maskz_cvtph_ps(kEvery, _mm512_maskz_cvtepi32_epi16(kEvery, word));
  }
};
#elif CLIKA_X86 && CLIKA_LEVEL == 1
CLIKA_INLINE __m256 load8(const float* p) { return _mm256_loadu_ps(p); }
CLIKA_INLINE __m256 load8(const bf16* p) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
CLIKA_INLINE __m256 load8(const f16* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

// Eight columns of eight rows: out[k * W + r] = rows[r][k].
template <class T>
CLIKA_INLINE void transpose8(const T* const* rows, int64_t k, float* out) {
  __m256 a[8];
  __m256 b[8];
  for (int r = 0; r < 8; ++r) a[r] = load8(rows[r] + k);
  for (int r = 0; r < 8; r += 2) {
    b[r] = _mm256_unpacklo_ps(a[r], a[r + 1]);
    b[r + 1] = _mm256_unpackhi_ps(a[r], a[r + 1]);
  }
  for (int r = 0; r < 8; r += 4) {
    a[r] = _mm256_shuffle_ps(b[r], b[r + 2], 0x44);
    a[r + 1] = _mm256_shuffle_ps(b[r], b[r + 2], 0xee);
    a[r + 2] = _mm256_shuffle_ps(b[r + 1], b[r + 3], 0x44);
    a[r + 3] = _mm256_shuffle_ps(b[r + 1], b[r + 3], 0xee);
  }
  for (int c = 0; c < 4; ++c) {
    _mm256_storeu_ps(out + c * W, _mm256_permute2f128_ps(a[c], a[c + 4], 0x20));
    _mm256_storeu_ps(out + (c + 4) * W, _mm256_permute2f128_ps(a[c], a[c + 4], 0x31));
  }
}
#endif

template <class T>
struct DenseSource {
  static constexpr bool kHasSingle = CLIKA_X86 && CLIKA_LEVEL == 2;
  const T* data;
  int64_t rows;
  int64_t columns;

  // Rows past the end repeat the last one: their sums are not written.
  const T* row(int64_t group, int r) const {
    return data + std::min(group * kGroup + r, rows - 1) * columns;
  }

#if CLIKA_X86 && CLIKA_LEVEL == 2
  static constexpr int kStep = 16 * WordValues<T>::kCount;  // columns in 64 bytes

  // Calls body(k, value) for columns [first, last) of a group, in order, and ahead(step) before each step.
  template <class Ahead, class Body>
  CLIKA_INLINE void each_column(int64_t group, int64_t first, int64_t last, const Ahead& ahead,
                                const Body& body) const {
    const char* at[16];
    for (int r = 0; r < 16; ++r) at[r] = reinterpret_cast<const char*>(row(group, r) + first);
    int64_t k = 0;
    for (; k + kStep <= last - first; k += kStep) {
      ahead(k / kStep);
      __m512i words[16];
      transpose16(at, k * static_cast<int64_t>(sizeof(T)), words);
#pragma GCC unroll 16
      for (int c = 0; c < 16; ++c) {
#pragma GCC unroll 2
        for (int i = 0; i < WordValues<T>::kCount; ++i) {
          body(k + c * WordValues<T>::kCount + i, WordValues<T>::value(words[c], i));
        }
      }
    }
    for (; k < last - first; ++k) {
      vf value;
      for (int r = 0; r < 16; ++r) value[r] = to_float(reinterpret_cast<const T*>(at[r])[k]);
      body(k, value);
    }
  }
  bool packed() const { return true; }
  // One token with up to four groups from `group` on, in the order of the panels.
  CLIKA_INLINE void single(int64_t group, int64_t count, const float* x, vf (&sums)[kExactGroups]) const {
    for (int64_t g = 0; g < count; ++g) {
      vf sum = zero();
      // 16 rows are 16 streams, too many for the processor to foresee: ask for the next group, line after line.
      const char* next = reinterpret_cast<const char*>(row(group + g + 1, 0));
      each_column(
          group + g, 0, columns,
          [&](int64_t step) {
            for (int line = 0; line < 16; ++line) __builtin_prefetch(next + (step * 16 + line) * 64, 0, 2);
          },
          [&](int64_t k, vf value) { sum = fma(value, splat(x[k]), sum); });
      sums[g] = sum;
    }
  }
  void fill(int64_t group, int64_t first, int64_t last, float* panel) const {
    each_column(
        group, first, last, [](int64_t) {}, [&](int64_t k, vf value) { store(panel + k * W, value); });
  }
#else
  void fill(int64_t group, int64_t first, int64_t last, float* panel) const {
    const T* at[kGroup];
    for (int r = 0; r < kGroup; ++r) at[r] = row(group, r) + first;
    const int64_t count = last - first;
    int64_t k = 0;
#if CLIKA_X86 && CLIKA_LEVEL == 1
    for (; k + 8 <= count; k += 8) transpose8(at, k, panel + k * W);
#endif
    for (; k < count; ++k) {
      for (int r = 0; r < kGroup; ++r) panel[k * W + r] = to_float(at[r][k]);
    }
  }
#endif
};

template <class T>
int32_t multiply_as(const Linear& p) {
  const T* data = static_cast<const T*>(p.weight->data);
  if (is_interleaved(*p.weight)) return run_exact(p, InterleavedSource<T>{data, p.k});
  if constexpr (std::is_same_v<T, bf16>) {
    int32_t done = CLIKA_OK;
    if (multiply_bfloat16(p, &done)) return done;
  }
  return run_exact(p, DenseSource<T>{data, p.n, p.k});
}

}  // namespace
int32_t multiply_dense(const Linear& p) {
  int32_t status = CLIKA_OK;
  if (run_interleaved(p.call, &p, 1, Gate::kNone, &status)) return status;
  visit_float(p.weight->dtype, [&](auto tag) { status = multiply_as<decltype(tag)>(p); });
  return status;
}

bool run_interleaved(const clika_call* call, const Linear* products, int32_t count, Gate gate, int32_t* status) {
  const int64_t m = products[0].m;
  for (int32_t i = 0; i < count; ++i) {
    if (!is_interleaved(*products[i].weight)) return false;
  }
  if (m > kExactTokens) return false;
  const float* tokens = exact_tokens(products[0]);
  *status = tokens == nullptr ? CLIKA_UNAVAILABLE : CLIKA_OK;
  if (tokens == nullptr) return true;
  const FewTokens few(products, count, gate, tokens);
  const int64_t groups = gate == Gate::kNone ? few.first[count] : few.first[1];
  const double cost = static_cast<double>(kInterleaved * products[0].k * (gate == Gate::kNone ? 1 : 2)) *
                      (0.05 + static_cast<double>(m) / 32.0);
  parallel(call, groups, piece(call, groups, cost), [&](int64_t begin, int64_t end, int32_t) {
    gate == Gate::kNone ? few.run(begin, end) : few.run_gated(begin, end);
  });
  return true;
}
namespace {

int32_t run(const clika_call* call) {
  Linear p;
  bool empty = false;
  const int32_t status = read_call(call, &p, &empty);
  if (status != CLIKA_OK || empty) return status;
  if (is_interleaved(*p.weight)) {
    const int32_t checked = check_interleaved(call, *p.weight, "linear");
    if (checked != CLIKA_OK) return checked;
  }
  return multiply_dense(p);
}

CLIKA_KERNELS(linear_float, Entry("linear", run)
                                .in(FLOATS, FLOATS, FLOATS)
                                .schemes(0, DENSE, 0)
                                .out(FLOATS)
                                .rank(1, CLIKA_MAX_RANK)
                                .contiguous()
                                .parallel())
#include "level_end.hpp"
