// Blocks taken apart, and their exact values. Included by blocks.hpp.
//
// A block of C columns is value = scale * code - minimum, scale and minimum those of the column's sub-block
// of S columns. Codes are whole and the product needs at most 24 bits, so float32 rounds once: where a
// minimum is taken off. These are the bits that the gguf package computes.
#pragma once

#include "iq_grids.hpp"

template <int C, int S>
struct Parts {
  float scale[C / S];
  float minimum[C / S] = {};
  int8_t code[C];
};

constexpr int8_t kNonlinear[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
constexpr int8_t kFloat4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};  // twice the value

CLIKA_INLINE uint32_t word_of(const uint8_t* p) {
  return p[0] | static_cast<uint32_t>(p[1]) << 8 | static_cast<uint32_t>(p[2]) << 16 |
         static_cast<uint32_t>(p[3]) << 24;
}
// Four bits: number j of an array of halves of bytes, the low half first.
CLIKA_INLINE int half_at(const uint8_t* p, int j) { return p[j / 2] >> (j % 2 * 4) & 15; }
// 2^(e - 128): the scale of MXFP4 for the doubled values.
CLIKA_INLINE float half_power(uint8_t e) { return float_of(e < 2 ? 0x200000u << e : (e - 1u) << 23); }
// An unsigned float8 halved, for the doubled values. 0x7f stands for nothing; the top bit is not looked at.
CLIKA_INLINE float half_float8(uint8_t x) {
  if (x == 0x7f) return 0.0f;
  const int exponent = x >> 3 & 15;
  const float mantissa = static_cast<float>(x & 7);
  if (exponent == 0) return mantissa * 0x1p-10f;
  return (8.0f + mantissa) * float_of(static_cast<uint32_t>(exponent + 116) << 23);
}

// 2^(e - 128) of an E8M0, whose 255 is no number.
CLIKA_INLINE float half_e8m0(uint8_t e) {
  return e == 255 ? std::numeric_limits<float>::quiet_NaN() : half_power(e);
}
// float8: 4 bits of exponent and 3 of mantissa, without infinities; 5 and 2, the upper half of a float16.
CLIKA_INLINE float float8_e4m3(uint8_t x) {
  if ((x & 0x7f) == 0x7f) return std::numeric_limits<float>::quiet_NaN();
  const float magnitude = 2.0f * half_float8(x & 0x7f);
  return x & 0x80 ? -magnitude : magnitude;
}
CLIKA_INLINE float float8_e5m2(uint8_t x) { return to_float(f16{static_cast<uint16_t>(x << 8)}); }

// NF4: quantiles of the normal distribution (Dettmers et al., QLoRA, arXiv:2305.14314, appendix E).
alignas(64) constexpr float kNormal4[16] = {
    -1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f,
    -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0.0f,
    0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f,
    0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f};

// Two codes to a byte, neighbours: the even column in the low half.
template <int N>
CLIKA_INLINE void split_neighbours(const uint8_t* q, int8_t* code) {
  for (int i = 0; i < N; ++i) {
    code[2 * i] = static_cast<int8_t>(q[i] & 15);
    code[2 * i + 1] = static_cast<int8_t>(q[i] >> 4);
  }
}
// Two codes to a byte: column i in the low half of byte i, column N + i in the high half.
template <int N>
CLIKA_INLINE void split_halves(const uint8_t* q, int8_t* code) {
  for (int i = 0; i < N; ++i) {
    code[i] = static_cast<int8_t>(q[i] & 15);
    code[N + i] = static_cast<int8_t>(q[i] >> 4);
  }
}
// Two bits of each of 256 columns, as Q2_K keeps them.
CLIKA_INLINE void split_pairs(const uint8_t* q, int8_t* code) {
  for (int n = 0; n < 2; ++n) {
    for (int j = 0; j < 4; ++j) {
      int8_t* to = code + 128 * n + 32 * j;
      for (int i = 0; i < 32; ++i) to[i] = static_cast<int8_t>(q[32 * n + i] >> 2 * j & 3);
    }
  }
}
// Adds `weight` to the codes of 256 columns whose bit is set: that of column 32 j + i is bit j of byte i.
CLIKA_INLINE void add_bits(const uint8_t* h, int weight, int8_t* code) {
  for (int j = 0; j < 8; ++j) {
    int8_t* to = code + 32 * j;
    for (int i = 0; i < 32; ++i) to[i] = static_cast<int8_t>(to[i] + (h[i] >> j & 1) * weight);
  }
}
CLIKA_INLINE void add_fifth_bits(const uint8_t* h, int8_t* code) {
  const uint32_t bits = word_of(h);
  for (int i = 0; i < 32; ++i) code[i] = static_cast<int8_t>(code[i] | (bits >> i & 1) << 4);
}
template <int N>
CLIKA_INLINE void add_all(int offset, int8_t* code) {
  for (int i = 0; i < N; ++i) code[i] = static_cast<int8_t>(code[i] + offset);
}
template <int N>
CLIKA_INLINE void look_up(const int8_t (&table)[16], int8_t* code) {
  for (int i = 0; i < N; ++i) code[i] = table[code[i]];
}
// Q4_K and Q5_K have eight scales and eight minima of six bits in twelve bytes: the first four in bits 0 .. 5
// of bytes j and 4 + j; the others have four bits in byte 8 + j and two on top of bytes j and 4 + j.
CLIKA_INLINE void scales_and_minima(float d, float m, const uint8_t* s, Parts<256, 32>* out) {
  for (int j = 0; j < 4; ++j) {
    out->scale[j] = d * static_cast<float>(s[j] & 63);
    out->minimum[j] = m * static_cast<float>(s[4 + j] & 63);
    out->scale[4 + j] = d * static_cast<float>((s[8 + j] & 15) | s[j] >> 6 << 4);
    out->minimum[4 + j] = m * static_cast<float>(s[8 + j] >> 4 | s[4 + j] >> 6 << 4);
  }
}
// A byte of TQ1_0 is a fraction of 256 with five digits of base 3: times 3^n, digit n comes out on top.
CLIKA_INLINE int8_t digit(uint8_t byte, int power) {
  return static_cast<int8_t>((static_cast<uint8_t>(byte * power) * 3 >> 8) - 1);
}
// The codes of a point of a grid: its coordinates, kBits each, name magnitudes.
template <int N, int kBits>
CLIKA_INLINE void put_point(uint32_t point, const int8_t* magnitudes, uint32_t signs, int8_t* code) {
  for (int i = 0; i < N; ++i) {
    const int magnitude = magnitudes[point >> (kBits * i) & ((1u << kBits) - 1)];
    code[i] = static_cast<int8_t>(signs >> i & 1 ? -magnitude : magnitude);
  }
}
// Eight signs from seven bits.
CLIKA_INLINE uint32_t even_signs(uint32_t bits) {
  return (bits & 127) | static_cast<uint32_t>(__builtin_parity(bits & 127)) << 7;
}
// Eight times a ternary point with its shift, so that the codes are whole.
CLIKA_INLINE void put_ternary(uint32_t point, bool negative, int8_t* code) {
  const int shift = negative ? -9 : -7;
  for (int i = 0; i < 8; ++i) code[i] = static_cast<int8_t>(8 * static_cast<int>(point >> 2 * i & 3) + shift);
}

inline auto split(const BlockQ4_0& b) {
  Parts<32, 32> out = {{to_float(b.d)}, {}, {}};
  split_halves<16>(b.q, out.code);
  add_all<32>(-8, out.code);
  return out;
}
inline auto split(const BlockQ4_1& b) {
  Parts<32, 32> out = {{to_float(b.d)}, {-to_float(b.m)}, {}};
  split_halves<16>(b.q, out.code);
  return out;
}
inline auto split(const BlockQ5_0& b) {
  Parts<32, 32> out = {{to_float(b.d)}, {}, {}};
  split_halves<16>(b.q, out.code);
  add_fifth_bits(b.h, out.code);
  add_all<32>(-16, out.code);
  return out;
}
inline auto split(const BlockQ5_1& b) {
  Parts<32, 32> out = {{to_float(b.d)}, {-to_float(b.m)}, {}};
  split_halves<16>(b.q, out.code);
  add_fifth_bits(b.h, out.code);
  return out;
}
inline auto split(const BlockQ8_0& b) {
  Parts<32, 32> out = {{to_float(b.d)}, {}, {}};
  std::memcpy(out.code, b.q, 32);
  return out;
}
inline auto split(const BlockIQ4_NL& b) {
  Parts<32, 32> out = {{to_float(b.d)}, {}, {}};
  split_halves<16>(b.q, out.code);
  look_up<32>(kNonlinear, out.code);
  return out;
}
inline auto split(const BlockMXFP4& b) {
  Parts<32, 32> out = {{half_power(b.e)}, {}, {}};
  split_halves<16>(b.q, out.code);
  look_up<32>(kFloat4, out.code);
  return out;
}
inline auto split(const BlockNVFP4& b) {
  Parts<64, 16> out;
  for (int j = 0; j < 4; ++j) {
    out.scale[j] = half_float8(b.scales[j]);
    split_halves<8>(b.q + 8 * j, out.code + 16 * j);
  }
  look_up<64>(kFloat4, out.code);
  return out;
}
inline auto split(const BlockMXFP4_E8M0& b) {
  Parts<32, 32> out = {{half_e8m0(b.e)}, {}, {}};
  split_neighbours<16>(b.q, out.code);
  look_up<32>(kFloat4, out.code);
  return out;
}
inline auto split(const BlockNVFP4_E4M3& b) {
  Parts<64, 16> out;
  for (int j = 0; j < 4; ++j) out.scale[j] = b.d * (0.5f * float8_e4m3(b.scales[j] & 0x7f));
  split_neighbours<32>(b.q, out.code);
  look_up<64>(kFloat4, out.code);
  return out;
}
inline auto split(const BlockINT4_G32& b) {
  Parts<32, 32> out = {{b.d}, {-b.m}, {}};
  split_halves<16>(b.q, out.code);
  return out;
}
inline auto split(const BlockINT4_G128& b) {
  Parts<128, 128> out = {{b.d}, {-b.m}, {}};
  for (int n = 0; n < 4; ++n) split_halves<16>(b.q + 16 * n, out.code + 32 * n);
  return out;
}
inline auto split(const BlockINT8_G32& b) {
  Parts<32, 32> out = {{b.d}, {}, {}};
  std::memcpy(out.code, b.q, 32);
  return out;
}
inline auto split(const BlockQ2_K& b) {
  Parts<256, 16> out;
  const float d = to_float(b.d);
  const float m = to_float(b.m);
  for (int j = 0; j < 16; ++j) {
    out.scale[j] = d * static_cast<float>(b.scales[j] & 15);
    out.minimum[j] = m * static_cast<float>(b.scales[j] >> 4);
  }
  split_pairs(b.q, out.code);
  return out;
}
inline auto split(const BlockQ3_K& b) {
  Parts<256, 16> out;
  const float d = to_float(b.d);
  for (int j = 0; j < 16; ++j) {
    const int low = b.scales[j % 8] >> (j / 8 * 4) & 15;
    const int high = b.scales[8 + j % 4] >> (j / 4 * 2) & 3;
    out.scale[j] = d * static_cast<float>((low | high << 4) - 32);
  }
  split_pairs(b.q, out.code);
  add_bits(b.h, 4, out.code);
  add_all<256>(-4, out.code);
  return out;
}
inline auto split(const BlockQ4_K& b) {
  Parts<256, 32> out;
  scales_and_minima(to_float(b.d), to_float(b.m), b.scales, &out);
  for (int n = 0; n < 4; ++n) split_halves<32>(b.q + 32 * n, out.code + 64 * n);
  return out;
}
inline auto split(const BlockQ5_K& b) {
  Parts<256, 32> out;
  scales_and_minima(to_float(b.d), to_float(b.m), b.scales, &out);
  for (int n = 0; n < 4; ++n) split_halves<32>(b.q + 32 * n, out.code + 64 * n);
  add_bits(b.h, 16, out.code);
  return out;
}
inline auto split(const BlockQ6_K& b) {
  Parts<256, 16> out;
  const float d = to_float(b.d);
  for (int j = 0; j < 16; ++j) out.scale[j] = d * static_cast<float>(b.scales[j]);
  split_pairs(b.h, out.code);
  for (int n = 0; n < 2; ++n) {
    for (int i = 0; i < 64; ++i) {
      int8_t* code = out.code + 128 * n + i;
      code[0] = static_cast<int8_t>((code[0] << 4 | (b.q[64 * n + i] & 15)) - 32);
      code[64] = static_cast<int8_t>((code[64] << 4 | b.q[64 * n + i] >> 4) - 32);
    }
  }
  return out;
}
inline auto split(const BlockIQ4_XS& b) {
  Parts<256, 32> out;
  const float d = to_float(b.d);
  for (int j = 0; j < 8; ++j) {
    out.scale[j] = d * static_cast<float>((half_at(b.scales_l, j) | (b.scales_h >> 2 * j & 3) << 4) - 32);
    split_halves<16>(b.q + 16 * j, out.code + 32 * j);
  }
  look_up<256>(kNonlinear, out.code);
  return out;
}
inline auto split(const BlockTQ1_0& b) {
  Parts<256, 256> out = {{to_float(b.d)}, {}, {}};
  for (int n = 0, power = 1; n < 5; ++n, power *= 3) {
    for (int i = 0; i < 32; ++i) out.code[32 * n + i] = digit(b.q[i], power);
    for (int i = 0; i < 16; ++i) out.code[160 + 16 * n + i] = digit(b.q[32 + i], power);
    for (int i = 0; i < 4 && n < 4; ++i) out.code[240 + 4 * n + i] = digit(b.h[i], power);
  }
  return out;
}
inline auto split(const BlockTQ2_0& b) {
  Parts<256, 256> out = {{to_float(b.d)}, {}, {}};
  split_pairs(b.q, out.code);
  add_all<256>(-1, out.code);
  return out;
}
inline auto split(const BlockIQ2_XXS& b) {
  Parts<256, 32> out;
  const float d = to_float(b.d) * 0.125f;
  for (int j = 0; j < 8; ++j) {
    const uint32_t word = word_of(b.q + 8 * j + 4);
    out.scale[j] = d * static_cast<float>(2 * (word >> 28) + 1);
    for (int i = 0; i < 4; ++i) {
      put_point<8, 2>(kGridIQ2_XXS[b.q[8 * j + i]], kMagnitudes2, even_signs(word >> 7 * i),
                      out.code + 32 * j + 8 * i);
    }
  }
  return out;
}
inline auto split(const BlockIQ2_XS& b) {
  Parts<256, 16> out;
  const float d = to_float(b.d) * 0.125f;
  for (int j = 0; j < 16; ++j) out.scale[j] = d * static_cast<float>(2 * half_at(b.scales, j) + 1);
  for (int i = 0; i < 32; ++i) {
    put_point<8, 2>(kGridIQ2_XS[b.q[i] & 511], kMagnitudes2, even_signs(b.q[i] >> 9), out.code + 8 * i);
  }
  return out;
}
inline auto split(const BlockIQ2_S& b) {
  Parts<256, 16> out;
  const float d = to_float(b.d) * 0.125f;
  for (int j = 0; j < 16; ++j) out.scale[j] = d * static_cast<float>(2 * half_at(b.scales, j) + 1);
  for (int i = 0; i < 32; ++i) {
    const int point = b.q[i] | (b.h[i / 4] >> (i % 4 * 2) & 3) << 8;
    put_point<8, 2>(kGridIQ2_S[point], kMagnitudes2, b.signs[i], out.code + 8 * i);
  }
  return out;
}
inline auto split(const BlockIQ3_XXS& b) {
  Parts<256, 32> out;
  const float d = to_float(b.d) * 0.25f;
  for (int j = 0; j < 8; ++j) {
    const uint32_t word = word_of(b.scales + 4 * j);
    out.scale[j] = d * static_cast<float>(2 * (word >> 28) + 1);
    for (int i = 0; i < 8; ++i) {
      const uint32_t signs = even_signs(word >> (i / 2 * 7)) >> (i % 2 * 4);
      put_point<4, 4>(kGridIQ3_XXS[b.q[8 * j + i]], kMagnitudes3_XXS, signs, out.code + 32 * j + 4 * i);
    }
  }
  return out;
}
inline auto split(const BlockIQ3_S& b) {
  Parts<256, 32> out;
  const float d = to_float(b.d);
  for (int j = 0; j < 8; ++j) out.scale[j] = d * static_cast<float>(2 * half_at(b.scales, j) + 1);
  for (int i = 0; i < 64; ++i) {
    const int point = b.q[i] | (b.h[i / 8] >> (i % 8) & 1) << 8;
    put_point<4, 4>(kGridIQ3_S[point], kMagnitudes3_S, b.signs[i / 2] >> (i % 2 * 4), out.code + 4 * i);
  }
  return out;
}
inline auto split(const BlockIQ1_S& b) {
  Parts<256, 32> out;
  const float d = to_float(b.d) * 0.125f;
  for (int j = 0; j < 8; ++j) {
    const int h = b.h[j];
    out.scale[j] = d * static_cast<float>(2 * (h >> 12 & 7) + 1);
    for (int i = 0; i < 4; ++i) {
      const int point = b.q[4 * j + i] | (h >> 3 * i & 7) << 8;
      put_ternary(kGridIQ1[point], (h & 0x8000) != 0, out.code + 32 * j + 8 * i);
    }
  }
  return out;
}
inline auto split(const BlockIQ1_M& b) {
  Parts<256, 16> out;
  int bits = 0;
  for (int j = 0; j < 4; ++j) bits |= b.scales[j] >> 12 << 4 * j;
  const float d = to_float(f16{static_cast<uint16_t>(bits)}) * 0.125f;
  for (int j = 0; j < 16; ++j) {
    out.scale[j] = d * static_cast<float>(2 * (b.scales[j / 4] >> (j % 4 * 3) & 7) + 1);
  }
  for (int i = 0; i < 32; ++i) {
    const int h = half_at(b.h, i);
    put_ternary(kGridIQ1[b.q[i] | (h & 7) << 8], (h & 8) != 0, out.code + 8 * i);
  }
  return out;
}

// ------------------------------------------------------------------ exact values
typedef int8_t vb __attribute__((vector_size(W)));
template <int C, int S>
CLIKA_INLINE void join(const Parts<C, S>& parts, float* out) {
  for (int j = 0; j < C / S; ++j) {
    const vf scale = splat(parts.scale[j]);
    const vf minimum = splat(parts.minimum[j]);
    // In vectors by hand: g++ 12 gets the plain loop wrong where two vectors are a sub-block.
    for (int i = S * j; i < S * (j + 1); i += W) {
      vb codes;
      std::memcpy(&codes, parts.code + i, W);
      store(out + i, scale * __builtin_convertvector(codes, vf) - minimum);
    }
  }
}
// The exact float32 values of a block, as the gguf package computes them.
template <class Block>
inline void decode(const Block& block, float* out) {
  join(split(block), out);
}
// Codes that are not whole numbers.
inline void decode(const BlockNF4& b, float* out) {
  for (int i = 0; i < 32; ++i) {
    out[2 * i] = b.d * kNormal4[b.q[i] >> 4];
    out[2 * i + 1] = b.d * kNormal4[b.q[i] & 15];
  }
}
inline void decode(const BlockFP8_E4M3& b, float* out) {
  for (int i = 0; i < 32; ++i) out[i] = b.d * float8_e4m3(b.q[i]);
}
inline void decode(const BlockFP8_E5M2& b, float* out) {
  for (int i = 0; i < 32; ++i) out[i] = b.d * float8_e5m2(b.q[i]);
}
