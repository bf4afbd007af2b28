// Activations in int8 for the fast mode of linear. Included after level.hpp, blocks.hpp and linear_lanes.hpp.
//
// Row by row in blocks of 32 columns: d = amax / 127 (float32), q = x / d to the nearest integer, ties to
// even. Rows are gathered in tiles of T tokens; a tile is K / 32 ActBlock<T> one after the other, so that the
// multiplying loop walks through memory with one pointer.
#pragma once

template <int T>
struct ActBlock {
  int8_t q[T][kBlock];
  float d[T];
  uint32_t s[T];  // what the weight's format asks for, see kFactor
};
constexpr int64_t kActBytes = kBlock + 8;  // per token and block
static_assert(sizeof(ActBlock<1>) == kActBytes && sizeof(ActBlock<5>) == 5 * kActBytes, "no padding");

// What stands in `s` of an ActBlock: with kFactor 0 the float d * sum(q), which meets the minimum of a weight
// block; else the int32 kFactor * sum(q), which takes the offset of the weight's codes off again.
// One block: writes 32 codes, the scale and the sum.
template <int kFactor, class In>
CLIKA_INLINE void quantize_block(const In* x, int8_t* q, float* d, uint32_t* s) {
  vf v[kBlockLanes];
  vi peak = {};
  for (int i = 0; i < kBlockLanes; ++i) {
    v[i] = load(x + i * W);
    // Magnitudes compare as integers, and NaN is the largest of them: it is not lost in the maximum.
    const vi magnitude = as_int(v[i]) & 0x7fffffff;
    peak = magnitude > peak ? magnitude : peak;
  }
  const float amax = float_of(static_cast<uint32_t>(max_lane(peak)));
  const float scale = amax * (1.0f / 127.0f);
  *d = scale;
  if (!(amax >= 1e-35f && amax <= std::numeric_limits<float>::max())) {
    // Zero, or so small that 127 / amax overflows: codes of 0. Not finite: the scale makes the row NaN.
    std::memset(q, 0, kBlock);
    *s = kFactor == 0 ? bits_of(scale * 0.0f) : 0;
    return;
  }
  const float inverse = 127.0f / amax;
  vi whole[kBlockLanes];
  vi sums = {};
  for (int i = 0; i < kBlockLanes; ++i) {
    whole[i] = __builtin_convertvector(round_small(v[i] * inverse), vi);
    sums += whole[i];
  }
  store_codes(q, whole);
  const int32_t sum = sum_lanes(sums);
  *s = kFactor == 0 ? bits_of(scale * static_cast<float>(sum)) : static_cast<uint32_t>(kFactor * sum);
}

// Quantizes `count` rows of x, one after the other, into a tile: the layout is ActBlock<count>, written here
// with the count at run time.
template <int kFactor, class In>
inline void quantize_tile(const In* x, int64_t columns, int64_t count, uint8_t* tile) {
  const int64_t blocks = columns / kBlock;
  for (int64_t t = 0; t < count; ++t) {
    const In* row = x + t * columns;
    for (int64_t b = 0; b < blocks; ++b) {
      uint8_t* block = tile + b * count * kActBytes;
      float d;
      uint32_t s;
      quantize_block<kFactor>(row + b * kBlock, reinterpret_cast<int8_t*>(block + t * kBlock), &d, &s);
      std::memcpy(block + count * kBlock + 4 * t, &d, 4);
      std::memcpy(block + count * (kBlock + 4) + 4 * t, &s, 4);
    }
  }
}
