// The block layouts of GGUF weights: the only place in the CPU backend that knows them. Included after
// level.hpp. A row of K columns is K / 32 blocks, one after the other; a weight is its rows. The
// fields stand as ggml writes them, little endian and without padding; a block may lie at any even address.
#pragma once

constexpr int64_t kBlock = 32;  // columns of a block, the same in every format served here

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
struct BlockQ8_0 {  // value = d * q
  static constexpr int kColumns = 32;
  f16 d;
  int8_t q[32];
};
static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20 && sizeof(BlockQ8_0) == 34,
              "blocks have no padding");

// The exact float32 values of a block, as the gguf package computes them.
inline void decode(const BlockQ4_0& block, float* out) {
  const float d = to_float(block.d);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>((block.q[i] & 15) - 8);
    out[16 + i] = d * static_cast<float>((block.q[i] >> 4) - 8);
  }
}
inline void decode(const BlockQ4_1& block, float* out) {
  const float d = to_float(block.d);
  const float m = to_float(block.m);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(block.q[i] & 15) + m;
    out[16 + i] = d * static_cast<float>(block.q[i] >> 4) + m;
  }
}
inline void decode(const BlockQ8_0& block, float* out) {
  const float d = to_float(block.d);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(block.q[i]);
}

// Bytes of a published block of the scheme; 0 for a scheme that is not served.
inline int64_t block_bytes(int32_t scheme) {
  switch (scheme) {
    case CLIKA_GGUF_Q4_0: return sizeof(BlockQ4_0);
    case CLIKA_GGUF_Q4_1: return sizeof(BlockQ4_1);
    case CLIKA_GGUF_Q8_0: return sizeof(BlockQ8_0);
    default: return 0;
  }
}
