// The block layouts of packed weights: the only place in the CPU backend that knows them. Included after
// level.hpp. A row of K columns is its blocks one after the other; a weight is its rows. Fields stand as ggml
// writes them, little endian and without padding; a block may lie at any address.
// parts.hpp takes the blocks apart.
#pragma once

constexpr int64_t kBlock = 32;  // columns of a block of activations, and of the smaller blocks of weights

struct BlockQ4_0 {  // value = d * (q - 8)
  static constexpr int kColumns = 32;
  f16 d;
  uint8_t q[16];  // column i in the low half of byte i, column 16 + i in the high half
};
struct BlockQ4_1 {  // value = d * q + m
  static constexpr int kColumns = 32;
  f16 d;
  f16 m;
  uint8_t q[16];  // as above
};
struct BlockQ5_0 {  // value = d * (q - 16)
  static constexpr int kColumns = 32;
  f16 d;
  uint8_t h[4];   // the fifth bits: of column i at bit i
  uint8_t q[16];  // the low four bits, as in Q4_0
};
struct BlockQ5_1 {  // value = d * q + m
  static constexpr int kColumns = 32;
  f16 d;
  f16 m;
  uint8_t h[4];
  uint8_t q[16];
};
struct BlockQ8_0 {  // value = d * q
  static constexpr int kColumns = 32;
  f16 d;
  int8_t q[32];
};
// A super-block is 256 columns: 16 or 8 sub-blocks with small integer scales, and a float16 for them all.
struct BlockQ2_K {  // value = d * scale * q - m * minimum, in sub-blocks of 16
  static constexpr int kColumns = 256;
  uint8_t scales[16];  // scale in the low half, minimum in the high half
  uint8_t q[64];       // half n: columns 128 n + 32 j + i at bits 2 j of byte 32 n + i
  f16 d;
  f16 m;
};
struct BlockQ3_K {  // value = d * (scale - 32) * (q - 4), in sub-blocks of 16
  static constexpr int kColumns = 256;
  uint8_t h[32];  // the third bits: of column 32 j + i at bit j of byte i
  uint8_t q[64];  // the low two bits, as in Q2_K
  uint8_t scales[12];
  f16 d;
};
struct BlockQ4_K {  // value = d * scale * q - m * minimum, in sub-blocks of 32
  static constexpr int kColumns = 256;
  f16 d;
  f16 m;
  uint8_t scales[12];  // see scales_and_minima
  uint8_t q[128];      // columns 64 n + i in the low half of byte 32 n + i, 64 n + 32 + i in the high half
};
struct BlockQ5_K {  // the same with five bits
  static constexpr int kColumns = 256;
  f16 d;
  f16 m;
  uint8_t scales[12];
  uint8_t h[32];  // the fifth bits: of column 32 j + i at bit j of byte i
  uint8_t q[128];
};
struct BlockQ6_K {  // value = d * scale * (q - 32), in sub-blocks of 16
  static constexpr int kColumns = 256;
  uint8_t q[128];  // half n: columns 128 n + i in the low halves of 64 bytes, 128 n + 64 + i in the high ones
  uint8_t h[64];   // the upper two bits: of column 128 n + 32 j + i at bits 2 j of byte 32 n + i
  int8_t scales[16];
  f16 d;
};
struct BlockIQ4_NL {  // value = d * kNonlinear[q]
  static constexpr int kColumns = 32;
  f16 d;
  uint8_t q[16];  // as in Q4_0
};
struct BlockIQ4_XS {  // value = d * (scale - 32) * kNonlinear[q], in sub-blocks of 32
  static constexpr int kColumns = 256;
  f16 d;
  uint16_t scales_h;    // the upper two bits: of scale j at bits 2 j
  uint8_t scales_l[4];  // the low four bits: of scale 2 j in the low half of byte j
  uint8_t q[128];       // sub-block j: as in Q4_0, from byte 16 j on
};
struct BlockTQ1_0 {  // value = d * (q - 1); five digits of base 3 to a byte, as 256 times a fraction
  static constexpr int kColumns = 256;
  uint8_t q[48];  // digit n of bytes 0 .. 31: columns 32 n + i; of bytes 32 .. 47: columns 160 + 16 n + i
  uint8_t h[4];   // digit n of byte i: column 240 + 4 n + i
  f16 d;
};
struct BlockTQ2_0 {  // value = d * (q - 1)
  static constexpr int kColumns = 256;
  uint8_t q[64];  // as in Q2_K
  f16 d;
};
struct BlockMXFP4 {  // value = 2^(e - 128) * kFloat4[q]
  static constexpr int kColumns = 32;
  uint8_t e;
  uint8_t q[16];  // as in Q4_0
};
struct BlockNVFP4 {  // value = scale * kFloat4[q], in sub-blocks of 16
  static constexpr int kColumns = 64;
  uint8_t scales[4];  // unsigned float8 (4 bits of exponent, 3 of mantissa)
  uint8_t q[32];      // sub-block j: columns i in the low halves of bytes 8 j + i, 8 + i in the high halves
};
// The grid formats: 8 (or 4) columns are one point of a grid, whose coordinates are magnitudes; signs stand
// apart. Seven bits name eight signs: the last one makes the number of minus signs even.
struct BlockIQ2_XXS {  // value = d / 8 * (2 scale + 1) * point, in sub-blocks of 32
  static constexpr int kColumns = 256;
  f16 d;
  uint8_t q[64];  // of each sub-block 4 points and a word: signs at bits 0, 7, 14, 21, the scale at bit 28
};
struct BlockIQ2_XS {  // the same, in sub-blocks of 16
  static constexpr int kColumns = 256;
  f16 d;
  uint16_t q[32];     // 9 bits of the point, 7 bits of signs
  uint8_t scales[8];  // of sub-block 2 j in the low half of byte j
};
struct BlockIQ2_S {  // the same, in sub-blocks of 16
  static constexpr int kColumns = 256;
  f16 d;
  uint8_t q[32];
  uint8_t signs[32];
  uint8_t h[8];  // bits 8 and 9 of point 4 j + i at bits 2 i of byte j
  uint8_t scales[8];
};
struct BlockIQ3_XXS {  // value = d / 4 * (2 scale + 1) * point, in sub-blocks of 32
  static constexpr int kColumns = 256;
  f16 d;
  uint8_t q[64];       // points of 4 columns
  uint8_t scales[32];  // of each sub-block a word, as in IQ2_XXS
};
struct BlockIQ3_S {  // value = d * (2 scale + 1) * point, in sub-blocks of 32
  static constexpr int kColumns = 256;
  f16 d;
  uint8_t q[64];
  uint8_t h[8];  // bit 8 of point 8 j + i at bit i of byte j
  uint8_t signs[32];
  uint8_t scales[4];
};
struct BlockIQ1_S {  // value = d * (2 scale + 1) * (point + shift / 8), in sub-blocks of 32
  static constexpr int kColumns = 256;
  f16 d;
  uint8_t q[32];
  uint16_t h[8];  // of a sub-block: bits 8 .. 10 of point i at bits 3 i, the scale at bit 12, shift < 0 at 15
};
struct BlockIQ1_M {  // the same, in sub-blocks of 16, a shift for each point
  static constexpr int kColumns = 256;
  uint8_t q[32];
  uint8_t h[16];       // of point 2 j in the low half of byte j: bits 8 .. 10, then shift < 0
  uint16_t scales[4];  // four scales of three bits, and four bits of d on top
};
// Forms of our own.
struct BlockMXFP4_E8M0 {  // value = 2^(e - 128) * kFloat4[q]
  static constexpr int kColumns = 32;
  uint8_t q[16];  // column 2 i in the low half of byte i, column 2 i + 1 in the high half
  uint8_t e;      // 255: not a number
};
struct BlockNVFP4_E4M3 {  // value = d * scale * kFloat4[q], in sub-blocks of 16
  static constexpr int kColumns = 64;
  float d;
  uint8_t scales[4];  // float8, e4m3, without a sign
  uint8_t q[32];      // as in MXFP4_E8M0
};
struct BlockNF4 {  // value = d * kNormal4[q]
  static constexpr int kColumns = 64;
  float d;
  uint8_t q[32];  // column 2 i in the high half of byte i, column 2 i + 1 in the low half
};
struct BlockFP8_E4M3 {  // value = d * q
  static constexpr int kColumns = 32;
  float d;
  uint8_t q[32];
};
struct BlockFP8_E5M2 {  // value = d * q
  static constexpr int kColumns = 32;
  float d;
  uint8_t q[32];
};
struct BlockINT4_G32 {  // value = d * q + m
  static constexpr int kColumns = 32;
  float d;
  float m;
  uint8_t q[16];  // as in Q4_0
};
struct BlockINT4_G128 {  // the same
  static constexpr int kColumns = 128;
  float d;
  float m;
  uint8_t q[64];  // columns 32 n + i: as in Q4_0, from byte 16 n on
};
struct BlockINT8_G32 {  // value = d * q
  static constexpr int kColumns = 32;
  float d;
  int8_t q[32];
};

#define CLIKA_X(name, number, columns, bytes)                                        \
  static_assert(Block##name::kColumns == columns && sizeof(Block##name) == bytes, \
                "as plugin.h declares the scheme");
CLIKA_SCHEMES(CLIKA_X)
#undef CLIKA_X

// The mask of all quantized schemes, for a kernel's entry.
#define CLIKA_X(name, number, columns, bytes) | CLIKA_BIT(number)
constexpr uint64_t kQuantized = 0 CLIKA_SCHEMES(CLIKA_X);
#undef CLIKA_X

// Calls body with a null pointer to the block type of a scheme.
template <class Body>
inline void with_block(int32_t scheme, const Body& body) {
  switch (scheme) {
#define CLIKA_X(name, number, columns, bytes) \
  case number: body(static_cast<Block##name*>(nullptr)); break;
    CLIKA_SCHEMES(CLIKA_X)
#undef CLIKA_X
    default: break;
  }
}

#include "parts.hpp"
