// The published blocks of packed weights and their exact values, for every scheme of plugin.h; the CPU backend keeps its own
// copy of these layouts (blocks.hpp and parts.hpp there). A block may lie at any address. `value` is that of a column.
#pragma once

#include "grids.cuh"
#include "prelude.cuh"

constexpr signed char kNonlinear[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                   1, 13, 25, 38, 53, 69, 89, 113};
constexpr signed char kFloat4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};  // twice the value
// NF4: quantiles of the normal distribution (Dettmers et al., QLoRA, arXiv:2305.14314, appendix E).
constexpr float kNormal4[16] = {
    -1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f,
    -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0.0f,
    0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f,
    0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f};

CLIKA_INLINE u32 short_at(const u8* p) { return p[0] | static_cast<u32>(p[1]) << 8; }
CLIKA_INLINE u32 word_at(const u8* p) { return short_at(p) | short_at(p + 2) << 16; }
CLIKA_INLINE float half_at(const u8* p) { return half_to_float(static_cast<u16>(short_at(p))); }
CLIKA_INLINE float float_at(const u8* p) { return __uint_as_float(word_at(p)); }
// scale * code - minimum, rounded twice at most and never as one operation.
CLIKA_INLINE float affine(float scale, int code, float minimum) {
  return __fmul_rn(scale, static_cast<float>(code)) - minimum;
}
CLIKA_INLINE float times(float scale, int code) { return scale * static_cast<float>(code); }

// Four bits. Number i of an array, the low half of a byte first; column i of two halves of n columns each.
CLIKA_INLINE int nibble(const u8* p, int i) { return p[i / 2] >> (i % 2 * 4) & 15; }
CLIKA_INLINE int halves(const u8* q, int n, int i) { return i < n ? q[i] & 15 : q[i - n] >> 4; }
// Two bits of each of 256 columns: half n has columns 128 n + 32 j + i at bits 2 j of byte 32 n + i.
CLIKA_INLINE int pair_of_bits(const u8* q, int i) { return q[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3; }
// One bit of each of 256 columns: that of column 32 j + i is bit j of byte i.
CLIKA_INLINE int bit_of(const u8* h, int i) { return h[i % 32] >> (i / 32) & 1; }

// 2^(e - 128): the scale of MXFP4 for the doubled values.
CLIKA_INLINE float half_power(int e) { return __uint_as_float(e < 2 ? 0x200000u << e : (static_cast<u32>(e) - 1u) << 23); }
// An unsigned float8 halved, for the doubled values. 0x7f stands for nothing; the top bit is not looked at.
CLIKA_INLINE float half_float8(int x) {
  if (x == 0x7f) return 0.0f;
  const u32 exponent = x >> 3 & 15;
  const float mantissa = static_cast<float>(x & 7);
  if (exponent == 0) return mantissa * 0.0009765625f;
  return (8.0f + mantissa) * __uint_as_float((exponent + 116) << 23);
}
// float8: 4 bits of exponent and 3 of mantissa, without infinities.
CLIKA_INLINE float float8_e4m3(int x) {
  if ((x & 0x7f) == 0x7f) return CLIKA_NAN;
  const float magnitude = 2.0f * half_float8(x & 0x7f);
  return x & 0x80 ? -magnitude : magnitude;
}
// A scale (minimum) of Q4_K and Q5_K: the first four in bits 0 .. 5 of bytes j (4 + j); the others have four bits in byte
// 8 + j and two on top of byte j (4 + j).
CLIKA_INLINE int six_bits(const u8* s, int j, bool minimum) {
  if (j < 4) return s[minimum ? 4 + j : j] & 63;
  const int low = minimum ? s[4 + j] >> 4 : s[4 + j] & 15;
  return low | s[minimum ? j : j - 4] >> 6 << 4;
}
// Coordinate i of a point of a grid, `bits` each, names a magnitude.
CLIKA_INLINE int coordinate(u32 point, int bits, const signed char* magnitudes, u32 signs, int i) {
  const int magnitude = magnitudes[point >> (bits * i) & ((1u << bits) - 1)];
  return signs >> i & 1 ? -magnitude : magnitude;
}
// Eight signs from seven bits: the last one makes the number of minus signs even.
CLIKA_INLINE u32 even_signs(u32 bits) {
  bits &= 127;
  u32 odd = bits ^ bits >> 4;
  odd ^= odd >> 2;
  odd ^= odd >> 1;
  return bits | (odd & 1) << 7;
}
// Eight times a ternary point with its shift, so that the codes are whole.
CLIKA_INLINE int ternary(u32 point, bool negative, int i) {
  return 8 * static_cast<int>(point >> 2 * i & 3) + (negative ? -9 : -7);
}

struct Q4_0 {
  static constexpr int kColumns = 32, kBytes = 18;
  static CLIKA_INLINE int code(const u8* b, int i) { return halves(b + 2, 16, i); }
  static CLIKA_INLINE float value(const u8* b, int i) { return times(half_at(b), code(b, i) - 8); }
};
struct Q4_1 {
  static constexpr int kColumns = 32, kBytes = 20;
  static CLIKA_INLINE int code(const u8* b, int i) { return halves(b + 4, 16, i); }
  static CLIKA_INLINE float value(const u8* b, int i) { return affine(half_at(b), code(b, i), -half_at(b + 2)); }
};
struct Q5_0 {
  static constexpr int kColumns = 32, kBytes = 22;
  static CLIKA_INLINE int code(const u8* b, int i) {
    return halves(b + 6, 16, i) | static_cast<int>(b[2 + i / 8] >> (i % 8) & 1) << 4;
  }
  static CLIKA_INLINE float value(const u8* b, int i) { return times(half_at(b), code(b, i) - 16); }
};
struct Q5_1 {
  static constexpr int kColumns = 32, kBytes = 24;
  static CLIKA_INLINE int code(const u8* b, int i) {
    return halves(b + 8, 16, i) | static_cast<int>(b[4 + i / 8] >> (i % 8) & 1) << 4;
  }
  static CLIKA_INLINE float value(const u8* b, int i) { return affine(half_at(b), code(b, i), -half_at(b + 2)); }
};
struct Q8_0 {
  static constexpr int kColumns = 32, kBytes = 34;
  static CLIKA_INLINE int code(const u8* b, int i) { return b[2 + i]; }  // of two's complement
  static CLIKA_INLINE float value(const u8* b, int i) {
    return times(half_at(b), static_cast<signed char>(code(b, i)));
  }
};
struct Q2_K {  // 16 bytes of scale and minimum, 64 of codes, d, m
  static constexpr int kColumns = 256, kBytes = 84;
  static CLIKA_INLINE float value(const u8* b, int i) {
    const int s = b[i / 16];
    return affine(times(half_at(b + 80), s & 15), pair_of_bits(b + 16, i), times(half_at(b + 82), s >> 4));
  }
};
struct Q3_K {  // 32 bytes of third bits, 64 of codes, 12 of scales, d
  static constexpr int kColumns = 256, kBytes = 110;
  static CLIKA_INLINE float value(const u8* b, int i) {
    const int j = i / 16;
    const int low = b[96 + j % 8] >> (j / 8 * 4) & 15, high = b[104 + j % 4] >> (j / 4 * 2) & 3;
    const float scale = times(half_at(b + 108), (low | high << 4) - 32);
    return times(scale, pair_of_bits(b + 32, i) + 4 * bit_of(b, i) - 4);
  }
};
struct Q4_K {  // d, m, 12 bytes of scales and minima, 128 of codes
  static constexpr int kColumns = 256, kBytes = 144;
  static CLIKA_INLINE int code(const u8* b, int i) { return halves(b + 16 + i / 64 * 32, 32, i % 64); }
  static CLIKA_INLINE float value(const u8* b, int i) {
    const float scale = times(half_at(b), six_bits(b + 4, i / 32, false));
    return affine(scale, code(b, i), times(half_at(b + 2), six_bits(b + 4, i / 32, true)));
  }
};
struct Q5_K {  // the same, with 32 bytes of fifth bits before the codes
  static constexpr int kColumns = 256, kBytes = 176;
  static CLIKA_INLINE int code(const u8* b, int i) {
    return halves(b + 48 + i / 64 * 32, 32, i % 64) | bit_of(b + 16, i) << 4;
  }
  static CLIKA_INLINE float value(const u8* b, int i) {
    const float scale = times(half_at(b), six_bits(b + 4, i / 32, false));
    return affine(scale, code(b, i), times(half_at(b + 2), six_bits(b + 4, i / 32, true)));
  }
};
struct Q6_K {  // 128 bytes of low bits, 64 of high ones, 16 scales, d
  static constexpr int kColumns = 256, kBytes = 210;
  static CLIKA_INLINE int code(const u8* b, int i) {
    return halves(b + i / 128 * 64, 64, i % 128) | pair_of_bits(b + 128, i) << 4;
  }
  static CLIKA_INLINE float value(const u8* b, int i) {
    return times(times(half_at(b + 208), static_cast<signed char>(b[192 + i / 16])), code(b, i) - 32);
  }
};
struct IQ4_NL {
  static constexpr int kColumns = 32, kBytes = 18;
  static CLIKA_INLINE float value(const u8* b, int i) { return times(half_at(b), kNonlinear[halves(b + 2, 16, i)]); }
};
struct IQ4_XS {  // d, upper bits of the scales, low ones, codes
  static constexpr int kColumns = 256, kBytes = 136;
  static CLIKA_INLINE float value(const u8* b, int i) {
    const int j = i / 32;
    const int scale = nibble(b + 4, j) | static_cast<int>(short_at(b + 2) >> 2 * j & 3) << 4;
    return times(times(half_at(b), scale - 32), kNonlinear[halves(b + 8 + 16 * j, 16, i % 32)]);
  }
};
struct TQ1_0 {  // five digits of base 3 to a byte, as 256 times a fraction
  static constexpr int kColumns = 256, kBytes = 54;
  static CLIKA_INLINE float value(const u8* b, int i) {
    const int byte = i < 160 ? b[i % 32] : i < 240 ? b[32 + (i - 160) % 16] : b[48 + (i - 240) % 4];
    const int n = i < 160 ? i / 32 : i < 240 ? (i - 160) / 16 : (i - 240) / 4;
    int power = 1;
    for (int k = 0; k < n; ++k) power *= 3;
    return times(half_at(b + 52), ((byte * power & 255) * 3 >> 8) - 1);
  }
};
struct TQ2_0 {
  static constexpr int kColumns = 256, kBytes = 66;
  static CLIKA_INLINE float value(const u8* b, int i) { return times(half_at(b + 64), pair_of_bits(b, i) - 1); }
};
struct MXFP4 {
  static constexpr int kColumns = 32, kBytes = 17;
  static CLIKA_INLINE float value(const u8* b, int i) { return times(half_power(b[0]), kFloat4[halves(b + 1, 16, i)]); }
};
struct NVFP4 {
  static constexpr int kColumns = 64, kBytes = 36;
  static CLIKA_INLINE float value(const u8* b, int i) {
    return times(half_float8(b[i / 16]), kFloat4[halves(b + 4 + i / 16 * 8, 8, i % 16)]);
  }
};
struct IQ2_XXS {
  static constexpr int kColumns = 256, kBytes = 66;
  static CLIKA_INLINE float value(const u8* b, int i) {
    const int j = i / 32, k = i % 32 / 8;
    const u32 word = word_at(b + 2 + 8 * j + 4);
    const float scale = times(half_at(b) * 0.125f, static_cast<int>(2 * (word >> 28) + 1));
    return times(scale, coordinate(kGridIQ2_XXS[b[2 + 8 * j + k]], 2, kMagnitudes2, even_signs(word >> 7 * k), i % 8));
  }
};
struct IQ2_XS {
  static constexpr int kColumns = 256, kBytes = 74;
  static CLIKA_INLINE float value(const u8* b, int i) {
    const u32 q = short_at(b + 2 + i / 8 * 2);
    const float scale = times(half_at(b) * 0.125f, 2 * nibble(b + 66, i / 16) + 1);
    return times(scale, coordinate(kGridIQ2_XS[q & 511], 2, kMagnitudes2, even_signs(q >> 9), i % 8));
  }
};
struct IQ2_S {
  static constexpr int kColumns = 256, kBytes = 82;
  static CLIKA_INLINE float value(const u8* b, int i) {
    const int k = i / 8;
    const int point = b[2 + k] | (b[66 + k / 4] >> (k % 4 * 2) & 3) << 8;
    const float scale = times(half_at(b) * 0.125f, 2 * nibble(b + 74, i / 16) + 1);
    return times(scale, coordinate(kGridIQ2_S[point], 2, kMagnitudes2, b[34 + k], i % 8));
  }
};
struct IQ3_XXS {
  static constexpr int kColumns = 256, kBytes = 98;
  static CLIKA_INLINE float value(const u8* b, int i) {
    const u32 word = word_at(b + 66 + i / 32 * 4);
    const u32 signs = even_signs(word >> (i % 32 / 8 * 7)) >> (i % 8 / 4 * 4);
    const float scale = times(half_at(b) * 0.25f, static_cast<int>(2 * (word >> 28) + 1));
    return times(scale, coordinate(kGridIQ3_XXS[b[2 + i / 4]], 4, kMagnitudes3_XXS, signs, i % 4));
  }
};
struct IQ3_S {
  static constexpr int kColumns = 256, kBytes = 110;
  static CLIKA_INLINE float value(const u8* b, int i) {
    const int k = i / 4;
    const int point = b[2 + k] | (b[66 + k / 8] >> (k % 8) & 1) << 8;
    const u32 signs = b[74 + i / 8] >> (i % 8 / 4 * 4);
    const float scale = times(half_at(b), 2 * nibble(b + 106, i / 32) + 1);
    return times(scale, coordinate(kGridIQ3_S[point], 4, kMagnitudes3_S, signs, i % 4));
  }
};
struct IQ1_S {
  static constexpr int kColumns = 256, kBytes = 50;
  static CLIKA_INLINE float value(const u8* b, int i) {
    const u32 h = short_at(b + 34 + i / 32 * 2);
    const u32 point = b[2 + i / 8] | (h >> 3 * (i % 32 / 8) & 7) << 8;
    const float scale = times(half_at(b) * 0.125f, static_cast<int>(2 * (h >> 12 & 7) + 1));
    return times(scale, ternary(kGridIQ1[point], (h & 0x8000) != 0, i % 8));
  }
};
struct IQ1_M {
  static constexpr int kColumns = 256, kBytes = 56;
  static CLIKA_INLINE float value(const u8* b, int i) {
    u32 bits = 0;
    for (int j = 0; j < 4; ++j) bits |= short_at(b + 48 + 2 * j) >> 12 << 4 * j;
    const int j = i / 16, h = nibble(b + 32, i / 8);
    const int scale = 2 * static_cast<int>(short_at(b + 48 + j / 4 * 2) >> (j % 4 * 3) & 7) + 1;
    return times(times(half_to_float(static_cast<u16>(bits)) * 0.125f, scale),
                 ternary(kGridIQ1[b[i / 8] | (h & 7) << 8], (h & 8) != 0, i % 8));
  }
};
// Forms of our own.
struct MXFP4_E8M0 {
  static constexpr int kColumns = 32, kBytes = 17;
  static CLIKA_INLINE float value(const u8* b, int i) {
    const float scale = b[16] == 255 ? CLIKA_NAN : half_power(b[16]);
    return times(scale, kFloat4[nibble(b, i)]);
  }
};
struct NVFP4_E4M3 {
  static constexpr int kColumns = 64, kBytes = 40;
  static CLIKA_INLINE float value(const u8* b, int i) {
    return times(float_at(b) * (0.5f * float8_e4m3(b[4 + i / 16] & 0x7f)), kFloat4[nibble(b + 8, i)]);
  }
};
struct NF4 {
  static constexpr int kColumns = 64, kBytes = 36;
  static CLIKA_INLINE float value(const u8* b, int i) { return float_at(b) * kNormal4[nibble(b + 4, i ^ 1)]; }
};
struct FP8_E4M3 {
  static constexpr int kColumns = 32, kBytes = 36;
  static CLIKA_INLINE float value(const u8* b, int i) { return float_at(b) * float8_e4m3(b[4 + i]); }
};
struct FP8_E5M2 {
  static constexpr int kColumns = 32, kBytes = 36;
  static CLIKA_INLINE float value(const u8* b, int i) {
    return float_at(b) * half_to_float(static_cast<u16>(b[4 + i] << 8));
  }
};
struct INT4_G32 {
  static constexpr int kColumns = 32, kBytes = 24;
  static CLIKA_INLINE float value(const u8* b, int i) { return affine(float_at(b), halves(b + 8, 16, i), -float_at(b + 4)); }
};
struct INT4_G128 {
  static constexpr int kColumns = 128, kBytes = 72;
  static CLIKA_INLINE float value(const u8* b, int i) {
    return affine(float_at(b), halves(b + 8 + i / 32 * 16, 16, i % 32), -float_at(b + 4));
  }
};
struct INT8_G32 {
  static constexpr int kColumns = 32, kBytes = 36;
  static CLIKA_INLINE float value(const u8* b, int i) { return times(float_at(b), static_cast<signed char>(b[4 + i])); }
};
