// Activations in int8 for the fast mode of linear. Included after level.hpp, blocks.hpp and linear_lanes.hpp.
//
// Row by row in blocks of 32 columns: d = amax / 127 (float32), q = x / d to the nearest integer, ties to even.
// Rows are gathered in tiles of T tokens; a tile is K / 32 ActBlock<T> one after the other, so that the
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
  constexpr int kParts = kBlock / W;
  vf v[kParts];
  vi peak = {};
  for (int i = 0; i < kParts; ++i) {
    v[i] = load(x + i * W);
    // Magnitudes compare as integers, and NaN is the largest of them: it is not lost in the maximum.
    const vi magnitude = as_int(v[i]) & 0x7fffffff;
    peak = magnitude > peak ? magnitude : peak;
  }
  int32_t part[W];
  std::memcpy(part, &peak, sizeof(part));
  for (int width = W / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) part[i] = std::max(part[i], part[i + width]);
  }
  const float amax = float_of(static_cast<uint32_t>(part[0]));
  const float scale = amax / 127.0f;
  if (!(amax >= 1e-35f && amax <= std::numeric_limits<float>::max())) {
    // Zero, or so small that 127 / amax overflows: codes of 0. Not finite: the scale makes the row NaN.
    std::memset(q, 0, kBlock);
    *d = scale;
    *s = kFactor == 0 ? bits_of(scale * 0.0f) : 0;
    return;
  }
  const float inverse = 127.0f / amax;
  vi sum = {};
  for (int i = 0; i < kParts; ++i) {
    const vi whole = __builtin_convertvector(round_small(v[i] * inverse), vi);
    sum += whole;
    store_bytes(q + i * W, whole);
  }
  std::memcpy(part, &sum, sizeof(part));
  for (int width = W / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) part[i] += part[i + width];
  }
  *d = scale;
  *s = kFactor == 0 ? bits_of(scale * static_cast<float>(part[0])) : static_cast<uint32_t>(kFactor * part[0]);
}

// Quantizes T rows of x, one after the other, into a tile.
template <int kFactor, int T, class In>
inline void quantize_tile(const In* x, int64_t columns, uint8_t* tile) {
  const int64_t blocks = columns / kBlock;
  ActBlock<T>* out = reinterpret_cast<ActBlock<T>*>(tile);
  for (int t = 0; t < T; ++t) {
    const In* row = x + t * columns;
    for (int64_t b = 0; b < blocks; ++b) {
      quantize_block<kFactor>(row + b * kBlock, out[b].q[t], &out[b].d[t], &out[b].s[t]);
    }
  }
}
