// Integer lanes for the packed linears. Included after level.hpp and blocks.hpp.
//
// `vu` holds 4 codes of W rows: byte c of lane r is column c of row r. The dot products below take a block's
// 8 words of codes and the 32 int8 activations of one token; word j meets activations 4 j .. 4 j + 3.
#pragma once

typedef uint32_t vu_any __attribute__((vector_size(4 * W), aligned(1), may_alias));
typedef int8_t vc __attribute__((vector_size(W)));

CLIKA_INLINE vu load_words(const uint8_t* p) { return *reinterpret_cast<const vu_any*>(p); }
CLIKA_INLINE vf load_halves(const uint8_t* p) { return load(reinterpret_cast<const f16*>(p)); }
CLIKA_INLINE vu low_halves(vu x) { return x & 0x0f0f0f0fu; }
CLIKA_INLINE vu high_halves(vu x) { return (x >> 4) & 0x0f0f0f0fu; }
// Byte c of every lane, without and with its sign.
CLIKA_INLINE vi unsigned_byte(vu words, int c) {
#if CLIKA_X86 && CLIKA_LEVEL >= 1
  const __m128i pick = _mm_setr_epi8(c, -1, -1, -1, c + 4, -1, -1, -1, c + 8, -1, -1, -1, c + 12, -1, -1, -1);
#if CLIKA_LEVEL == 2
  return (vi)_mm512_shuffle_epi8((__m512i)words, _mm512_broadcast_i32x4(pick));
#else
  return (vi)_mm256_shuffle_epi8((__m256i)words, _mm256_broadcastsi128_si256(pick));
#endif
#else
  return reinterpret_cast<vi>((words >> (8 * c)) & 255u);
#endif
}
CLIKA_INLINE vi signed_byte(vu words, int c) { return reinterpret_cast<vi>(words << (24 - 8 * c)) >> 24; }
CLIKA_INLINE vf to_floats(vi x) { return __builtin_convertvector(x, vf); }

// The 32 int8 codes of a block of activations from their int32 lanes, and reductions over lanes.
constexpr int kBlockLanes = kBlock / W;
#if CLIKA_X86 && CLIKA_LEVEL == 1
CLIKA_INLINE void store_codes(int8_t* p, const vi (&x)[kBlockLanes]) {
  const __m256i first = _mm256_packs_epi32((__m256i)x[0], (__m256i)x[1]);
  const __m256i second = _mm256_packs_epi32((__m256i)x[2], (__m256i)x[3]);
  const __m256i mixed = _mm256_packs_epi16(first, second);  // in quarters of 4: 0 2 4 6 1 3 5 7
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permutevar8x32_epi32(mixed, order));
}
CLIKA_INLINE int32_t max_lane(vi x) {
  __m128i h = _mm_max_epi32(_mm256_castsi256_si128((__m256i)x), _mm256_extracti128_si256((__m256i)x, 1));
  h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(h, _mm_shuffle_epi32(h, 0xb1)));
}
CLIKA_INLINE int32_t sum_lanes(vi x) {
  __m128i h = _mm_add_epi32(_mm256_castsi256_si128((__m256i)x), _mm256_extracti128_si256((__m256i)x, 1));
  h = _mm_add_epi32(h, _mm_shuffle_epi32(h, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(h, _mm_shuffle_epi32(h, 0xb1)));
}
#else
CLIKA_INLINE void store_codes(int8_t* p, const vi (&x)[kBlockLanes]) {
  for (int i = 0; i < kBlockLanes; ++i) {
    const vc narrow = __builtin_convertvector(x[i], vc);
    std::memcpy(p + i * W, &narrow, W);
  }
}
#if CLIKA_X86 && CLIKA_LEVEL == 2
CLIKA_INLINE int32_t max_lane(vi x) { return _mm512_reduce_max_epi32((__m512i)x); }
CLIKA_INLINE int32_t sum_lanes(vi x) { return _mm512_reduce_add_epi32((__m512i)x); }
#else
CLIKA_INLINE int32_t max_lane(vi x) { return std::max(std::max(x[0], x[1]), std::max(x[2], x[3])); }
CLIKA_INLINE int32_t sum_lanes(vi x) { return (x[0] + x[1]) + (x[2] + x[3]); }
#endif
#endif

CLIKA_INLINE int32_t word_at(const int8_t* p) {
  int32_t word;
  std::memcpy(&word, p, 4);
  return word;
}

#if CLIKA_X86 && CLIKA_LEVEL == 2
// Unsigned codes times signed activations, 4 products to a lane, on top of `sum`.
CLIKA_INLINE vi dot_codes(const vu (&codes)[8], const int8_t* a, vi sum) {
  __m512i total = (__m512i)sum;
  for (int j = 0; j < 8; ++j) {
    total = _mm512_dpbusd_epi32(total, (__m512i)codes[j], _mm512_set1_epi32(word_at(a + 4 * j)));
  }
  return (vi)total;
}
// Signed bytes times signed activations: the bytes are stored as b, the instruction wants them unsigned, so
// prepare_signed gives b + 128, and 128 * sum(a) is taken off again through `sum`.
constexpr int kSignedOffset = 128;
CLIKA_INLINE vu prepare_signed(vu x) { return x ^ 0x80808080u; }
CLIKA_INLINE vi dot_signed(const vu (&codes)[8], const int8_t* a, vi sum) { return dot_codes(codes, a, sum); }

#elif CLIKA_X86 && CLIKA_LEVEL == 1
// Codes are at most 15: eight sums of two products reach 8 * 2 * 15 * 127 = 30480 and fit 16 bits.
CLIKA_INLINE vi dot_codes(const vu (&codes)[8], const int8_t* a, vi sum) {
  __m256i pairs = _mm256_maddubs_epi16((__m256i)codes[0], _mm256_set1_epi32(word_at(a)));
  for (int j = 1; j < 8; ++j) {
    pairs = _mm256_add_epi16(
        pairs, _mm256_maddubs_epi16((__m256i)codes[j], _mm256_set1_epi32(word_at(a + 4 * j))));
  }
  return (vi)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)) + sum;
}
// |b| times a with b's sign: -128 stays right as the unsigned 128, activations are never -128, and two
// products reach 2 * 128 * 127 = 32512.
constexpr int kSignedOffset = 0;
CLIKA_INLINE vu prepare_signed(vu x) { return x; }
CLIKA_INLINE vi dot_signed(const vu (&codes)[8], const int8_t* a, vi sum) {
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i total = (__m256i)sum;
  for (int j = 0; j < 8; ++j) {
    const __m256i b = (__m256i)codes[j];
    const __m256i signed_a = _mm256_sign_epi8(_mm256_set1_epi32(word_at(a + 4 * j)), b);
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(b), signed_a);
    total = _mm256_add_epi32(total, _mm256_madd_epi16(pairs, ones));
  }
  return (vi)total;
}

#else
CLIKA_INLINE vi dot_codes(const vu (&codes)[8], const int8_t* a, vi sum) {
  for (int j = 0; j < 8; ++j) {
    for (int c = 0; c < 4; ++c) {
      const vi column = reinterpret_cast<vi>((codes[j] >> (8 * c)) & 0xffu);
      sum += column * static_cast<int32_t>(a[4 * j + c]);
    }
  }
  return sum;
}
constexpr int kSignedOffset = 0;
CLIKA_INLINE vu prepare_signed(vu x) { return x; }
CLIKA_INLINE vi dot_signed(const vu (&codes)[8], const int8_t* a, vi sum) {
  for (int j = 0; j < 8; ++j) {
    for (int c = 0; c < 4; ++c) {
      const vi column = reinterpret_cast<vi>(codes[j] << (24 - 8 * c)) >> 24;
      sum += column * static_cast<int32_t>(a[4 * j + c]);
    }
  }
  return sum;
}
#endif
