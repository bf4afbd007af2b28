// The repacked form of a quantized weight. Included after level.hpp and blocks.hpp.
//
// Rows are taken in groups of G, the number of float lanes of the level; G is the layout's number. A group
// is its block columns one after the other; a block column holds one block of each of its G rows, as runs of
// units of 4, 2 or 1 bytes: unit j of row 0, unit j of row 1, ..., then unit j + 1 of row 0, ... So one
// register holds the same unit of G rows: a lane is a row. The size is that of the published form, with N
// rounded up to whole groups; rows past N are zero.
#pragma once

constexpr int kGroup = W;  // rows of a group, which is also the layout's number at this level

// Units of a block that lie together, from `offset` bytes on in the published block.
struct Run {
  int offset;
  int size;  // bytes of a unit
  int count;
};

// How a block is packed: its runs, in packed order, codes first. Together they are the whole block.
template <class Block>
struct Packing;
#define CLIKA_PACKING(name, ...)                  \
  template <>                                     \
  struct Packing<Block##name> {                   \
    static constexpr Run kRuns[] = {__VA_ARGS__}; \
  };
CLIKA_PACKING(Q4_0, {2, 4, 4}, {0, 2, 1})                                         // q, d
CLIKA_PACKING(Q4_1, {4, 4, 4}, {0, 2, 2})                                         // q, d and m
CLIKA_PACKING(Q5_0, {6, 4, 4}, {2, 4, 1}, {0, 2, 1})                              // q, h, d
CLIKA_PACKING(Q5_1, {8, 4, 4}, {4, 4, 1}, {0, 2, 2})                              // q, h, d and m
CLIKA_PACKING(Q8_0, {2, 4, 8}, {0, 2, 1})                                         // q, d
CLIKA_PACKING(Q2_K, {16, 4, 16}, {0, 4, 4}, {80, 2, 2})                           // q, scales, d and m
CLIKA_PACKING(Q3_K, {32, 4, 16}, {0, 4, 8}, {96, 4, 3}, {108, 2, 1})              // q, h, scales, d
CLIKA_PACKING(Q4_K, {16, 4, 32}, {4, 4, 3}, {0, 2, 2})                            // q, scales, d and m
CLIKA_PACKING(Q5_K, {48, 4, 32}, {16, 4, 8}, {4, 4, 3}, {0, 2, 2})                // q, h, scales, d and m
CLIKA_PACKING(Q6_K, {0, 4, 32}, {128, 4, 16}, {192, 4, 4}, {208, 2, 1})           // q, h, scales, d
CLIKA_PACKING(IQ4_NL, {2, 4, 4}, {0, 2, 1})                                       // q, d
CLIKA_PACKING(IQ4_XS, {8, 4, 32}, {4, 4, 1}, {2, 2, 1}, {0, 2, 1})                // q, scales_l, scales_h, d
CLIKA_PACKING(TQ1_0, {0, 4, 13}, {52, 2, 1})                                      // q and h, d
CLIKA_PACKING(TQ2_0, {0, 4, 16}, {64, 2, 1})                                      // q, d
CLIKA_PACKING(MXFP4, {1, 4, 4}, {0, 1, 1})                                        // q, e
CLIKA_PACKING(NVFP4, {4, 4, 8}, {0, 4, 1})                                        // q, scales
CLIKA_PACKING(IQ2_XXS, {2, 4, 16}, {0, 2, 1})                                     // q, d
CLIKA_PACKING(IQ2_XS, {2, 4, 16}, {66, 4, 2}, {0, 2, 1})                          // q, scales, d
CLIKA_PACKING(IQ2_S, {2, 4, 8}, {34, 4, 8}, {66, 4, 2}, {74, 4, 2}, {0, 2, 1})    // q, signs, h, scales, d
CLIKA_PACKING(IQ3_XXS, {2, 4, 16}, {66, 4, 8}, {0, 2, 1})                         // q, scales, d
CLIKA_PACKING(IQ3_S, {2, 4, 16}, {74, 4, 8}, {66, 4, 2}, {106, 4, 1}, {0, 2, 1})  // q, signs, h, scales, d
CLIKA_PACKING(IQ1_S, {2, 4, 8}, {34, 4, 4}, {0, 2, 1})                            // q, h, d
CLIKA_PACKING(IQ1_M, {0, 4, 8}, {32, 4, 4}, {48, 4, 2})                           // q, h, scales
CLIKA_PACKING(MXFP4_E8M0, {0, 4, 4}, {16, 1, 1})                                  // q, e
CLIKA_PACKING(NVFP4_E4M3, {8, 4, 8}, {4, 4, 1}, {0, 4, 1})                        // q, scales, d
CLIKA_PACKING(NF4, {4, 4, 8}, {0, 4, 1})                                          // q, d
CLIKA_PACKING(FP8_E4M3, {4, 4, 8}, {0, 4, 1})                                     // q, d
CLIKA_PACKING(FP8_E5M2, {4, 4, 8}, {0, 4, 1})                                     // q, d
CLIKA_PACKING(INT4_G32, {8, 4, 4}, {0, 4, 2})                                     // q, d and m
CLIKA_PACKING(INT4_G128, {8, 4, 16}, {0, 4, 2})                                   // q, d and m
CLIKA_PACKING(INT8_G32, {4, 4, 8}, {0, 4, 1})                                     // q, d
#undef CLIKA_PACKING

// Whether the runs of a block add up to it.
template <class Block>
constexpr bool packs_whole() {
  int bytes = 0;
  for (const Run& run : Packing<Block>::kRuns) bytes += run.size * run.count;
  return bytes == static_cast<int>(sizeof(Block));
}
#define CLIKA_X(name, number, columns, bytes) \
  static_assert(packs_whole<Block##name>(), "the runs are the whole block");
CLIKA_SCHEMES(CLIKA_X)
#undef CLIKA_X

inline int64_t group_count(int64_t rows, int64_t group) { return (rows + group - 1) / group; }

// Copies the units of four rows: `count` units of 4 bytes each, unit j of row r to out + 4 * (j * G + r).
template <int G>
CLIKA_INLINE void interleave_four(const uint8_t* const (&rows)[4], int count, uint8_t* out) {
  int j = 0;
#if CLIKA_X86
  for (; j + 4 <= count; j += 4) {
    __m128i x[4];
    for (int r = 0; r < 4; ++r) x[r] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[r] + 4 * j));
    const __m128i a = _mm_unpacklo_epi32(x[0], x[1]);
    const __m128i b = _mm_unpacklo_epi32(x[2], x[3]);
    const __m128i c = _mm_unpackhi_epi32(x[0], x[1]);
    const __m128i d = _mm_unpackhi_epi32(x[2], x[3]);
    __m128i* to = reinterpret_cast<__m128i*>(out + 4 * j * G);
    _mm_storeu_si128(to, _mm_unpacklo_epi64(a, b));
    _mm_storeu_si128(to + G / 4, _mm_unpackhi_epi64(a, b));
    _mm_storeu_si128(to + 2 * (G / 4), _mm_unpacklo_epi64(c, d));
    _mm_storeu_si128(to + 3 * (G / 4), _mm_unpackhi_epi64(c, d));
  }
#endif
  for (; j < count; ++j) {
    for (int r = 0; r < 4; ++r) std::memcpy(out + 4 * (j * G + r), rows[r] + 4 * j, 4);
  }
}

// Packs block columns [first, last) of `rows` <= G rows into `out` (the start of column `first`). `source` is
// the group's first row, `stride` the bytes of a row.
template <int G, class Block>
inline void pack_group(const uint8_t* source, int64_t stride, int64_t rows, int64_t first, int64_t last,
                       uint8_t* out) {
  static const Block kZero = {};
  for (int64_t b = first; b < last; ++b) {
    const uint8_t* block[G];
    for (int r = 0; r < G; ++r) {
      block[r] = r < rows ? source + r * stride + b * static_cast<int64_t>(sizeof(Block))
                          : reinterpret_cast<const uint8_t*>(&kZero);
    }
    for (const Run& run : Packing<Block>::kRuns) {
      if (run.size == 4) {
        for (int r = 0; r < G; r += 4) {
          const uint8_t* const units[4] = {block[r] + run.offset, block[r + 1] + run.offset,
                                           block[r + 2] + run.offset, block[r + 3] + run.offset};
          interleave_four<G>(units, run.count, out + 4 * r);
        }
      } else {
        for (int j = 0; j < run.count; ++j) {
          for (int r = 0; r < G; ++r) {
            std::memcpy(out + run.size * (j * G + r), block[r] + run.offset + run.size * j, run.size);
          }
        }
      }
      out += G * run.size * run.count;
    }
  }
}

// One published block of a packed weight: the inverse of pack_group.
template <class Block>
inline Block unpack_block(const uint8_t* packed, int64_t group, int64_t blocks, int64_t row, int64_t b) {
  const int64_t r = row % group;
  const uint8_t* in = packed + ((row / group) * blocks + b) * group * static_cast<int64_t>(sizeof(Block));
  Block block;
  uint8_t* out = reinterpret_cast<uint8_t*>(&block);
  for (const Run& run : Packing<Block>::kRuns) {
    for (int j = 0; j < run.count; ++j) {
      std::memcpy(out + run.offset + run.size * j, in + run.size * (j * group + r), run.size);
    }
    in += group * run.size * run.count;
  }
  return block;
}

// Decodes one row of a quantized weight, published or packed, into `out`: exact values, rounded once to T.
template <class T>
inline void decode_row(const clika_value& weight, int64_t row, T* out) {
  with_block(weight.scheme, [&](auto* tag) {
    using Block = std::remove_pointer_t<decltype(tag)>;
    const int64_t blocks = weight.shape[weight.rank - 1] / Block::kColumns;
    const uint8_t* data = static_cast<const uint8_t*>(weight.data);
    alignas(64) float values[Block::kColumns];
    for (int64_t b = 0; b < blocks; ++b) {
      if (weight.layout == CLIKA_LAYOUT_PUBLISHED) {
        Block block;
        std::memcpy(&block, data + (row * blocks + b) * static_cast<int64_t>(sizeof(Block)), sizeof(Block));
        decode(block, values);
      } else {
        decode(unpack_block<Block>(data, weight.layout, blocks, row, b), values);
      }
      for (int i = 0; i < Block::kColumns; i += W) store(out + i, load(values + i));
      out += Block::kColumns;
    }
  });
}

// Records an error with the text of a printf format and returns its status.
__attribute__((format(printf, 3, 4))) inline int32_t refuse(const clika_call* call, int32_t status,
                                                            const char* format, ...) {
  char text[256];
  std::va_list values;
  va_start(values, format);
  std::vsnprintf(text, sizeof(text), format, values);
  va_end(values);
  const char* code = status == CLIKA_UNSUPPORTED ? "NOT_IMPLEMENTED_FOR_PARAM" : "INVALID_ARGUMENT";
  return fail(call, status, code, text);
}

// Bytes of the blocks of a weight in groups of `group` rows.
inline int64_t weight_bytes(const clika_value& weight, int64_t group) {
  const clika_block block = clika_block_of(weight.scheme);
  const int64_t columns = weight.shape[weight.rank - 1];
  if (columns == 0) return 0;
  return group_count(elements(weight) / columns, group) * group * (columns / block.columns) * block.bytes;
}

// Checks a quantized weight [rows, columns] before a kernel reads it; CLIKA_OK or the recorded error.
// With `any_rank` a published one may have other dimensions before its columns.
inline int32_t check_weight(const clika_call* call, const clika_value& weight, const char* operation,
                            bool any_rank = false) {
  const int32_t layout = weight.layout;
  const bool published = layout == CLIKA_LAYOUT_PUBLISHED;
  if (any_rank && published ? weight.rank < 1 : weight.rank != 2) {
    return refuse(call, CLIKA_INVALID_ARGUMENT, "%s: the weight must be [rows, columns], got %d dimensions",
                  operation, static_cast<int>(weight.rank));
  }
  const int block_columns = clika_block_of(weight.scheme).columns;
  const int64_t columns = weight.shape[weight.rank - 1];
  if (block_columns == 0 || columns % block_columns != 0) {
    return refuse(call, CLIKA_UNSUPPORTED,
                  "%s: a weight of scheme %d needs a multiple of %d columns, got %" PRId64
                  "; dequantize it first",
                  operation, static_cast<int>(weight.scheme), block_columns, columns);
  }
  if (!published && layout != 4 && layout != 8 && layout != 16) {
    return refuse(call, CLIKA_UNSUPPORTED, "%s: the weight has layout %d, which this backend did not make",
                  operation, static_cast<int>(layout));
  }
  const int64_t needed = weight_bytes(weight, published ? 1 : layout);
  if (weight.nbytes < needed) {
    return refuse(call, CLIKA_INVALID_ARGUMENT,
                  "%s: a weight of %" PRId64 " columns needs %" PRId64 " bytes, its payload has %" PRId64,
                  operation, columns, needed, weight.nbytes);
  }
  return CLIKA_OK;
}
