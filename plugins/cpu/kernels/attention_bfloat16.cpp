// Attention over pairs of bfloat16, see attention_bfloat16.hpp.
//
// vdpbf16ps (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2) adds two products a lane to a float32:
// twice the multiply-adds of an fma. It takes numbers below 2^-126 for zero, and rounds each sum to the nearest.
#include <cinttypes>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "level.hpp"
#include "attention.hpp"
#include "attention_bfloat16.hpp"

#if CLIKA_X86 && CLIKA_LEVEL == 2
#define CLIKA_PAIRS __attribute__((target("avx512bf16")))

bool has_pairs() {
  uint32_t a, b, c, d;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 5 & 1u) != 0;
}

CLIKA_PAIRS void narrow(float* row, int64_t stride, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r, row += stride) {
    for (int64_t i = 0; i < n; i += W) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(row + i / 2), (__m256i)_mm512_cvtneps_pbh((__m512)load(row + i)));
    }
  }
}

// W elements of a row of `size`, from element e on.
CLIKA_PAIRS CLIKA_INLINE __m512i elements(const void* row, int64_t e, int64_t size) {
  if (row == nullptr) return __m512i{};
  const auto lanes = static_cast<__mmask16>(size - e >= W ? 0xffff : (1 << (size - e)) - 1);
  return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, static_cast<const uint16_t*>(row) + e));
}
CLIKA_PAIRS void join(const void* first, const void* second, int64_t size, int64_t width, float* words) {
  for (int64_t e = 0; e < width; e += W) {
    const __m512i high = _mm512_slli_epi32(elements(second, e, size), 16);
    _mm512_storeu_si512(words + e, _mm512_or_si512(elements(first, e, size), high));
  }
}

CLIKA_PAIRS CLIKA_INLINE __m512 add_pairs(__m512 sum, __m512 a, __m512 b) {
  return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}

template <int R, int N>
CLIKA_PAIRS void score_pairs(const float* query, int64_t stride, const float* columns, int64_t size, float* scores) {
  __m512 sum[R][N];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i) sum[r][i] = _mm512_setzero_ps();
  }
  for (int64_t d = 0; d < size; ++d) {
    __m512 key[N];
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i) key[i] = _mm512_loadu_ps(columns + d * kBlock + i * W);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const __m512 q = _mm512_set1_ps(query[r * stride + d]);
#pragma GCC unroll 4
      for (int i = 0; i < N; ++i) sum[r][i] = add_pairs(sum[r][i], q, key[i]);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i) _mm512_storeu_ps(scores + r * kBlock + i * W, sum[r][i]);
  }
}
template <int R>
CLIKA_PAIRS void scores_of_pairs(const float* query, int64_t stride, const float* columns, int64_t size, int64_t n,
                                 float* out) {
  int64_t j = 0;
  if (n > 2 * W) {
    for (; j + 3 * W < n; j += 4 * W) score_pairs<R, 4>(query, stride, columns + j, size, out + j);
  }
  for (; j + W < n; j += 2 * W) score_pairs<R, 2>(query, stride, columns + j, size, out + j);
  for (; j < n; j += W) score_pairs<R, 1>(query, stride, columns + j, size, out + j);
}

template <int R, int N>
CLIKA_PAIRS void value_pairs(const float* weights, const float* values, int64_t begin, int64_t end, int64_t width,
                             float* sums, int64_t stride) {
  __m512 sum[R][N];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i) sum[r][i] = _mm512_loadu_ps(sums + r * stride + i * W);
  }
  for (int64_t j = begin; j < end; ++j) {
    __m512 value[N];
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i) value[i] = _mm512_loadu_ps(values + j * width + i * W);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const __m512 w = _mm512_set1_ps(weights[r * kBlock + j]);
#pragma GCC unroll 4
      for (int i = 0; i < N; ++i) sum[r][i] = add_pairs(sum[r][i], w, value[i]);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i) _mm512_storeu_ps(sums + r * stride + i * W, sum[r][i]);
  }
}
template <int R>
CLIKA_PAIRS void values_of_pairs(const float* weights, const float* values, int64_t begin, int64_t end, int64_t width,
                                 float* sums, int64_t stride) {
  int64_t e = 0;
  for (; e + 4 * W <= width; e += 4 * W) value_pairs<R, 4>(weights, values + e, begin, end, width, sums + e, stride);
  for (; e < width; e += W) value_pairs<R, 1>(weights, values + e, begin, end, width, sums + e, stride);
}

// Calls body<R>() for kTileRows rows at a time and for what is left.
template <int R = kTileRows, class Body>
CLIKA_INLINE void with_rows(int64_t rows, const Body& body) {
  if constexpr (R > 1) {
    if (rows < R) return with_rows<R - 1>(rows, body);
  }
  body(std::integral_constant<int, R>{});
}
void scores_by_pairs(const float* query, int64_t stride, int64_t rows, const float* columns, int64_t size, int64_t n,
                     float* out) {
  for (; rows > 0; rows -= kTileRows) {
    with_rows(rows, [&](auto r) { scores_of_pairs<r>(query, stride, columns, size, n, out); });
    query += kTileRows * stride;
    out += kTileRows * kBlock;
  }
}
void add_values_by_pairs(const float* weights, int64_t rows, const float* values, int64_t begin, int64_t end, int64_t width,
                         float* sums, int64_t stride) {
  for (; rows > 0; rows -= kTileRows) {
    with_rows(rows, [&](auto r) { values_of_pairs<r>(weights, values, begin, end, width, sums, stride); });
    weights += kTileRows * kBlock;
    sums += kTileRows * stride;
  }
}
constexpr PairTiles kTiles = {narrow, join, scores_by_pairs, add_values_by_pairs};
#endif

}  // namespace
const PairTiles* pair_tiles() {
#if CLIKA_X86 && CLIKA_LEVEL == 2
  static const bool there = has_pairs();
  if (there) return &kTiles;
#endif
  return nullptr;
}
// No kernels of an operator here, so the macro of level.hpp does not fit: its array may not be empty.
extern const KernelFile file_attention_bfloat16;
CLIKA_CONSTINIT const KernelFile file_attention_bfloat16 = {nullptr, 0, nullptr};
namespace {
#include "level_end.hpp"
