// linear over dense float32, bfloat16 and float16 weights, read as published.
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <type_traits>

#include "level.hpp"

#include "blocks.hpp"
#include "linear_lanes.hpp"
#include "pack.hpp"
#include "quantize_activations.hpp"
#include "linear.hpp"

#if CLIKA_X86 && CLIKA_LEVEL >= 1
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
  static constexpr bool kHasSingle = false;
  const T* data;
  int64_t rows;
  int64_t columns;

  void fill(int64_t group, int64_t first, int64_t last, float* panel) const {
    const T* row[kGroup];
    for (int r = 0; r < kGroup; ++r) {
      // Rows past the end repeat the last one: their sums are not written.
      row[r] = data + std::min(group * kGroup + r, rows - 1) * columns + first;
    }
    const int64_t count = last - first;
    int64_t k = 0;
#if CLIKA_X86 && CLIKA_LEVEL >= 1
    for (; k + 8 <= count; k += 8) {
      for (int r = 0; r < kGroup; r += 8) transpose8(row + r, k, panel + k * W + r);
    }
#endif
    for (; k < count; ++k) {
      for (int r = 0; r < kGroup; ++r) panel[k * W + r] = to_float(row[r][k]);
    }
  }
};

template <class T>
int32_t linear_dense(const clika_call* call) {
  Linear p;
  bool empty = false;
  const int32_t status = read_call(call, &p, &empty);
  if (status != CLIKA_OK || empty) return status;
  const DenseSource<T> source = {static_cast<const T*>(p.weight->data), p.n, p.k};
  return run_exact(p, source);
}

constexpr Entry dense_entry(clika_kernel_fn run, uint64_t weight) {
  return Entry("linear", run)
      .in(FLOATS, weight, FLOATS)
      .out(FLOATS)
      .rank(1, CLIKA_MAX_RANK)
      .contiguous()
      .parallel();
}

CLIKA_KERNELS(linear_float, dense_entry(linear_dense<float>, F32), dense_entry(linear_dense<bf16>, BF16),
              dense_entry(linear_dense<f16>, F16))
#include "level_end.hpp"
