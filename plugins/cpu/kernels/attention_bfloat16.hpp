// The tiles of attention over pairs of bfloat16, which one instruction multiplies and adds to a float32 sum. Included after
// attention.hpp.
//
// A word, kept where a float would be, holds two neighbours: elements d and d + 1 of a query or key, the weights or values
// of positions j and j + 1. As in attention.hpp a number is one chain, pair by pair in ascending order, whatever tile it is in.
#pragma once

}  // namespace
struct PairTiles {
  // Rounds the first `n` floats of each row, a multiple of W, to bfloat16 in their place: they become n / 2 words.
  void (*narrow)(float* row, int64_t stride, int64_t rows, int64_t n);
  // words[e] = first[e] and second[e] for rows of `size` bfloat16, anywhere in memory; a null row stands for zeros. Up to
  // `width`, a multiple of W, the words are zero.
  void (*join)(const void* first, const void* second, int64_t size, int64_t width, float* words);
  // As `scores` and `add_values` of attention.hpp; `size` counts words, `begin` and `end` pairs of positions.
  void (*scores)(const float* query, int64_t stride, int64_t rows, const float* columns, int64_t size, int64_t n, float* out);
  void (*add_values)(const float* weights, int64_t rows, const float* values, int64_t begin, int64_t end, int64_t width,
                     float* sums, int64_t stride);
};
// None where the machine has no such instruction.
const PairTiles* pair_tiles();
namespace {
