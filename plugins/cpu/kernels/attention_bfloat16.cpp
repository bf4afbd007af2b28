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

// out[r][e] = sum over k in [begin, end) of left[r][k] * right[k][e], on top of what stands there where kAdds says so, for R
// rows and N vectors of e. All strides are in words.
template <int R, int N, bool kAdds>
CLIKA_PAIRS void multiply_pairs(const float* left, int64_t left_stride, const float* right, int64_t right_stride,
                                int64_t begin, int64_t end, float* out, int64_t stride) {
  __m512 sum[R][N];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i) sum[r][i] = kAdds ? _mm512_loadu_ps(out + r * stride + i * W) : _mm512_setzero_ps();
  }
  for (int64_t k = begin; k < end; ++k) {
    __m512 vector[N];
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i) vector[i] = _mm512_loadu_ps(right + k * right_stride + i * W);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const __m512 factor = _mm512_set1_ps(left[r * left_stride + k]);
#pragma GCC unroll 4
      for (int i = 0; i < N; ++i) sum[r][i] = add_pairs(sum[r][i], factor, vector[i]);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i) _mm512_storeu_ps(out + r * stride + i * W, sum[r][i]);
  }
}

template <int R>
CLIKA_PAIRS void scores_of_pairs(const float* query, int64_t stride, const float* columns, int64_t size, int64_t n,
                                 float* out) {
  const auto multiply = [&](auto vectors, int64_t j) {
    multiply_pairs<R, vectors, false>(query, stride, columns + j, kBlock, 0, size, out + j, kBlock);
  };
  int64_t j = 0;
  for (; j + 3 * W < n; j += 4 * W) multiply(std::integral_constant<int, 4>{}, j);
  for (; j + W < n; j += 2 * W) multiply(std::integral_constant<int, 2>{}, j);
  for (; j < n; j += W) multiply(std::integral_constant<int, 1>{}, j);
}
void scores_by_pairs(const float* query, int64_t stride, int64_t rows, const float* columns, int64_t size, int64_t n,
                     float* out) {
  each_rows(rows, [&](auto r, int64_t row) {
    scores_of_pairs<r>(query + row * stride, stride, columns, size, n, out + row * kBlock);
  });
}

template <int R>
CLIKA_PAIRS void values_of_pairs(const float* weights, const float* values, int64_t begin, int64_t end, int64_t width,
                                 float* sums, int64_t stride) {
  int64_t e = 0;
  for (; e + 4 * W <= width; e += 4 * W) {
    multiply_pairs<R, 4, true>(weights, kBlock, values + e, width, begin, end, sums + e, stride);
  }
  for (; e < width; e += W) {
    multiply_pairs<R, 1, true>(weights, kBlock, values + e, width, begin, end, sums + e, stride);
  }
}
void add_values_by_pairs(const float* weights, int64_t rows, const float* values, int64_t begin, int64_t end, int64_t width,
                         float* sums, int64_t stride) {
  each_rows(rows, [&](auto r, int64_t row) {
    values_of_pairs<r>(weights + row * kBlock, values, begin, end, width, sums + row * stride, stride);
  });
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
