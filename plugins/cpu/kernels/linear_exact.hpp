// The exact mode of linear: values in float32, products in float32. Included by linear.hpp.
#pragma once

// ------------------------------------------------------------------ exact: float32 values, float32 products
// A source gives fill(group, first, last, panel): the exact values of columns [first, last) of a group's
// rows, column by column. Four groups meet a tile of tokens at a time.
constexpr int64_t kExactTiles = 16;  // tiles that share decoded panels

// The exact products of one token with G groups, straight from a packed block column of each: in the order
// and with the bits of exact_kernels, without a panel.
template <class Format, int G, int... Is>
CLIKA_INLINE void multiply_column(const Format (&formats)[G], int part, const float* x, vf (&sums)[G],
                                  std::integer_sequence<int, Is...>) {
  constexpr int kWords = 8 / Format::kHalves;
  // Eight columns that are found at once are used at once, where there are registers for it.
  constexpr int kStep = kGivesWords<Format> && CLIKA_LEVEL >= 1 ? 2 : 1;
#pragma GCC unroll 2
  for (int h = 0; h < Format::kHalves; ++h) {
    const Exact<Format> exact[G] = {{formats[Is], part, h}...};
#pragma GCC unroll 8
    for (int j = h * kWords; j < (h + 1) * kWords; j += kStep) {
      if constexpr (kStep == 2) {
#pragma GCC unroll 4
        for (int g = 0; g < G; ++g) {
          const Words words = exact_words(formats[g], part, j);
#pragma GCC unroll 8
          for (int c = 0; c < 8; ++c) {
            const vf value = exact[g].value(c < 4 ? words.first : words.second, c % 4);
            sums[g] = fma(value, splat(x[4 * j + c]), sums[g]);
          }
        }
      } else {
        vu words[G];
        for (int g = 0; g < G; ++g) words[g] = one_exact_word(formats[g], part, j);
#pragma GCC unroll 4
        for (int c = 0; c < 4; ++c) {
          const vf s = splat(x[4 * j + c]);
          for (int g = 0; g < G; ++g) sums[g] = fma(exact[g].value(words[g], c), s, sums[g]);
        }
      }
    }
  }
}

// The tokens of a product as tiles of [K, T] of float32; null where memory could not be had.
inline const float* exact_tokens(const Linear& p) {
  constexpr int64_t T = kExactTokens;
  if (p.m == 1 && p.x_dtype == CLIKA_FLOAT32) return static_cast<const float*>(p.x);  // is one already
  float* copy =
      static_cast<float*>(p.call->core->scratch(p.call, static_cast<size_t>(std::max<int64_t>(64, 4 * p.m * p.k))));
  if (copy == nullptr) return nullptr;
  const int64_t tiles = group_count(p.m, T);
  with_input(p, [&](const auto* x) {
    const double cost = static_cast<double>(T * p.k);
    parallel(p.call, tiles, piece(p.call, tiles, cost), [&](int64_t begin, int64_t end, int32_t) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t count = std::min(T, p.m - i * T);
        float* tile = copy + i * T * p.k;
        for (int64_t t = 0; t < count; ++t) {
          const auto* row = x + (i * T + t) * p.k;
          int64_t k = 0;
          if (count == 1) {
            for (; k + W <= p.k; k += W) store(tile + k, load(row + k));
          }
          for (; k < p.k; ++k) tile[k * count + t] = to_float(row[k]);
        }
      }
    });
  });
  return copy;
}

template <class Source>
int32_t run_exact(const Linear& p, const Source& source) {
  constexpr int64_t T = kExactTokens;
  const int64_t tiles = group_count(p.m, T);
  const float* tokens = exact_tokens(p);
  if (tokens == nullptr) return CLIKA_UNAVAILABLE;

  const int64_t groups = group_count(p.n, kGroup);
  const int64_t strips = group_count(groups, kExactGroups);
  const int64_t runs = group_count(tiles, kExactTiles);
  const int64_t units = strips * runs;
  const double cost = static_cast<double>(kExactGroups * kGroup * p.k) *
                      (0.05 + static_cast<double>(std::min(p.m, kExactTiles * T)) / 32.0);
  if constexpr (Source::kHasSingle) {
    if (p.m == 1 && source.packed()) {
      parallel(p.call, strips, piece(p.call, strips, cost), [&](int64_t begin, int64_t end, int32_t) {
        for (int64_t u = begin; u < end; ++u) {
          const int64_t group = u * kExactGroups;
          const int64_t count = std::min<int64_t>(kExactGroups, groups - group);
          vf sums[kExactGroups];
          source.single(group, count, tokens, sums);
          for (int64_t g = 0; g < count; ++g) put(p, 0, group + g, with_bias(p, group + g, sums[g]));
        }
      });
      return CLIKA_OK;
    }
  }
  parallel(p.call, units, piece(p.call, units, cost), [&](int64_t begin, int64_t end, int32_t) {
    constexpr int64_t kPitch = kExactTiles * T * W;
    alignas(64) float panels[kExactGroups * kExactColumns * W];
    alignas(64) float sums[kExactGroups * kPitch];
    for (int64_t u = begin; u < end; ++u) {
      const int64_t group = (u / runs) * kExactGroups;
      const int64_t count = std::min<int64_t>(kExactGroups, groups - group);
      const int64_t first_tile = (u % runs) * kExactTiles;
      const int64_t last_tile = std::min(tiles, first_tile + kExactTiles);
      const int64_t first_token = first_tile * T;
      const int64_t last_token = std::min(p.m, last_tile * T);
      const size_t used = sizeof(float) * static_cast<size_t>((last_token - first_token) * W);
      for (int64_t g = 0; g < kExactGroups; ++g) std::memset(sums + g * kPitch, 0, used);
      // Groups past the last one are zeros; their sums are not written.
      if (count < kExactGroups) std::memset(panels, 0, sizeof(panels));
      for (int64_t k = 0; k < p.k; k += kExactColumns) {
        const int64_t columns = std::min(kExactColumns, p.k - k);
        for (int64_t g = 0; g < count; ++g) source.fill(group + g, k, k + columns, panels + g * kExactColumns * W);
        for (int64_t i = first_tile; i < last_tile; ++i) {
          float* to = sums + (i * T - first_token) * W;
          const int64_t size = std::min(T, p.m - i * T);
          exact_kernels.at[size - 1](panels, tokens + i * T * p.k + k * size, columns, count, to, kPitch);
        }
      }
      for (int64_t t = first_token; t < last_token; ++t) {
        const float* from = sums + (t - first_token) * W;
        for (int64_t g = 0; g < count; ++g) put(p, t, group + g, with_bias(p, group + g, load(from + g * kPitch)));
      }
    }
  });
  return CLIKA_OK;
}

// The exact values of a quantized weight, packed or published.
template <class Format>
struct QuantizedSource {
  using Block = typename Format::Block;
  static constexpr int64_t kColumns = Block::kColumns;
  static constexpr int64_t kBytes = kGroup * static_cast<int64_t>(sizeof(Block));
  static constexpr bool kHasSingle = true;
  const uint8_t* data;
  int64_t rows;
  int64_t blocks;
  bool published;

  bool packed() const { return !published; }

  void fill(int64_t group, int64_t first, int64_t last, float* panel) const {
    alignas(64) uint8_t repacked[std::max<int64_t>(1, kExactColumns / kColumns) * kBytes];
    const int64_t first_block = first / kColumns;
    const uint8_t* column = data + (group * blocks + first_block) * kBytes;
    if (published) {
      const int64_t stride = blocks * static_cast<int64_t>(sizeof(Block));
      const int64_t valid = std::min<int64_t>(kGroup, rows - group * kGroup);
      pack_group<kGroup, Block>(data + group * kGroup * stride, stride, valid, first_block,
                                (last + kColumns - 1) / kColumns, repacked);
      column = repacked;
    }
    for (int64_t k = first_block * kColumns; k < last; k += kColumns) {
      const Format format(column);
#pragma GCC unroll 1
      for (int part = 0; part < kParts<Format>; ++part) {
        const int64_t at = k + part * kBlock - first;
        if (at >= 0 && at < last - first) fill_part(format, part, panel + at * W);
      }
      column += kBytes;
    }
  }

  static CLIKA_INLINE void fill_part(const Format& format, int part, float* panel) {
    constexpr int kStep = kGivesWords<Format> ? 2 : 1;
#pragma GCC unroll 8
    for (int j = 0; j < 8; j += kStep) {
      const Exact<Format> exact(format, part, j * Format::kHalves / 8);
      const auto words = exact_words(format, part, j);
      for (int c = 0; c < 4; ++c) {
        if constexpr (kStep == 2) {
          store(panel + (4 * j + c) * W, exact.value(words.first, c));
          store(panel + (4 * j + 4 + c) * W, exact.value(words.second, c));
        } else {
          store(panel + (4 * j + c) * W, exact.value(words, c));
        }
      }
    }
  }

  // One token with up to four groups from `group` on.
  CLIKA_INLINE void single(int64_t group, int64_t count, const float* x, vf (&sums)[kExactGroups]) const {
    const uint8_t* column[kExactGroups];
    for (int64_t g = 0; g < kExactGroups; ++g) {
      column[g] = data + (group + std::min(g, count - 1)) * blocks * kBytes;
      sums[g] = zero();
    }
    for (int64_t b = 0; b < blocks; ++b) {
      const Format formats[kExactGroups] = {Format(column[0]), Format(column[1]), Format(column[2]),
                                            Format(column[3])};
#pragma GCC unroll 1
      for (int part = 0; part < kParts<Format>; ++part) {
        multiply_column(formats, part, x + b * kColumns + part * kBlock, sums,
                        std::make_integer_sequence<int, kExactGroups>{});
      }
      for (int64_t g = 0; g < kExactGroups; ++g) {
        for (int64_t i = 0; i < kBytes; i += 64) __builtin_prefetch(column[g] + 1024 + i);
        column[g] += kBytes;
      }
    }
  }
};

template <class Format>
int32_t multiply_exactly(const Linear& p) {
  const QuantizedSource<Format> source = {static_cast<const uint8_t*>(p.weight->data), p.n,
                                          p.k / Format::Block::kColumns, p.weight->layout == CLIKA_LAYOUT_PUBLISHED};
  return run_exact(p, source);
}
