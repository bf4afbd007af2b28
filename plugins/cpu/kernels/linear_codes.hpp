// Unpacking the codes of a format, a row to a lane. Included after linear_lanes.hpp; words are as there: byte
// c of lane r is column c of row r.
#pragma once

// Number j of a run of a packed block that starts at byte `at`: of words, of float16, of uint16, of bytes.
CLIKA_INLINE vu word_of_run(const uint8_t* column, int at, int j) {
  return load_words(column + (at + 4 * j) * W);
}
CLIKA_INLINE vf half_of_run(const uint8_t* column, int at, int j) {
  return load_halves(column + (at + 2 * j) * W);
}
CLIKA_INLINE vu short_of_run(const uint8_t* column, int at, int j) {
  return __builtin_convertvector(*reinterpret_cast<const vh_any*>(column + (at + 2 * j) * W), vu);
}
typedef uint8_t vbytes_any __attribute__((vector_size(W), aligned(1), may_alias));
CLIKA_INLINE vu byte_of_run(const uint8_t* column, int at, int j) {
  return __builtin_convertvector(*reinterpret_cast<const vbytes_any*>(column + (at + j) * W), vu);
}

CLIKA_INLINE vf whole(vu x) { return to_floats(reinterpret_cast<vi>(x)); }  // for x < 2^31
CLIKA_INLINE vf whole(vu x, int offset) { return to_floats(reinterpret_cast<vi>(x) - offset); }

// Four bits of a number in every lane as four bytes, 255 where the bit is set: bits first .. first + 3, where
// `first` is a multiple of 4.
CLIKA_INLINE vu spread_bits(vu bits, int first) {
#if CLIKA_X86 && CLIKA_LEVEL >= 1
  const int c = first / 8;
  const __m128i pick = _mm_setr_epi8(c, c, c, c, c + 4, c + 4, c + 4, c + 4, c + 8, c + 8, c + 8, c + 8,  //
                                     c + 12, c + 12, c + 12, c + 12);
  const int32_t each = first % 8 == 0 ? 0x08040201 : static_cast<int32_t>(0x80402010u);
#if CLIKA_LEVEL == 2
  const __m512i spread = _mm512_shuffle_epi8((__m512i)bits, _mm512_broadcast_i32x4(pick));
  return (vu)_mm512_movm_epi8(_mm512_test_epi8_mask(spread, _mm512_set1_epi32(each)));
#else
  const __m256i one = _mm256_set1_epi32(each);
  const __m256i spread = _mm256_shuffle_epi8((__m256i)bits, _mm256_broadcastsi128_si256(pick));
  return (vu)_mm256_cmpeq_epi8(_mm256_and_si256(spread, one), one);
#endif
#else
  // The product puts bit k at bits 7 m + k; of those, 8 k is wanted.
  return ((((bits >> first) & 15u) * 0x00204081u) & 0x01010101u) * 255u;
#endif
}

// The eight scales (shift 0) or minima (shift 4) of six bits of Q4_K and Q5_K, see scales_and_minima: word 0
// at `at` has the scales of parts 0 .. 3, word 1 their minima, word 2 the rest.
CLIKA_INLINE vu six_bits(const uint8_t* column, int at, int part, int shift) {
  const vu own = word_of_run(column, at, shift / 4) >> (part % 4 * 8);
  if (part < 4) return own & 63u;
  return ((word_of_run(column, at, 2) >> (part % 4 * 8 + shift)) & 15u) | ((own & 0xc0u) >> 2);
}

// Eight signs from seven bits, in each byte of a lane: the top one makes the number of minus signs even.
CLIKA_INLINE vu even_signs(vu sevens) {
  vu parity = sevens ^ ((sevens << 4) & 0xf0f0f0f0u);
  parity ^= (parity << 2) & 0xc0c0c0c0u;
  parity ^= (parity << 1) & 0x80808080u;
  return sevens | (parity & 0x80808080u);
}

// table[code] for every byte, codes 0 .. 15.
CLIKA_INLINE vu look_up(const int8_t (&table)[16], vu codes) {
#if CLIKA_X86 && CLIKA_LEVEL >= 1
  const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
#if CLIKA_LEVEL == 2
  return (vu)_mm512_shuffle_epi8(_mm512_broadcast_i32x4(values), (__m512i)codes);
#else
  return (vu)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), (__m256i)codes);
#endif
#elif CLIKA_ARM
  return (vu)vqtbl1q_u8(vreinterpretq_u8_s8(vld1q_s8(table)), (uint8x16_t)codes);
#else
  uint8_t bytes[4 * W];
  std::memcpy(bytes, &codes, sizeof(bytes));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(table[byte]);
  std::memcpy(&codes, bytes, sizeof(bytes));
  return codes;
#endif
}

// table[index] for every lane.
CLIKA_INLINE vu gather(const uint32_t* table, vu index) {
#if CLIKA_X86 && CLIKA_LEVEL == 2
  return (vu)_mm512_mask_i32gather_epi32(_mm512_setzero_si512(), static_cast<__mmask16>(-1), (__m512i)index,
                                         table, 4);
#elif CLIKA_X86 && CLIKA_LEVEL == 1
  // Loads and inserts: the instruction for this takes longer than both where it is in microcode.
  alignas(32) uint32_t at[W];
  std::memcpy(at, &index, sizeof(at));
  return (vu)_mm256_setr_epi32(static_cast<int>(table[at[0]]), static_cast<int>(table[at[1]]),
                               static_cast<int>(table[at[2]]), static_cast<int>(table[at[3]]),
                               static_cast<int>(table[at[4]]), static_cast<int>(table[at[5]]),
                               static_cast<int>(table[at[6]]), static_cast<int>(table[at[7]]));
#else
  for (int r = 0; r < W; ++r) index[r] = table[index[r]];
  return index;
#endif
}

// The codes of a point of the IQ2 formats: its coordinates are in halves of bytes, its eight signs are the bits
// from `first` on, and a sign is bit 2 of an index of the table.
CLIKA_INLINE Words signed_point(const int8_t (&table)[16], vu point, vu signs, int first) {
  return {look_up(table, low_halves(point) | (spread_bits(signs, first) & 0x04040404u)),
          look_up(table, high_halves(point) | (spread_bits(signs, first + 4) & 0x04040404u))};
}

// A grid as words for gather(): eight coordinates in the halves of bytes, those of columns 0 .. 3 in the low
// halves; or four coordinates in bytes.
template <int N>
struct Points {
  uint32_t word[N];
};
template <int N>
constexpr Points<N> in_halves(const uint16_t (&grid)[N]) {
  Points<N> points = {};
  for (int i = 0; i < N; ++i) {
    for (int c = 0; c < 8; ++c) {
      points.word[i] |= static_cast<uint32_t>(grid[i] >> (2 * c) & 3) << (c % 4 * 8 + c / 4 * 4);
    }
  }
  return points;
}
template <int N>
constexpr Points<N> in_bytes(const uint16_t (&grid)[N]) {
  Points<N> points = {};
  for (int i = 0; i < N; ++i) {
    for (int c = 0; c < 4; ++c) points.word[i] |= static_cast<uint32_t>(grid[i] >> (4 * c) & 15) << (8 * c);
  }
  return points;
}

// Word j of the codes of neighbours (see BlockMXFP4_E8M0), as bytes: `words` holds columns 8 i .. 8 i + 7.
CLIKA_INLINE vu neighbours(vu words, int j) {
  const vu pairs = j % 2 == 0 ? words & 0xffffu : words >> 16;
  const vu bytes = (pairs | pairs << 8) & 0x00ff00ffu;
  return (bytes & 0x000f000fu) | ((bytes << 4) & 0x0f000f00u);
}
CLIKA_INLINE vf float_of_run(const uint8_t* column, int at, int j) {
  return load(reinterpret_cast<const float*>(column + (at + 4 * j) * W));
}
// The magnitude of a float8 e4m3 for x in 0 .. 126, times 2^kExponent; NaN for 127.
template <int kExponent>
CLIKA_INLINE vf magnitude_e4m3(vu x) {
  const vf normal = reinterpret_cast<vf>((x << 20) + (static_cast<uint32_t>(120 + kExponent) << 23));
  // Without an exponent the leading one is too much; the rest is twice as large.
  const float one = float_of(static_cast<uint32_t>(127 - 6 + kExponent) << 23);
  const vf value = x < 8u ? normal + normal - one : normal;
  return x == 127u ? splat(std::numeric_limits<float>::quiet_NaN()) : value;
}
