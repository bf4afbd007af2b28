// The backend's own layout of packed weights. A tile is 16 rows, a step of it 128 or 256 columns: planes of bits, scales.
//
// Everything lies in the order in which the threads of a warp meet it in a product on tensor cores (tensor_cores.cuh): lane
// 4 g + t has rows g and g + 8 and eight of every 32 columns, so a warp reads whole lines and a thread 16 bytes at a time.
// Which eight is free, as a product adds up in any order: 8 t .. 8 t + 7 where 32 columns share a scale; where 16 do,
// 4 t .. 4 t + 3 of each 16. Rows and columns that fill up a tile are zeros.
#pragma once

#include "blocks.cuh"
#include "linear_arguments.cuh"
#include "words.cuh"

// Where a column of a block of 32 is: thread t of four, element e of eight.
template <int kShared>
CLIKA_INLINE int thread_of(int c) {
  return kShared == 32 ? c / 8 : c % 16 / 4;
}
template <int kShared>
CLIKA_INLINE int element_of(int c) {
  return kShared == 32 ? c % 8 : c / 16 * 4 + c % 4;
}
template <int kShared>
CLIKA_INLINE int column_of(int t, int e) {
  return kShared == 32 ? 8 * t + e : e / 4 * 16 + 4 * t + e % 4;
}

// Codes of kBits (4, 5, 6 or 8) of a step: a plane of nibbles or bytes, and one of the bits above the fourth.
// Nibbles: words [pair of blocks][lane][block][row or row + 8], pair i of elements at bits 4 i and 16 + 4 i.
// Bytes: words [block][lane][row or row + 8][element / 4].
// Two bits: words [4 blocks][lane][block], bits 8 h + 2 i and 16 more of pair i, h the row's half.
// One bit: words [lane][pair of blocks], bits 8 h + 4 (block % 2) + i and 16 more.
template <int kStep, int kBits, int kShared>
struct Codes {
  static constexpr int kBlocks = kStep / 32;
  static constexpr int kLow = kBits == 8 ? 512 * kBlocks : 256 * kBlocks;
  static constexpr int kHigh = kBits == 5 ? 64 * kBlocks : kBits == 6 ? 128 * kBlocks : 0;
  static constexpr int kBytes = kLow + kHigh;

  // -------------------------------------------------- a row's codes, one by one
  static CLIKA_INLINE int low_word(int b, int lane, int h) {
    return kBits == 8 ? b * 128 + lane * 4 + 2 * h : b / 2 * 128 + lane * 4 + b % 2 * 2 + h;
  }
  static CLIKA_INLINE int high_byte(int b, int lane, int h, int odd) {
    const int word = kBits == 6 ? b / 4 * 128 + lane * 4 + b % 4 : lane * (kBlocks / 2) + b / 2;
    return kLow + 4 * word + h + 2 * odd;
  }
  static CLIKA_INLINE int code(const u8* step, int row, int c) {
    const int b = c / 32, e = element_of<kShared>(c % 32), h = row / 8, i = e / 2;
    const int lane = row % 8 * 4 + thread_of<kShared>(c % 32);
    const u32* words = reinterpret_cast<const u32*>(step);
    if constexpr (kBits == 8) return words[low_word(b, lane, h) + e / 4] >> (e % 4 * 8) & 255;
    const int low = words[low_word(b, lane, h)] >> (4 * i + 16 * (e & 1)) & 15;
    if constexpr (kBits == 4) return low;
    const int high = step[high_byte(b, lane, h, e & 1)];
    return low | (kBits == 6 ? high >> 2 * i & 3 : high >> (4 * (b % 2) + i) & 1) << 4;
  }
  // All codes of a row from code(column); nobody else writes the same bytes.
  template <class Code>
  static CLIKA_INLINE void put(u8* step, int row, const Code& code) {
    u32* words = reinterpret_cast<u32*>(step);
    const int h = row / 8;
    for (int b = 0; b < kBlocks; ++b) {
      for (int t = 0; t < 4; ++t) {
        const int lane = row % 8 * 4 + t;
        u32 low[2] = {};
        u32 high[2] = {};
        for (int e = 0; e < 8; ++e) {
          const u32 q = static_cast<u32>(code(32 * b + column_of<kShared>(t, e)));
          if constexpr (kBits == 8) low[e / 4] |= q << (e % 4 * 8);
          else low[0] |= (q & 15) << (e / 2 * 4 + e % 2 * 16);
          if constexpr (kBits == 6) high[e & 1] |= (q >> 4) << (e & ~1);
          if constexpr (kBits == 5) high[e & 1] |= (q >> 4) << (4 * (b % 2) + e / 2);
        }
        words[low_word(b, lane, h)] = low[0];
        if constexpr (kBits == 8) words[low_word(b, lane, h) + 1] = low[1];
        for (int odd = 0; odd < 2 && kHigh != 0; ++odd) {
          u8* byte = step + high_byte(b, lane, h, odd);
          *byte = static_cast<u8>(kBits == 5 && b % 2 == 1 ? *byte | high[odd] : high[odd]);
        }
      }
    }
  }

  // -------------------------------------------------- a thread's codes of a step
  Words4 low[kLow / 512];
  u32 high[kHigh == 0 ? 1 : kHigh / 128];

  CLIKA_INLINE void load(const u8* step, int lane) {
#pragma unroll
    for (int i = 0; i < kLow / 512; ++i) low[i] = words_at(step + 512 * i + 16 * lane);
    if constexpr (kHigh / 128 == 2) {
      const Words2 two = *reinterpret_cast<const Words2*>(step + kLow + 8 * lane);
      high[0] = two.x[0];
      high[1] = two.x[1];
    } else if constexpr (kHigh != 0) {
#pragma unroll
      for (int i = 0; i < kHigh / 512; ++i) {
        const Words4 four = words_at(step + kLow + 512 * i + 16 * lane);
#pragma unroll
        for (int k = 0; k < 4; ++k) high[4 * i + k] = four.x[k];
      }
    }
  }
  // The codes of block b, two in a word, in the order of the left operands of its two products: whole numbers, of which
  // those of eight bits are 128 more than they are. Without kShifted every second word of nibbles counts 16.
  template <bool kShifted>
  CLIKA_INLINE void fragments(int b, u32 (&a)[2][4]) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i / 2][2 * (i % 2) + h] = code_pair<kShifted>(b, h, i);
    }
  }

 private:
  template <bool kShifted>
  CLIKA_INLINE u32 code_pair(int b, int h, int i) const {
    if constexpr (kBits == 8) {
      // With the top bit turned a signed byte is the number plus 128.
      return bytes_from(low[b].x[2 * h + i / 2] ^ 0x80808080u, 0u, 0x4140u + (i % 2) * 0x202u);
    } else if constexpr (!kShifted) {
      static_assert(kBits == 4, "bits above the fourth have another place");
      return low[b / 2].x[b % 2 * 2 + h] >> (i / 2 * 8) & (i % 2 == 0 ? 0x000f000fu : 0x00f000f0u);
    } else {
      u32 word = low[b / 2].x[b % 2 * 2 + h] >> (4 * i) & 0x000f000fu;
      if constexpr (kBits == 6) word |= to_bit_four(high[b], 8 * h + 2 * i) & 0x00300030u;
      if constexpr (kBits == 5) word |= to_bit_four(high[b / 2], 8 * h + 4 * (b % 2) + i) & 0x00100010u;
      return word;
    }
  }
  static CLIKA_INLINE u32 to_bit_four(u32 word, int from) { return from < 4 ? word << (4 - from) : word >> (from - 4); }
};

// The first float of the scales of a thread's two rows, and what comes with it.
CLIKA_INLINE float low_half(u32 word) { return half_to_float(static_cast<u16>(word)); }
CLIKA_INLINE float high_half(u32 word) { return half_to_float(static_cast<u16>(word >> 16)); }
CLIKA_INLINE void put_short(u8* p, u32 x) {
  p[0] = static_cast<u8>(x);
  p[1] = static_cast<u8>(x >> 8);
}

// Blocks of 32 with one float16, or two: words [g][block], the row's in the low half and that of row + 8 in the high one.
// A step is 128 columns.
template <class Published, int kBits, int kLess, bool kMinimum>
struct TiledBlocks {
  using Block = Published;
  using Plane = Codes<128, kBits, 32>;
  static constexpr int kStep = 128, kShared = 32, kOffset = kBits == 8 ? 128 : kLess;
  static constexpr bool kMinima = kMinimum, kFolded = false, kSixteenths = kBits == 4;
  static constexpr int kBytes = Plane::kBytes + (kMinimum ? 256 : 128);

  static CLIKA_INLINE int place(int row, int b) { return Plane::kBytes + row % 8 * 16 + b * 4 + row / 8 * 2; }
  static CLIKA_INLINE float value(const u8* step, int row, int c) {
    const u8* d = step + place(row, c / 32);
    const int q = Plane::code(step, row, c);
    const int code = kBits == 8 ? static_cast<signed char>(q) : q - kLess;
    return kMinimum ? affine(half_at(d), code, -half_at(d + 128)) : times(half_at(d), code);
  }
  // A row of a step from its published blocks, of which `blocks` are there.
  static CLIKA_INLINE void pack(const u8* from, int blocks, u8* step, int row) {
    Plane::put(step, row, [&](int c) { return c / 32 < blocks ? Block::code(from + c / 32 * Block::kBytes, c % 32) : 0; });
    for (int b = 0; b < 4; ++b) {
      u8* d = step + place(row, b);
      put_short(d, b < blocks ? short_at(from + b * Block::kBytes) : 0);
      if (kMinimum) put_short(d + 128, b < blocks ? short_at(from + b * Block::kBytes + 2) : 0);
    }
  }
  static CLIKA_INLINE void unpack(const u8* step, int row, int b, u8* to) {
    const auto code = [&](int c) { return static_cast<u32>(Plane::code(step, row, 32 * b + c)); };
    const u8* d = step + place(row, b);
    put_short(to, short_at(d));
    if (kMinimum) put_short(to + 2, short_at(d + 128));
    u8* q = to + (kMinimum ? 4 : 2);
    if (kBits == 5) {
      for (int i = 0; i < 4; ++i, ++q) {
        u32 bits = 0;
        for (int k = 0; k < 8; ++k) bits |= (code(8 * i + k) >> 4) << k;
        *q = static_cast<u8>(bits);
      }
    }
    for (int i = 0; i < (kBits == 8 ? 32 : 16); ++i) {
      q[i] = static_cast<u8>(kBits == 8 ? code(i) : (code(i) & 15) | (code(16 + i) & 15) << 4);
    }
  }

  Plane codes;
  Words4 d, m;
  CLIKA_INLINE void load(const u8* step, int lane) {
    codes.load(step, lane);
    d = *reinterpret_cast<const Words4*>(step + Plane::kBytes + lane / 4 * 16);
    if constexpr (kMinimum) m = *reinterpret_cast<const Words4*>(step + Plane::kBytes + 128 + lane / 4 * 16);
  }
  template <bool kShifted>
  CLIKA_INLINE void fragments(int b, u32 (&a)[2][4]) const {
    codes.template fragments<kShifted>(b, a);
  }
  // Scales and minima of block b: [row or row + 8][16 columns or all]; kFolded: to be multiplied by those of_all.
  CLIKA_INLINE void scales(int b, float (&scale)[2][2], float (&minimum)[2]) const {
    scale[0][0] = low_half(d.x[b]);
    scale[1][0] = high_half(d.x[b]);
    if constexpr (kMinimum) {
      minimum[0] = -low_half(m.x[b]);
      minimum[1] = -high_half(m.x[b]);
    }
  }
};
using TiledQ4_0 = TiledBlocks<Q4_0, 4, 8, false>;
using TiledQ4_1 = TiledBlocks<Q4_1, 4, 0, true>;
using TiledQ5_0 = TiledBlocks<Q5_0, 5, 16, false>;
using TiledQ5_1 = TiledBlocks<Q5_1, 5, 0, true>;
using TiledQ8_0 = TiledBlocks<Q8_0, 8, 0, false>;

// Q4_K and Q5_K: the 16 bytes of d, m and eight scales and minima as they are published, [g][row or row + 8].
template <class Published, int kBits>
struct TiledSixBits {
  using Block = Published;
  using Plane = Codes<256, kBits, 32>;
  static constexpr int kStep = 256, kShared = 32, kOffset = 0;
  static constexpr bool kMinima = true, kFolded = true, kSixteenths = kBits == 4;
  static constexpr int kBytes = Plane::kBytes + 256;

  static CLIKA_INLINE int place(int row) { return Plane::kBytes + row % 8 * 32 + row / 8 * 16; }
  static CLIKA_INLINE float value(const u8* step, int row, int c) {
    const u8* s = step + place(row);
    const float scale = times(half_at(s), six_bits(s + 4, c / 32, false));
    return affine(scale, Plane::code(step, row, c), times(half_at(s + 2), six_bits(s + 4, c / 32, true)));
  }
  static CLIKA_INLINE void pack(const u8* from, int blocks, u8* step, int row) {
    Plane::put(step, row, [&](int c) { return blocks > 0 ? Block::code(from, c) : 0; });
    for (int i = 0; i < 16; ++i) step[place(row) + i] = blocks > 0 ? from[i] : 0;
  }
  static CLIKA_INLINE void unpack(const u8* step, int row, int, u8* to) {
    const auto code = [&](int c) { return static_cast<u32>(Plane::code(step, row, c)); };
    for (int i = 0; i < 16; ++i) to[i] = step[place(row) + i];
    u8* q = to + 16;
    if (kBits == 5) {
      for (int i = 0; i < 32; ++i, ++q) {
        u32 bits = 0;
        for (int j = 0; j < 8; ++j) bits |= (code(32 * j + i) >> 4) << j;
        *q = static_cast<u8>(bits);
      }
    }
    for (int i = 0; i < 128; ++i) {
      const int c = i / 32 * 64 + i % 32;
      q[i] = static_cast<u8>((code(c) & 15) | (code(c + 32) & 15) << 4);
    }
  }

  Plane codes;
  Words4 s[2];
  CLIKA_INLINE void load(const u8* step, int lane) {
    codes.load(step, lane);
#pragma unroll
    for (int h = 0; h < 2; ++h) s[h] = *reinterpret_cast<const Words4*>(step + Plane::kBytes + lane / 4 * 32 + h * 16);
  }
  template <bool kShifted>
  CLIKA_INLINE void fragments(int b, u32 (&a)[2][4]) const {
    codes.template fragments<kShifted>(b, a);
  }
  // Whole numbers of six bits are float16 as they are, times 2^-24: of_all makes up for it.
  CLIKA_INLINE void scales(int b, float (&scale)[2][2], float (&minimum)[2]) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const u32* w = s[h].x;
      // Four at a time; those of one step are computed once, as b is a constant there.
      const u32 scales = b < 4 ? w[1] & 0x3f3f3f3fu : (w[3] & 0x0f0f0f0fu) | (w[1] >> 2 & 0x30303030u);
      const u32 minima = b < 4 ? w[2] & 0x3f3f3f3fu : (w[3] >> 4 & 0x0f0f0f0fu) | (w[2] >> 2 & 0x30303030u);
      const u32 two = scales >> b % 2 * 8 & 0x00ff00ffu, less = minima >> b % 2 * 8 & 0x00ff00ffu;
      scale[h][0] = b % 4 < 2 ? low_half(two) : high_half(two);
      minimum[h] = b % 4 < 2 ? low_half(less) : high_half(less);
    }
  }
  // A left operand of minima: those of blocks 2 t and 2 t + 1, twice, as whole numbers.
  CLIKA_INLINE void minima(int t, u32 (&a)[4]) const {
    const u32 high = t < 2 ? 0u : 0x0f0f0f0fu, low = t < 2 ? 0x3f3f3f3fu : 0x30303030u;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const u32 four = (s[h].x[3] >> 4 & high) | (s[h].x[2] >> (t < 2 ? 0 : 2) & low);
      a[h] = a[2 + h] = bytes_from(four, 0u, t % 2 == 0 ? 0x4140u : 0x4342u);
    }
  }
  CLIKA_INLINE void of_all(float (&scale)[2], float (&minimum)[2]) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      scale[h] = low_half(s[h].x[0]) * 16777216.0f;
      minimum[h] = high_half(s[h].x[0]) * 16777216.0f;
    }
  }
};
using TiledQ4_K = TiledSixBits<Q4_K, 4>;
using TiledQ5_K = TiledSixBits<Q5_K, 5>;

// Sixteen scales [g][row or row + 8][16], then float16 d [g][row or row + 8].
struct TiledQ6_K {
  using Block = Q6_K;
  using Plane = Codes<256, 6, 16>;
  static constexpr int kStep = 256, kShared = 16, kOffset = 32;
  static constexpr bool kMinima = false, kFolded = true, kSixteenths = false;
  static constexpr int kBytes = Plane::kBytes + 288;

  static CLIKA_INLINE int place(int row) { return Plane::kBytes + row % 8 * 32 + row / 8 * 16; }
  static CLIKA_INLINE int place_of_d(int row) { return Plane::kBytes + 256 + row % 8 * 4 + row / 8 * 2; }
  static CLIKA_INLINE float value(const u8* step, int row, int c) {
    const int scale = static_cast<signed char>(step[place(row) + c / 16]);
    return times(times(half_at(step + place_of_d(row)), scale), Plane::code(step, row, c) - 32);
  }
  static CLIKA_INLINE void pack(const u8* from, int blocks, u8* step, int row) {
    Plane::put(step, row, [&](int c) { return blocks > 0 ? Block::code(from, c) : 0; });
    for (int i = 0; i < 16; ++i) step[place(row) + i] = blocks > 0 ? from[192 + i] : 0;
    put_short(step + place_of_d(row), blocks > 0 ? short_at(from + 208) : 0);
  }
  static CLIKA_INLINE void unpack(const u8* step, int row, int, u8* to) {
    const auto code = [&](int c) { return static_cast<u32>(Plane::code(step, row, c)); };
    for (int i = 0; i < 128; ++i) {
      const int c = i / 64 * 128 + i % 64;
      to[i] = static_cast<u8>((code(c) & 15) | (code(c + 64) & 15) << 4);
    }
    for (int i = 0; i < 64; ++i) {
      u32 bits = 0;
      for (int j = 0; j < 4; ++j) bits |= (code(i / 32 * 128 + 32 * j + i % 32) >> 4) << 2 * j;
      to[128 + i] = static_cast<u8>(bits);
    }
    for (int i = 0; i < 16; ++i) to[192 + i] = step[place(row) + i];
    put_short(to + 208, short_at(step + place_of_d(row)));
  }

  Plane codes;
  Words4 s[2];
  u32 d;
  CLIKA_INLINE void load(const u8* step, int lane) {
    codes.load(step, lane);
#pragma unroll
    for (int h = 0; h < 2; ++h) s[h] = *reinterpret_cast<const Words4*>(step + Plane::kBytes + lane / 4 * 32 + h * 16);
    d = *reinterpret_cast<const u32*>(step + Plane::kBytes + 256 + lane / 4 * 4);
  }
  template <bool kShifted>
  CLIKA_INLINE void fragments(int b, u32 (&a)[2][4]) const {
    codes.template fragments<kShifted>(b, a);
  }
  CLIKA_INLINE void scales(int b, float (&scale)[2][2], float (&)[2]) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        scale[h][k] = byte_to_float(s[h].x[b / 2] ^ 0x80808080u, b % 2 * 2 + k, 128.0f);
      }
    }
  }
  CLIKA_INLINE void of_all(float (&scale)[2], float (&)[2]) const {
    scale[0] = low_half(d);
    scale[1] = high_half(d);
  }
};
