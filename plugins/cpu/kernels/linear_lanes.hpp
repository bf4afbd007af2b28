// Integer lanes for the packed linears. Included after level.hpp and blocks.hpp.
//
// `vu` holds 4 codes of W rows: byte c of lane r is column c of row r.
#pragma once

typedef uint32_t vu_any __attribute__((vector_size(4 * W), aligned(1), may_alias));

CLIKA_INLINE vu load_words(const uint8_t* p) { return *reinterpret_cast<const vu_any*>(p); }
CLIKA_INLINE vf load_halves(const uint8_t* p) { return load(reinterpret_cast<const f16*>(p)); }
CLIKA_INLINE vu low_halves(vu x) { return x & 0x0f0f0f0fu; }
CLIKA_INLINE vu high_halves(vu x) { return (x >> 4) & 0x0f0f0f0fu; }
// Byte c of every lane, without and with its sign.
CLIKA_INLINE vi unsigned_byte(vu words, int c) {
#if CLIKA_X86 && CLIKA_LEVEL == 2
  const __m128i pick = _mm_setr_epi8(c, -1, -1, -1, c + 4, -1, -1, -1, c + 8, -1, -1, -1, c + 12, -1, -1, -1);
  return (vi)_mm512_shuffle_epi8((__m512i)words, _mm512_broadcast_i32x4(pick));
#elif CLIKA_X86 && CLIKA_LEVEL == 1
  // All 32 bytes, so that the compiler keeps them in memory: half of them it puts together again and again.
  const __m256i pick =
      _mm256_setr_epi8(c, -1, -1, -1, c + 4, -1, -1, -1, c + 8, -1, -1, -1, c + 12, -1, -1, -1,  //
                       c, -1, -1, -1, c + 4, -1, -1, -1, c + 8, -1, -1, -1, c + 12, -1, -1, -1);
  return (vi)_mm256_shuffle_epi8((__m256i)words, pick);
#else
  return reinterpret_cast<vi>((words >> (8 * c)) & 255u);
#endif
}
// x >> n for an n known at run time: by a vector of counts where there is such a shift, since the other one
// takes its count from a register of its own.
CLIKA_INLINE vu shift_right(vu x, int n) {
  if (__builtin_constant_p(n)) return x >> n;
#if CLIKA_X86 && CLIKA_LEVEL == 2
  return (vu)_mm512_maskz_srlv_epi32(static_cast<__mmask16>(-1), (__m512i)x, _mm512_set1_epi32(n));
#elif CLIKA_X86 && CLIKA_LEVEL == 1
  return (vu)_mm256_srlv_epi32((__m256i)x, _mm256_set1_epi32(n));
#else
  return x >> n;
#endif
}
#if CLIKA_X86 && CLIKA_LEVEL >= 1
// Numbers without a conversion: number_of(table, words, c) is table[byte c] for bytes of 0 .. 7,
// fraction(words, c) is 1 + byte / 128 for bytes of 0 .. 127.
CLIKA_INLINE vf number_of(const float (&table)[8], vu words, int c) {
#if CLIKA_LEVEL == 2
  const __m512 both = _mm512_broadcast_f32x8(_mm256_loadu_ps(table));
  return (vf)_mm512_maskz_permutexvar_ps(static_cast<__mmask16>(-1), (__m512i)(words >> (8 * c)), both);
#else
  return (vf)_mm256_permutevar8x32_ps(_mm256_loadu_ps(table), (__m256i)(words >> (8 * c)));
#endif
}
CLIKA_INLINE vf fraction(vu words, int c) {
  if (c == 2) return reinterpret_cast<vf>((words & 0x007f0000u) | 0x3f800000u);  // in its place already
#if CLIKA_LEVEL == 2
  const __m128i pick = _mm_setr_epi8(-1, -1, c, -1, -1, -1, c + 4, -1, -1, -1, c + 8, -1, -1, -1, c + 12, -1);
  const vu bits = (vu)_mm512_shuffle_epi8((__m512i)words, _mm512_broadcast_i32x4(pick));
#else
  const __m256i pick =
      _mm256_setr_epi8(-1, -1, c, -1, -1, -1, c + 4, -1, -1, -1, c + 8, -1, -1, -1, c + 12, -1,  //
                       -1, -1, c, -1, -1, -1, c + 4, -1, -1, -1, c + 8, -1, -1, -1, c + 12, -1);
  const vu bits = (vu)_mm256_shuffle_epi8((__m256i)words, pick);
#endif
  return reinterpret_cast<vf>(bits | 0x3f800000u);
}
#endif
CLIKA_INLINE vi signed_byte(vu words, int c) { return reinterpret_cast<vi>(words << (24 - 8 * c)) >> 24; }
CLIKA_INLINE vf to_floats(vi x) { return __builtin_convertvector(x, vf); }

// How the codes of 32 columns of a weight are given to the products: four to a lane of `vu`.
enum class Codes {
  kNibbles,   // 0 .. 15
  kFiveBits,  // 0 .. 31
  kSixBits,   // 0 .. 63
  kUnsigned,  // 0 .. 127
  kSigned,    // -128 .. 127
  kFloats,    // bytes that stand for floats: no integer products
};

constexpr int kBlockLanes = kBlock / W;

CLIKA_INLINE int32_t word_at(const uint8_t* p) {
  int32_t word;
  std::memcpy(&word, p, 4);
  return word;
}

// Products<kCodes>: the integer products of one token with up to 32 columns of W rows, exact, for activation codes of
// -127 .. 127.
//   kSignedOffset    what is added to the codes: sums of activations take it off again
//   prepare(words)   what of a word of codes is the same for every token
//   add(w, a, j)     adds the products of word j (columns 4 j .. 4 j + 3) with the token's codes at `a`
//   total()          the sums as int32: at most 255 * 32 * 127 < 2^24
// TileProducts<kCodes, T>, below, is the same for T tokens and two words at a time.
template <Codes kCodes>
struct Products;

#if CLIKA_X86 && CLIKA_LEVEL == 2
template <Codes kCodes>
struct Products {
  // The instruction wants unsigned codes.
  static constexpr int kSignedOffset = kCodes == Codes::kSigned ? 128 : 0;
  __m512i sum = {};  // not an intrinsic: an implicit constructor has no level

  static CLIKA_INLINE vu prepare(vu words) { return kCodes == Codes::kSigned ? words ^ 0x80808080u : words; }
  CLIKA_INLINE void add(vu words, const uint8_t* a, int j) {
    sum = _mm512_dpbusd_epi32(sum, (__m512i)words, _mm512_set1_epi32(word_at(a + 4 * j)));
  }
  CLIKA_INLINE vi total() const { return (vi)sum; }
};

CLIKA_INLINE void store_codes(uint8_t* p, const vi (&x)[kBlockLanes]) {
  for (int i = 0; i < kBlockLanes; ++i) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p + i * W),
                     _mm512_maskz_cvtepi32_epi8(static_cast<__mmask16>(-1), (__m512i)x[i]));
  }
}
CLIKA_INLINE int32_t max_lane(vi x) { return _mm512_reduce_max_epi32((__m512i)x); }
CLIKA_INLINE int32_t sum_lanes(vi x) { return _mm512_reduce_add_epi32((__m512i)x); }

#elif CLIKA_X86 && CLIKA_LEVEL == 1
CLIKA_INLINE __m256i four_codes(const uint8_t* a) { return _mm256_set1_epi32(word_at(a)); }
CLIKA_INLINE __m256i sum_pairs(__m256i x) { return _mm256_madd_epi16(x, _mm256_set1_epi16(1)); }

// Sums stay in the order that is written: compilers know that integers may be added as a tree, and run out of registers.
CLIKA_INLINE void keep_order(__m256i& sum) { __asm__("" : "+x"(sum)); }

// Two products of codes go to 16 bits, where so many words of them have room.
template <int kLargest>
struct SmallProducts {
  static constexpr int kSignedOffset = 0;
  static constexpr int kWords = 32767 / (2 * 127 * kLargest);
  __m256i pairs = {};  // not an intrinsic: an implicit constructor has no level
  __m256i sum = {};
  int words = 0;  // in pairs; a constant once loops are unrolled

  static CLIKA_INLINE __m256i prepare(vu words) { return (__m256i)words; }
  CLIKA_INLINE void add(__m256i words_j, const uint8_t* a, int j) {
    pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(words_j, four_codes(a + 4 * j)));
    keep_order(pairs);
    if (++words < kWords) return;
    sum = _mm256_add_epi32(sum, sum_pairs(pairs));
    pairs = __m256i{};
    words = 0;
  }
  CLIKA_INLINE vi total() const { return (vi)(words == 0 ? sum : _mm256_add_epi32(sum, sum_pairs(pairs))); }
};
template <>
struct Products<Codes::kNibbles> : SmallProducts<15> {};
template <>
struct Products<Codes::kFiveBits> : SmallProducts<31> {};
template <>
struct Products<Codes::kSixBits> : SmallProducts<63> {};
template <>
struct Products<Codes::kUnsigned> : SmallProducts<127> {};
// code + 128 as two nibbles.
template <>
struct Products<Codes::kSigned> {
  struct Halves {
    __m256i low;
    __m256i high;
  };
  static constexpr int kSignedOffset = 128;
  __m256i low = {};
  __m256i high = {};

  static CLIKA_INLINE Halves prepare(vu words) {
    const vu moved = words ^ 0x80808080u;
    return {(__m256i)low_halves(moved), (__m256i)high_halves(moved)};
  }
  CLIKA_INLINE void add(const Halves& words, const uint8_t* a, int j) {
    const __m256i x = four_codes(a + 4 * j);
    low = _mm256_add_epi16(low, _mm256_maddubs_epi16(words.low, x));
    high = _mm256_add_epi16(high, _mm256_maddubs_epi16(words.high, x));
    keep_order(low);
    keep_order(high);
  }
  CLIKA_INLINE vi total() const {
    return (vi)_mm256_add_epi32(sum_pairs(low), _mm256_madd_epi16(high, _mm256_set1_epi16(16)));
  }
};

CLIKA_INLINE void store_codes(uint8_t* p, const vi (&x)[kBlockLanes]) {
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);  // from quarters 0 2 4 6 1 3 5 7
  const __m256i first = _mm256_packs_epi32((__m256i)x[0], (__m256i)x[1]);
  const __m256i second = _mm256_packs_epi32((__m256i)x[2], (__m256i)x[3]);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm256_permutevar8x32_epi32(_mm256_packs_epi16(first, second), order));
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

#elif CLIKA_ARM && CLIKA_LEVEL >= 1
template <Codes kCodes>
struct Products {
  static constexpr int kSignedOffset = 0;
  int32x4_t sum = {};  // not an intrinsic: an implicit constructor has no level

  static CLIKA_INLINE vu prepare(vu words) { return words; }
  CLIKA_INLINE void add(vu words, const uint8_t* a, int j) {
    sum = vdotq_s32(sum, (int8x16_t)words, vreinterpretq_s8_s32(vdupq_n_s32(word_at(a + 4 * j))));
  }
  CLIKA_INLINE vi total() const { return (vi)sum; }
};

CLIKA_INLINE void store_codes(uint8_t* p, const vi (&x)[kBlockLanes]) {
  for (int i = 0; i < kBlockLanes; i += 2) {
    const int16x8_t q = vcombine_s16(vmovn_s32((int32x4_t)x[i]), vmovn_s32((int32x4_t)x[i + 1]));
    vst1_s8(reinterpret_cast<int8_t*>(p) + 4 * i, vmovn_s16(q));
  }
}
CLIKA_INLINE int32_t max_lane(vi x) { return vmaxvq_s32((int32x4_t)x); }
CLIKA_INLINE int32_t sum_lanes(vi x) { return vaddvq_s32((int32x4_t)x); }

#else
template <Codes kCodes>
struct Products {
  static constexpr int kSignedOffset = 0;
  vi sum = {};

  static CLIKA_INLINE vu prepare(vu words) { return words; }
  CLIKA_INLINE void add(vu words, const uint8_t* a, int j) {
    int8_t x[4];
    std::memcpy(x, a + 4 * j, sizeof(x));
    for (int c = 0; c < 4; ++c) {
      sum += (kCodes == Codes::kSigned ? signed_byte(words, c) : unsigned_byte(words, c)) *
             static_cast<int32_t>(x[c]);
    }
  }
  CLIKA_INLINE vi total() const { return sum; }
};

typedef int8_t vbyte_codes __attribute__((vector_size(W)));
CLIKA_INLINE void store_codes(uint8_t* p, const vi (&x)[kBlockLanes]) {
  for (int i = 0; i < kBlockLanes; ++i) {
    const vbyte_codes narrow = __builtin_convertvector(x[i], vbyte_codes);
    std::memcpy(p + i * W, &narrow, W);
  }
}
CLIKA_INLINE int32_t max_lane(vi x) { return std::max(std::max(x[0], x[1]), std::max(x[2], x[3])); }
CLIKA_INLINE int32_t sum_lanes(vi x) { return (x[0] + x[1]) + (x[2] + x[3]); }
#endif

// The integer products of T tokens, words j and j + 1 at a time; `a[t]` are the tokens' codes.
#if CLIKA_ARM && CLIKA_LEVEL == 2
// smmla multiplies two tokens by two rows, eight columns deep: tokens go in pairs, an odd last one beside itself.
template <Codes, int T>
struct TileProducts {
  static constexpr int kPairs = (T + 1) / 2;
  // [pair][rows 0 1, rows 2 3]: token 0 with two rows, token 1 with two rows
  int32x4_t sum[kPairs][2] = {};

  static CLIKA_INLINE int8x16_t two(const uint8_t* first, const uint8_t* second) {
    return vcombine_s8(vld1_s8(reinterpret_cast<const int8_t*>(first)),
                       vld1_s8(reinterpret_cast<const int8_t*>(second)));
  }
  CLIKA_INLINE void add(vu first, vu second, const uint8_t (&a)[T][kBlock], int j) {
    const int8x16_t rows[2] = {vreinterpretq_s8_u32(vzip1q_u32((uint32x4_t)first, (uint32x4_t)second)),
                               vreinterpretq_s8_u32(vzip2q_u32((uint32x4_t)first, (uint32x4_t)second))};
    for (int p = 0; p < kPairs; ++p) {
      const int8x16_t tokens = two(a[2 * p] + 4 * j, a[2 * p + 1 < T ? 2 * p + 1 : 2 * p] + 4 * j);
      for (int r = 0; r < 2; ++r) sum[p][r] = vmmlaq_s32(sum[p][r], tokens, rows[r]);
    }
  }
  CLIKA_INLINE vi total(int t) const {
    const int32x4_t* pair = sum[t / 2];
    return t % 2 == 0 ? (vi)vcombine_s32(vget_low_s32(pair[0]), vget_low_s32(pair[1]))
                      : (vi)vcombine_s32(vget_high_s32(pair[0]), vget_high_s32(pair[1]));
  }
};
#else
template <Codes kCodes, int T>
struct TileProducts {
  Products<kCodes> token[T];

  CLIKA_INLINE void add(vu first, vu second, const uint8_t (&a)[T][kBlock], int j) {
    const auto w0 = Products<kCodes>::prepare(first);
    for (int t = 0; t < T; ++t) token[t].add(w0, a[t], j);
    const auto w1 = Products<kCodes>::prepare(second);
    for (int t = 0; t < T; ++t) token[t].add(w1, a[t], j + 1);
  }
  CLIKA_INLINE vi total(int t) const { return token[t].total(); }
};
#endif
