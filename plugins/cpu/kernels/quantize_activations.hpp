// Activations of 8 bits for the fast mode of linear. Included after level.hpp, blocks.hpp and linear_lanes.hpp.
//
// Row by row in blocks of 32 columns: d = amax / 127 (float32), q = x / d to the nearest integer, ties to even. The
// error of a product is that of the blocks with the largest values, a few of each row: a block with amax over twice
// the root mean square of the row's amax is refined, it has second codes for what rounding has left, in steps of
// d / 254. So most of the error goes for a few percent of the work, and a row's codes depend on that row alone.
// Rows are gathered in tiles of T tokens; a tile is K / 32 ActBlock<T> one after the other, so that the multiplying
// loop walks through memory with one pointer, then the second codes, of which few are written and read.
#pragma once

constexpr float kFineSteps = 254.0f;  // to a step of the first codes: second codes are at most 127
constexpr double kFineShare = 4.0;    // of the mean square, see above

// The codes of a block and H sums a token, over 32 / H columns each: what the weight's format asks for, see CodeSums.
template <int T, int H>
struct ActBlock {
  uint8_t q[T][kBlock];
  float d[T];
  uint32_t s[H][T];
  uint32_t refined;  // bit t: token t has second codes
};
template <int H>
struct FineCodes {
  uint8_t q[kBlock];
  uint32_t s[H];  // where sums are not scaled
};
constexpr int64_t act_bytes(int halves, int64_t tokens) { return tokens * (kBlock + 4 + 4 * halves) + 4; }
static_assert(sizeof(ActBlock<5, 2>) == act_bytes(2, 5), "no padding");
// Of a tile, by its blocks of columns.
template <int H>
constexpr int64_t tile_bytes(int64_t blocks, int64_t tokens) {
  return blocks * (act_bytes(H, tokens) + tokens * static_cast<int64_t>(sizeof(FineCodes<H>)));
}

// What the sums of a token's codes are kept as.
struct CodeSums {
  bool scaled;     // the float d * (sum(q) + sum(second) / 254), which meets the minimum of a weight block
  int32_t factor;  // else the int32 factor * sum, which takes the offset of the weight's codes off again
};

template <class In>
CLIKA_INLINE float block_peak(const In* x) {
  vi peak = {};
  for (int i = 0; i < kBlockLanes; ++i) {
    // Magnitudes compare as integers, and NaN is the largest of them: it is not lost in the maximum.
    const vi magnitude = as_int(load(x + i * W)) & 0x7fffffff;
    peak = magnitude > peak ? magnitude : peak;
  }
  return float_of(static_cast<uint32_t>(max_lane(peak)));
}

// Sums of codes over the halves of a block.
template <int H>
CLIKA_INLINE void sum_halves(const vi (&whole)[kBlockLanes], int32_t (&sums)[H]) {
  for (int h = 0; h < H; ++h) {
    vi lanes = {};
    for (int i = h * kBlockLanes / H; i < (h + 1) * kBlockLanes / H; ++i) lanes += whole[i];
    sums[h] = sum_lanes(lanes);
  }
}

// One block, whose largest magnitude is amax: writes the codes, the scale and the sums; with `fine` second codes too.
template <int H, class In>
CLIKA_INLINE void quantize_block(const In* x, float amax, CodeSums sums, uint8_t* q, float* d, uint32_t (&s)[H],
                                 FineCodes<H>* fine) {
  const float scale = amax * (1.0f / 127.0f);
  *d = scale;
  if (!(amax >= 1e-33f && amax <= std::numeric_limits<float>::max())) {
    // Zero, or so small that the inverse overflows: codes of 0. Not finite: the scale makes the row NaN.
    std::memset(q, 0, kBlock);
    for (int h = 0; h < H; ++h) s[h] = sums.scaled ? bits_of(scale * 0.0f) : 0;
    if (fine) *fine = {};
    return;
  }
  const float inverse = 127.0f / amax;
  vi whole[kBlockLanes];
  for (int i = 0; i < kBlockLanes; ++i) {
    whole[i] = __builtin_convertvector(round_small(load(x + i * W) * inverse), vi);
  }
  store_codes(q, whole);
  int32_t first[H];
  sum_halves(whole, first);
  int32_t second[H] = {};
  if (fine) {
    for (int i = 0; i < kBlockLanes; ++i) {
      const vf left = fma(-to_floats(whole[i]), splat(scale), load(x + i * W));
      whole[i] = __builtin_convertvector(round_small(left * (kFineSteps * inverse)), vi);
    }
    store_codes(fine->q, whole);
    sum_halves(whole, second);
    for (int h = 0; h < H; ++h) fine->s[h] = static_cast<uint32_t>(sums.factor * second[h]);
  }
  for (int h = 0; h < H; ++h) {
    const float sum = static_cast<float>(first[h]) + static_cast<float>(second[h]) * (1.0f / kFineSteps);
    s[h] = sums.scaled ? bits_of(scale * sum) : static_cast<uint32_t>(sums.factor * first[h]);
  }
}

// Quantizes `count` rows of x, one after the other, into a tile: the layout is ActBlock<count, H>, written here with
// the count at run time.
template <int H, class In>
inline void quantize_tile(const In* x, int64_t columns, int64_t count, CodeSums sums, uint8_t* tile) {
  const int64_t blocks = columns / kBlock;
  const int64_t bytes = act_bytes(H, count);
  auto* second = reinterpret_cast<FineCodes<H>*>(tile + blocks * bytes);
  const auto numbers = [&](int64_t b, int64_t t) { return tile + b * bytes + count * kBlock + 4 * t; };
  for (int64_t b = 0; b < blocks; ++b) std::memset(numbers(b, count * (1 + H)), 0, 4);
  for (int64_t t = 0; t < count; ++t) {
    const In* row = x + t * columns;
    double squares = 0;
    for (int64_t b = 0; b < blocks; ++b) {
      const float amax = block_peak(row + b * kBlock);
      squares += static_cast<double>(amax) * static_cast<double>(amax);
      std::memcpy(numbers(b, t), &amax, 4);
    }
    const double bound = squares * (kFineShare / static_cast<double>(blocks));
    for (int64_t b = 0; b < blocks; ++b) {
      float d;
      std::memcpy(&d, numbers(b, t), 4);
      const bool refined = static_cast<double>(d) * static_cast<double>(d) > bound;
      uint32_t s[H];
      quantize_block<H>(row + b * kBlock, d, sums, tile + b * bytes + t * kBlock, &d, s,
                        refined ? second + b * count + t : nullptr);
      std::memcpy(numbers(b, t), &d, 4);
      for (int h = 0; h < H; ++h) std::memcpy(numbers(b, t + count * (1 + h)), &s[h], 4);
      if (refined) {
        uint32_t mask;
        std::memcpy(&mask, numbers(b, count * (1 + H)), 4);
        mask |= 1u << t;
        std::memcpy(numbers(b, count * (1 + H)), &mask, 4);
      }
    }
  }
}
