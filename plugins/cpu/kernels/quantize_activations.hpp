// Activations of 16 or 8 bits for the integer modes of linear. Included after level.hpp, blocks.hpp and
// linear_lanes.hpp.
//
// Row by row in blocks of 32 columns: d = amax / most (float32), q = x / d to the nearest integer, ties to even;
// `most` is 127 for codes of one byte, and 127 * 256 + 127 for two, so that q = 256 * high + low with two int8.
// Rows are gathered in tiles of T tokens; a tile is K / 32 ActBlock<T> one after the other, so that the multiplying
// loop walks through memory with one pointer.
#pragma once

// The codes of a block, B bytes each in the form that Products reads, and H sums a token, over 32 / H columns each:
// what the weight's format asks for, see CodeSums.
template <int T, int H, int B>
struct ActBlock {
  uint8_t q[T][B * kBlock];
  float d[T];
  uint32_t s[H][T];
};
constexpr int64_t act_bytes(int halves, int bytes) { return bytes * kBlock + 4 + 4 * halves; }  // per token
static_assert(sizeof(ActBlock<5, 2, 2>) == 5 * act_bytes(2, 2), "no padding");

// What the sums of a token's codes are kept as.
struct CodeSums {
  bool scaled;     // the float d * sum(q), which meets the minimum of a weight block
  int32_t factor;  // else the int32 factor * sum(q), which takes the offset of the weight's codes off again
};

// One block: writes the codes, the scale and the sums.
template <Form kForm, int B, int H, class In>
CLIKA_INLINE void quantize_block(const In* x, CodeSums sums, uint8_t* q, float* d, uint32_t (&s)[H]) {
  constexpr int kMost = B == 2 ? 127 * 256 + 127 : 127;
  vf v[kBlockLanes];
  vi peak = {};
  for (int i = 0; i < kBlockLanes; ++i) {
    v[i] = load(x + i * W);
    // Magnitudes compare as integers, and NaN is the largest of them: it is not lost in the maximum.
    const vi magnitude = as_int(v[i]) & 0x7fffffff;
    peak = magnitude > peak ? magnitude : peak;
  }
  const float amax = float_of(static_cast<uint32_t>(max_lane(peak)));
  const float scale = amax * (1.0f / static_cast<float>(kMost));
  *d = scale;
  if (!(amax >= 1e-33f && amax <= std::numeric_limits<float>::max())) {
    // Zero, or so small that the inverse overflows: codes of 0. Not finite: the scale makes the row NaN.
    std::memset(q, 0, B * kBlock);
    for (int h = 0; h < H; ++h) s[h] = sums.scaled ? bits_of(scale * 0.0f) : 0;
    return;
  }
  const float inverse = static_cast<float>(kMost) / amax;
  vi whole[kBlockLanes];
  for (int i = 0; i < kBlockLanes; ++i) {
    whole[i] = __builtin_convertvector(round_small(v[i] * inverse), vi);
  }
  store_codes<kForm>(q, whole);
  for (int h = 0; h < H; ++h) {
    vi lanes = {};
    for (int i = h * kBlockLanes / H; i < (h + 1) * kBlockLanes / H; ++i) lanes += whole[i];
    const int32_t sum = sum_lanes(lanes);
    s[h] = sums.scaled ? bits_of(scale * static_cast<float>(sum)) : static_cast<uint32_t>(sums.factor * sum);
  }
}

// Quantizes `count` rows of x, one after the other, into a tile: the layout is ActBlock<count, H, B>, written
// here with the count at run time.
template <Form kForm, int B, int H, class In>
inline void quantize_tile(const In* x, int64_t columns, int64_t count, CodeSums sums, uint8_t* tile) {
  const int64_t blocks = columns / kBlock;
  for (int64_t t = 0; t < count; ++t) {
    const In* row = x + t * columns;
    for (int64_t b = 0; b < blocks; ++b) {
      uint8_t* block = tile + b * count * act_bytes(H, B);
      float d;
      uint32_t s[H];
      quantize_block<kForm, B, H>(row + b * kBlock, sums, block + t * B * kBlock, &d, s);
      uint8_t* numbers = block + count * B * kBlock + 4 * t;
      std::memcpy(numbers, &d, 4);
      for (int h = 0; h < H; ++h) std::memcpy(numbers + 4 * count * (1 + h), &s[h], 4);
    }
  }
}
