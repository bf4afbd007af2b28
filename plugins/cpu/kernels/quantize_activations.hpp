// Activations of 8 bits for the fast mode of linear; quantize_activations.cpp makes them. Included after level.hpp and
// blocks.hpp.
//
// Row by row in blocks of 32 columns: d = amax / 127 (float32), q = x / d to the nearest integer, ties to even. The
// error of a product is that of the blocks with the largest values, a few of each row: a block with amax over twice
// the root mean square of the row's amax is refined, it has second codes for what rounding has left, in steps of
// d / 254. So most of the error goes for a few percent of the work, and a row's codes depend on that row alone.
// Rows are gathered in tiles of T tokens; a tile is K / 32 ActBlock<T> one after the other, so that the multiplying
// loop walks through memory with one pointer, then the second codes, of which few are written and read, then room for
// the peaks of a row.
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
  return blocks * (act_bytes(H, tokens) + tokens * static_cast<int64_t>(sizeof(FineCodes<H>)) + 4);
}

}  // namespace
// What the sums of a token's codes are kept as.
struct CodeSums {
  bool scaled;     // the float d * (sum(q) + sum(second) / 254), which meets the minimum of a weight block
  int32_t factor;  // else the int32 factor * sum, which takes the offset of the weight's codes off again
};

// Quantizes `rows` rows of `columns`, one after the other, into a tile of ActBlock<count, H>; the rest of it is zero.
using QuantizeTile = void (*)(const void* x, int64_t columns, int64_t rows, int64_t count, CodeSums sums,
                              uint8_t* tile);
struct QuantizeTiles {
  QuantizeTile float32[2];  // by H - 1
  QuantizeTile bfloat16[2];
  QuantizeTile float16[2];
  QuantizeTile of(int32_t dtype, int halves) const {
    return (dtype == CLIKA_FLOAT32 ? float32 : dtype == CLIKA_BFLOAT16 ? bfloat16 : float16)[halves - 1];
  }
};
extern const QuantizeTiles quantize_tiles;
namespace {
