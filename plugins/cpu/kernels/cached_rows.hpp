// Rows of a cache in one byte an element: float8 e4m3, and Q8_0, blocks of 32 codes behind a float16 scale as in
// GGUF (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). Included after level.hpp.
//
// A row is written from its own numbers alone. Codes and scales are read exactly: a code times its scale has at most
// 19 significant bits. So attention over such rows gives the bits of attention over the float32 numbers that they
// hold.
#pragma once

// What a pool may be in: bytes are rows of Q8_0 blocks.
constexpr uint64_t POOLS = FLOATS | CLIKA_BIT(CLIKA_FLOAT8_E4M3) | CLIKA_BIT(CLIKA_UINT8);

struct e4m3 {
  uint8_t bits;
};
struct q8_0 {  // a byte of a row of blocks
  uint8_t bits;
};
constexpr int64_t kCodes = 32;              // of a block of Q8_0
constexpr int64_t kCodeBytes = 2 + kCodes;  // its bytes: the scale comes first
constexpr float kLargestHalf = 65504.0f;
constexpr float kLargestFloat8 = 448.0f;

// ------------------------------------------------------------------ writing
// The nearest e4m3, ties to even; beyond +-448, infinity included, it is +-448. NaN stays NaN.
CLIKA_INLINE uint8_t to_e4m3(float x) {
  const uint32_t sign = bits_of(x) >> 24 & 0x80u;
  const uint32_t magnitude = bits_of(x) & 0x7fffffffu;
  const float clamped = float_of(std::min(magnitude, bits_of(kLargestFloat8)));
  const uint32_t u = bits_of(clamped);
  // From 2^-6 on three bits of the mantissa stay; below, the sum rounds to multiples of 2^-9.
  const uint32_t normal = ((u + 0x7ffffu + (u >> 20 & 1u)) >> 20) - (120u << 3);
  const uint32_t small = bits_of(clamped + 16384.0f) - bits_of(16384.0f);
  const uint32_t code = u < (121u << 23) ? small : normal;
  return static_cast<uint8_t>(sign | (magnitude > 0x7f800000u ? 0x7fu : code));
}

// A block of Q8_0: d = max |x| / 127, q = x / d to the nearest, halves away from zero; as GGUF's reference. d is kept
// within float16. A block with a number that is not finite holds NaN.
inline void to_q8_0(const float* x, uint8_t* block) {
  uint32_t most = 0;
  for (int i = 0; i < kCodes; ++i) most = std::max(most, bits_of(x[i]) & 0x7fffffffu);
  const bool finite = most < 0x7f800000u;
  const float d = std::min(float_of(most) / 127.0f, kLargestHalf);
  const float inverse = finite && d >= std::numeric_limits<float>::min() ? 1.0f / d : 0.0f;
  const f16 scale = finite ? to_f16(d) : f16{0x7e00};
  std::memcpy(block, &scale, sizeof(scale));
  for (int i = 0; i < kCodes; ++i) {
    const float scaled = finite ? x[i] * inverse : 0.0f;
    const float magnitude = std::min(float_of(bits_of(scaled) & 0x7fffffffu), 127.0f);
    const int32_t down = static_cast<int32_t>(magnitude);
    const int32_t code = down + (magnitude - static_cast<float>(down) >= 0.5f ? 1 : 0);
    block[2 + i] = static_cast<uint8_t>(scaled < 0.0f ? -code : code);
  }
}

// ------------------------------------------------------------------ reading
// The number of an e4m3 that is none of its NaNs; it stands in the top byte of a lane, above anything.
CLIKA_INLINE vf number_of_e4m3(vu x) {
  const vu bits = ((x & 0x7f000000u) >> 4) + (120u << 23);
  const vf normal = reinterpret_cast<vf>(bits);
  // Without an exponent the leading one is too much and the rest is twice as large; with one that would be larger.
  const vf value = vmin(normal, fma(normal, splat(2.0f), splat(-0.015625f)));
  return reinterpret_cast<vf>(reinterpret_cast<vu>(value) | (x & 0x80000000u));
}
CLIKA_INLINE vf number_or_nan(vu x) {
  const vf nan = splat(std::numeric_limits<float>::quiet_NaN());
  return (x & 0x7f000000u) == 0x7f000000u ? nan : number_of_e4m3(x);
}

// 16 bytes, with their sign, as lanes.
struct Sixteen {
  vi at[16 / W];
};
CLIKA_INLINE Sixteen load_sixteen(const uint8_t* p) {
  Sixteen out;
#if CLIKA_X86 && CLIKA_LEVEL == 2
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  out.at[0] = (vi)_mm512_maskz_cvtepi8_epi32(kEveryLane, bytes);
#elif CLIKA_X86 && CLIKA_LEVEL == 1
  for (int i = 0; i < 2; ++i) {
    out.at[i] = (vi)_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + 8 * i)));
  }
#else
  typedef uint8_t Bytes __attribute__((vector_size(16)));
  typedef uint16_t Pairs __attribute__((vector_size(16)));
  Bytes x;
  std::memcpy(&x, p, sizeof(x));
  const auto low = (Pairs)__builtin_shufflevector(x, x, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const auto high = (Pairs)__builtin_shufflevector(x, x, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  out.at[0] = (vi)__builtin_shufflevector(low, low, 0, 8, 1, 9, 2, 10, 3, 11) >> 24;
  out.at[1] = (vi)__builtin_shufflevector(low, low, 4, 12, 5, 13, 6, 14, 7, 15) >> 24;
  out.at[2] = (vi)__builtin_shufflevector(high, high, 0, 8, 1, 9, 2, 10, 3, 11) >> 24;
  out.at[3] = (vi)__builtin_shufflevector(high, high, 4, 12, 5, 13, 6, 14, 7, 15) >> 24;
#endif
  return out;
}
CLIKA_INLINE float scale_of(const uint8_t* block) {
  f16 half;
  std::memcpy(&half, block, sizeof(half));
#if CLIKA_X86 && CLIKA_LEVEL >= 1
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(half.bits)));
#else
  return to_float(half);
#endif
}

// A row of `size` elements as float, up to the next multiple of W; what lies beyond `size` is zero.
inline void widen_row(const q8_0* row, int64_t size, float* to) {
  const uint8_t* block = reinterpret_cast<const uint8_t*>(row);
  for (int64_t at = 0; at < size; at += kCodes, block += kCodeBytes) {
    const vf scale = splat(scale_of(block));
    for (int64_t part = 0; part < kCodes; part += 16) {
      const Sixteen codes = load_sixteen(block + 2 + part);
      for (int i = 0; i < 16 / W; ++i) {
        store(to + at + part + i * W, __builtin_convertvector(codes.at[i], vf) * scale);
      }
    }
  }
}
inline void widen_row(const e4m3* row, int64_t size, float* to) {
  const uint8_t* bytes = reinterpret_cast<const uint8_t*>(row);
  for (int64_t at = 0; at < size; at += 16) {
    uint8_t rest[16] = {};
    const int64_t count = std::min<int64_t>(16, size - at);
    if (count < 16) std::memcpy(rest, bytes + at, static_cast<size_t>(count));
    const Sixteen codes = load_sixteen(count < 16 ? rest : bytes + at);
    for (int i = 0; i * W < count; ++i) {
      store(to + at + i * W, number_or_nan(reinterpret_cast<vu>(codes.at[i]) << 24));
    }
  }
}

// ------------------------------------------------------------------ keys as columns
// Within each 128 bits: words 0 and 1 (2 and 3) of a and b in turns; pairs of words 0 1 (2 3) of a, then of b.
#if CLIKA_X86 && CLIKA_LEVEL == 2
#define CLIKA_LANES(a, b, i, j, k, l)                                                                          \
  __builtin_shufflevector(a, b, i, j, k, l, i + 4, j + 4, k + 4, l + 4, i + 8, j + 8, k + 8, l + 8, i + 12, j + 12, \
                          k + 12, l + 12)
#elif CLIKA_X86 && CLIKA_LEVEL == 1
#define CLIKA_LANES(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l, i + 4, j + 4, k + 4, l + 4)
#else
#define CLIKA_LANES(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#endif

// 16 bytes of every fourth of W rows, from the first one on.
CLIKA_INLINE vu every_fourth(const uint8_t* const* rows, int64_t offset) {
#if CLIKA_X86 && CLIKA_LEVEL >= 1
  const auto part = [&](int i) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[i] + offset));
  };
#endif
#if CLIKA_X86 && CLIKA_LEVEL == 2
  __m512i x = _mm512_zextsi128_si512(part(0));
  x = _mm512_inserti32x4(x, part(4), 1);
  x = _mm512_inserti32x4(x, part(8), 2);
  return (vu)_mm512_inserti32x4(x, part(12), 3);
#elif CLIKA_X86 && CLIKA_LEVEL == 1
  return (vu)_mm256_inserti128_si256(_mm256_castsi128_si256(part(0)), part(4), 1);
#else
  vu x;
  std::memcpy(&x, rows[0] + offset, sizeof(x));
  return x;
#endif
}

// 16 bytes of W rows as four words to a row: lane r of words[k] holds bytes 4 k .. 4 k + 3 of row r.
CLIKA_INLINE void transpose_words(const uint8_t* const* rows, int64_t offset, vu (&words)[4]) {
  const vu a = every_fourth(rows, offset);
  const vu b = every_fourth(rows + 1, offset);
  const vu c = every_fourth(rows + 2, offset);
  const vu d = every_fourth(rows + 3, offset);
  const vu ab = CLIKA_LANES(a, b, 0, W, 1, W + 1);
  const vu cd = CLIKA_LANES(c, d, 0, W, 1, W + 1);
  words[0] = CLIKA_LANES(ab, cd, 0, 1, W, W + 1);
  words[1] = CLIKA_LANES(ab, cd, 2, 3, W + 2, W + 3);
  const vu ab_high = CLIKA_LANES(a, b, 2, W + 2, 3, W + 3);
  const vu cd_high = CLIKA_LANES(c, d, 2, W + 2, 3, W + 3);
  words[2] = CLIKA_LANES(ab_high, cd_high, 0, 1, W, W + 1);
  words[3] = CLIKA_LANES(ab_high, cd_high, 2, 3, W + 2, W + 3);
}
#undef CLIKA_LANES

// columns[d][j] = element d of row j for W rows of bytes; `stride` floats lie between columns.
inline void rows_to_columns(q8_0, const uint8_t* const* bytes, int64_t size, float* columns, int64_t stride) {
  int64_t block = 0;
  for (int64_t at = 0; at < size; at += kCodes, block += kCodeBytes) {
    f16 halves[W];
    for (int i = 0; i < W; ++i) std::memcpy(halves + i, bytes[i] + block, sizeof(f16));
    const vf scale = load(halves);
    for (int64_t part = 0; part < kCodes; part += 16) {
      vu words[4];
      transpose_words(bytes, block + 2 + part, words);
      float* to = columns + (at + part) * stride;
      for (int k = 0; k < 4; ++k) {
        for (int c = 0; c < 4; ++c, to += stride) {
          const vi code = reinterpret_cast<vi>(words[k] << (24 - 8 * c)) >> 24;
          store(to, __builtin_convertvector(code, vf) * scale);
        }
      }
    }
  }
}
template <vf (*kNumber)(vu)>
CLIKA_INLINE void store_columns(const vu (&words)[4], int64_t count, float* columns, int64_t stride) {
  for (int k = 0; k < 4; ++k) {
    for (int c = 0; c < 4; ++c, columns += stride) {
      if (4 * k + c < count) store(columns, kNumber(words[k] << (24 - 8 * c)));
    }
  }
}
inline void rows_to_columns(e4m3, const uint8_t* const* bytes, int64_t size, float* columns, int64_t stride) {
  int64_t at = 0;
  for (; at + 16 <= size; at += 16) {
    vu words[4];
    transpose_words(bytes, at, words);
    vu high = {};  // the top bit of a byte is set where it is NaN
    for (const vu word : words) high |= (word & 0x7f7f7f7fu) + 0x01010101u;
    const vi odd = reinterpret_cast<vi>((high & 0x80808080u) != 0u);
    if (reduce_max(__builtin_convertvector(-odd, vf)) == 0.0f) {
      store_columns<number_of_e4m3>(words, 16, columns + at * stride, stride);
    } else {
      store_columns<number_or_nan>(words, 16, columns + at * stride, stride);
    }
  }
  if (at == size) return;
  uint8_t rest[W][16] = {};
  const uint8_t* starts[W];
  for (int i = 0; i < W; ++i) {
    std::memcpy(rest[i], bytes[i] + at, static_cast<size_t>(size - at));
    starts[i] = rest[i];
  }
  vu words[4];
  transpose_words(starts, 0, words);
  store_columns<number_or_nan>(words, size - at, columns + at * stride, stride);
}

// The same for n rows: `columns` are written up to the next multiple of W, in lanes that no row stands for with some
// row's elements.
template <class T>
CLIKA_NOINLINE void codes_to_columns(const T* const* rows, int64_t n, int64_t size, float* columns, int64_t stride) {
  for (int64_t j = 0; j < n; j += W) {
    // Pointers of another type are other objects: each one is converted, not the array.
    const uint8_t* group[W];
    for (int64_t i = 0; i < W; ++i) group[i] = reinterpret_cast<const uint8_t*>(rows[std::min(j + i, n - 1)]);
    rows_to_columns(T{}, group, size, columns + j, stride);
  }
}
