// The tiles of attention: a block of keys turned into columns, scores of query rows against it, and weighted
// sums of value rows. Included after level.hpp.
//
// Every number is one chain of fma: a score runs over the head's elements in ascending order, a weighted sum
// over the block's positions. How many rows share a tile changes the speed and no bit.

constexpr int64_t kBlock = 64;  // positions of a KV block

// Memory that is asked for while something else is computed, in ascending order and a few lines at a time: so the
// requests never stand in each other's way.
struct Ahead {
  const char* at = nullptr;
  const char* end = nullptr;

  // Called once for 256 bytes that are computed with; asks for as much.
  CLIKA_INLINE void step() {
    if (at >= end) return;
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) __builtin_prefetch(at + 64 * i, 0, 2);
    at += 256;
  }
  void all() {
    while (at < end) step();
  }
};

// ------------------------------------------------------------------ keys as columns
#if CLIKA_X86 && CLIKA_LEVEL >= 1
constexpr int64_t kSquare = 8;
CLIKA_INLINE __m256 load8(const float* p) { return _mm256_loadu_ps(p); }
CLIKA_INLINE __m256 load8(const bf16* p) {
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}
CLIKA_INLINE __m256 load8(const f16* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
template <class T>
CLIKA_INLINE void transpose_square(const T* const* rows, int64_t column, float* out) {
  const __m256 r0 = load8(rows[0] + column);
  const __m256 r1 = load8(rows[1] + column);
  const __m256 r2 = load8(rows[2] + column);
  const __m256 r3 = load8(rows[3] + column);
  const __m256 r4 = load8(rows[4] + column);
  const __m256 r5 = load8(rows[5] + column);
  const __m256 r6 = load8(rows[6] + column);
  const __m256 r7 = load8(rows[7] + column);
  const __m256 a0 = _mm256_unpacklo_ps(r0, r1);
  const __m256 a1 = _mm256_unpackhi_ps(r0, r1);
  const __m256 a2 = _mm256_unpacklo_ps(r2, r3);
  const __m256 a3 = _mm256_unpackhi_ps(r2, r3);
  const __m256 a4 = _mm256_unpacklo_ps(r4, r5);
  const __m256 a5 = _mm256_unpackhi_ps(r4, r5);
  const __m256 a6 = _mm256_unpacklo_ps(r6, r7);
  const __m256 a7 = _mm256_unpackhi_ps(r6, r7);
  const __m256 b0 = _mm256_shuffle_ps(a0, a2, 0x44);
  const __m256 b1 = _mm256_shuffle_ps(a0, a2, 0xee);
  const __m256 b2 = _mm256_shuffle_ps(a1, a3, 0x44);
  const __m256 b3 = _mm256_shuffle_ps(a1, a3, 0xee);
  const __m256 b4 = _mm256_shuffle_ps(a4, a6, 0x44);
  const __m256 b5 = _mm256_shuffle_ps(a4, a6, 0xee);
  const __m256 b6 = _mm256_shuffle_ps(a5, a7, 0x44);
  const __m256 b7 = _mm256_shuffle_ps(a5, a7, 0xee);
  _mm256_storeu_ps(out + 0 * kBlock, _mm256_permute2f128_ps(b0, b4, 0x20));
  _mm256_storeu_ps(out + 1 * kBlock, _mm256_permute2f128_ps(b1, b5, 0x20));
  _mm256_storeu_ps(out + 2 * kBlock, _mm256_permute2f128_ps(b2, b6, 0x20));
  _mm256_storeu_ps(out + 3 * kBlock, _mm256_permute2f128_ps(b3, b7, 0x20));
  _mm256_storeu_ps(out + 4 * kBlock, _mm256_permute2f128_ps(b0, b4, 0x31));
  _mm256_storeu_ps(out + 5 * kBlock, _mm256_permute2f128_ps(b1, b5, 0x31));
  _mm256_storeu_ps(out + 6 * kBlock, _mm256_permute2f128_ps(b2, b6, 0x31));
  _mm256_storeu_ps(out + 7 * kBlock, _mm256_permute2f128_ps(b3, b7, 0x31));
}
#else
constexpr int64_t kSquare = 4;
template <class T>
CLIKA_INLINE void transpose_square(const T* const* rows, int64_t column, float* out) {
  const vf r0 = load(rows[0] + column);
  const vf r1 = load(rows[1] + column);
  const vf r2 = load(rows[2] + column);
  const vf r3 = load(rows[3] + column);
  const vf a0 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5);
  const vf a1 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
  const vf a2 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);
  const vf a3 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
  store(out + 0 * kBlock, __builtin_shufflevector(a0, a2, 0, 1, 4, 5));
  store(out + 1 * kBlock, __builtin_shufflevector(a0, a2, 2, 3, 6, 7));
  store(out + 2 * kBlock, __builtin_shufflevector(a1, a3, 0, 1, 4, 5));
  store(out + 3 * kBlock, __builtin_shufflevector(a1, a3, 2, 3, 6, 7));
}
#endif

// columns[d][j] = rows[j][d] as float, for n rows; the columns from n up to the next multiple of `kSquare`
// are zero, what lies beyond is not written.
template <class T>
CLIKA_NOINLINE void keys_to_columns(const T* const* rows, int64_t n, int64_t step, int64_t size,
                                    float* columns, Ahead* ahead) {
  int64_t j = 0;
  if (step == 1) {
    for (; j + kSquare <= n; j += kSquare) {
      int64_t d = 0;
      for (; d + kSquare <= size; d += kSquare) {
        transpose_square(rows + j, d, columns + d * kBlock + j);
        ahead->step();
      }
      for (; d < size; ++d) {
        for (int64_t i = 0; i < kSquare; ++i) columns[d * kBlock + j + i] = to_float(rows[j + i][d]);
      }
    }
  }
  for (; j < n; ++j) {
    for (int64_t d = 0; d < size; ++d) columns[d * kBlock + j] = to_float(rows[j][d * step]);
  }
  for (; j < kBlock && j % W != 0; ++j) {
    for (int64_t d = 0; d < size; ++d) columns[d * kBlock + j] = 0.0f;
  }
}

// ------------------------------------------------------------------ scores
// scores[r][j] = sum over d of query[r][d] * columns[d][j], for R rows and N vectors of columns.
template <int R, int N>
CLIKA_INLINE void score_tile(const float* query, int64_t query_stride, const float* columns, int64_t size,
                             float* scores) {
  vf sum[R][N];
  for (int r = 0; r < R; ++r) {
    for (int i = 0; i < N; ++i) sum[r][i] = zero();
  }
  for (int64_t d = 0; d < size; ++d) {
    vf key[N];
    for (int i = 0; i < N; ++i) key[i] = load(columns + d * kBlock + i * W);
    for (int r = 0; r < R; ++r) {
      const vf q = splat(query[r * query_stride + d]);
      for (int i = 0; i < N; ++i) sum[r][i] = fma(q, key[i], sum[r][i]);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int i = 0; i < N; ++i) store(scores + r * kBlock + i * W, sum[r][i]);
  }
}

// sums[r][e] += sum over j in [begin, end) of weights[r][j] * values[j][e], for R rows and N vectors of e.
template <int R, int N>
CLIKA_INLINE void value_tile(const float* weights, const float* const* values, int64_t begin, int64_t end,
                             int64_t column, float* sums, int64_t sums_stride, Ahead* ahead) {
  vf sum[R][N];
  for (int r = 0; r < R; ++r) {
    for (int i = 0; i < N; ++i) sum[r][i] = load(sums + r * sums_stride + column + i * W);
  }
  for (int64_t j = begin; j < end; ++j) {
    const float* row = values[j] + column;
    vf value[N];
    for (int i = 0; i < N; ++i) value[i] = load(row + i * W);
    if constexpr (N * W == 64) ahead->step();
    for (int r = 0; r < R; ++r) {
      const vf w = splat(weights[r * kBlock + j]);
      for (int i = 0; i < N; ++i) sum[r][i] = fma(w, value[i], sum[r][i]);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int i = 0; i < N; ++i) store(sums + r * sums_stride + column + i * W, sum[r][i]);
  }
}

#if CLIKA_LEVEL == 2 && CLIKA_X86
constexpr int kTileRows = 6;  // 24 sums, 4 columns and a broadcast in 32 registers
template <int R>
constexpr int tile_vectors() {
  return 4;
}
#else
constexpr int kTileRows = 6;  // 12 sums, 2 columns and a broadcast in 16 registers
template <int R>
constexpr int tile_vectors() {
  return R == 1 ? 8 : R == 2 ? 4 : 2;
}
#endif

template <int R>
CLIKA_NOINLINE void scores_of(const float* query, int64_t query_stride, const float* columns, int64_t size,
                              int64_t n, float* scores) {
  constexpr int N = tile_vectors<R>() * W > kBlock ? static_cast<int>(kBlock / W) : tile_vectors<R>();
  int64_t j = 0;
  for (; j + N * W <= n; j += N * W) score_tile<R, N>(query, query_stride, columns + j, size, scores + j);
  if constexpr (N > 2) {
    for (; j + 2 * W <= n; j += 2 * W) score_tile<R, 2>(query, query_stride, columns + j, size, scores + j);
  }
  for (; j < n; j += W) score_tile<R, 1>(query, query_stride, columns + j, size, scores + j);
}
template <int R>
CLIKA_NOINLINE void values_of(const float* weights, const float* const* values, int64_t begin, int64_t end,
                              int64_t size, float* sums, int64_t sums_stride, Ahead* ahead) {
  constexpr int N = tile_vectors<R>();
  int64_t e = 0;
  for (; e + N * W <= size; e += N * W) value_tile<R, N>(weights, values, begin, end, e, sums, sums_stride, ahead);
  for (; e < size; e += W) value_tile<R, 1>(weights, values, begin, end, e, sums, sums_stride, ahead);
}

// Calls body(std::integral_constant<int, n>, first row) for kTileRows rows at a time and for what is left.
template <int R = kTileRows, class Body>
CLIKA_INLINE void each_rows(int64_t rows, const Body& body, int64_t row = 0) {
  for (; rows - row >= R; row += R) body(std::integral_constant<int, R>{}, row);
  if constexpr (R > 1) each_rows<R - 1>(rows, body, row);
}

// Any number of rows.
inline void scores(const float* query, int64_t stride, int64_t rows, const float* columns, int64_t size,
                   int64_t n, float* out) {
  each_rows(rows, [&](auto r, int64_t row) {
    scores_of<r>(query + row * stride, stride, columns, size, n, out + row * kBlock);
  });
}
inline void add_values(const float* weights, int64_t rows, const float* const* values, int64_t begin,
                       int64_t end, int64_t size, float* sums, int64_t stride, Ahead* ahead) {
  each_rows(rows, [&](auto r, int64_t row) {
    values_of<r>(weights + row * kBlock, values, begin, end, size, sums + row * stride, stride, ahead);
  });
}
