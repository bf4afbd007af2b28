// What the kernels of `linear` share: reading the call, splitting the work, the loops of the modes. Included after
// level.hpp, blocks.hpp, pack.hpp, linear_lanes.hpp and quantize_activations.hpp.
//
// output[t, n] = sum over k of input[t, k] * weight[n, k] + bias[n]. A lane is an output row n, k ascends,
// and the sum is one float32: the bits of output[t, n] depend on input[t], weight[n] and bias[n] alone.
// Tiles of tokens, strips of rows and threads only choose which sums run side by side.
#pragma once

}  // namespace
#include "panels.hpp"
namespace {

struct Linear {
  const clika_call* call;
  const clika_value* weight;
  const void* x;
  void* out;
  const float* bias;  // padded to whole groups, or null
  int32_t x_dtype;
  int32_t out_dtype;
  int64_t m;  // tokens
  int64_t n;  // rows of the weight
  int64_t k;  // columns of the weight
};

inline float element_at(const void* data, int32_t dtype, int64_t i) {
  if (dtype == CLIKA_FLOAT32) return static_cast<const float*>(data)[i];
  if (dtype == CLIKA_BFLOAT16) return to_float(static_cast<const bf16*>(data)[i]);
  return to_float(static_cast<const f16*>(data)[i]);
}

// Calls body with a typed pointer to the input.
template <class Body>
CLIKA_INLINE void with_input(const Linear& p, const Body& body) {
  if (p.x_dtype == CLIKA_FLOAT32) {
    body(static_cast<const float*>(p.x));
  } else if (p.x_dtype == CLIKA_BFLOAT16) {
    body(static_cast<const bf16*>(p.x));
  } else {
    body(static_cast<const f16*>(p.x));
  }
}

// Calls body with std::integral_constant<int, n> for the power of two n <= Most that holds `tokens`.
template <int Most, class Body>
CLIKA_INLINE void with_tile(int64_t tokens, const Body& body) {
  if constexpr (Most > 1) {
    if (tokens <= Most / 2) return with_tile<Most / 2>(tokens, body);
  }
  body(std::integral_constant<int, Most>{});
}

// Fills `p` from the call; CLIKA_OK or the recorded error. `*empty` says that there is nothing left to do.
inline int32_t read_call(const clika_call* call, Linear* p, bool* empty) {
  const clika_value& x = call->inputs[0];
  const clika_value& weight = call->inputs[1];
  if (weight.scheme != CLIKA_DENSE) {
    const int32_t status = check_weight(call, weight, "linear");
    if (status != CLIKA_OK) return status;
  } else if (weight.rank != 2) {
    return refuse(call, CLIKA_INVALID_ARGUMENT,
                  "linear: the weight must be [rows, columns], got %d dimensions",
                  static_cast<int>(weight.rank));
  }
  p->call = call;
  p->weight = &weight;
  p->n = weight.shape[0];
  p->k = weight.shape[1];
  if (x.rank < 1 || x.shape[x.rank - 1] != p->k) {
    return refuse(call, CLIKA_INVALID_ARGUMENT,
                  "linear: the input's last size must be the weight's columns, got %" PRId64 " and %" PRId64,
                  x.rank < 1 ? int64_t{0} : x.shape[x.rank - 1], p->k);
  }
  p->m = 1;
  for (int32_t i = 0; i + 1 < x.rank; ++i) p->m *= x.shape[i];
  p->x = x.data;
  p->x_dtype = x.dtype;
  p->out = call->outputs[0].data;
  p->out_dtype = call->outputs[0].dtype;
  p->bias = nullptr;
  *empty = p->m == 0 || p->n == 0;
  if (present(call, 2)) {
    const clika_value& bias = call->inputs[2];
    if (bias.rank != 1 || bias.shape[0] != p->n) {
      return refuse(call, CLIKA_INVALID_ARGUMENT,
                    "linear: the bias must have the weight's %" PRId64 " rows, got %d dimensions of %" PRId64,
                    p->n, static_cast<int>(bias.rank), bias.rank < 1 ? int64_t{0} : bias.shape[0]);
    }
    if (*empty) return CLIKA_OK;
    const int64_t padded = group_count(p->n, kGroup) * kGroup;
    float* copy = static_cast<float*>(call->core->scratch(call, sizeof(float) * static_cast<size_t>(padded)));
    if (!copy) return CLIKA_UNAVAILABLE;
    for (int64_t i = 0; i < padded; ++i) copy[i] = i < p->n ? element_at(bias.data, bias.dtype, i) : 0.0f;
    p->bias = copy;
  }
  return CLIKA_OK;
}

// Writes the sums of one token for the rows of one group.
CLIKA_INLINE void put(const Linear& p, int64_t token, int64_t group, vf sum) {
  const int64_t row = group * kGroup;
  const int64_t at = token * p.n + row;
  const int64_t rows = p.n - row;
  if (p.bias) sum += load(p.bias + row);
  const auto write = [&](auto* out) {
    if (rows >= W) {
      store(out + at, sum);
    } else {
      store_partial(out + at, sum, rows);
    }
  };
  if (p.out_dtype == CLIKA_FLOAT32) {
    write(static_cast<float*>(p.out));
  } else if (p.out_dtype == CLIKA_BFLOAT16) {
    write(static_cast<bf16*>(p.out));
  } else {
    write(static_cast<f16*>(p.out));
  }
}

// The smallest piece worth a thread, out of `units` of `cost` nanoseconds each: a few times what waking a
// worker takes. Work for two pieces or more is split evenly: one run of memory for each thread. Work that takes long
// is split finer, so that a thread that is held up by something else leaves its rest to the others.
inline int64_t piece(const clika_call* call, int64_t units, double cost) {
  constexpr double kWorthwhile = 3000.0;
  constexpr double kLong = 400000.0;  // for a thread
  const double total = cost * static_cast<double>(units);
  const int64_t threads = std::max<int64_t>(1, call->core->num_threads());
  int64_t pieces = static_cast<int64_t>(total / kWorthwhile);
  if (pieces <= 1 || threads == 1) return units;
  if (total >= kLong * static_cast<double>(threads)) {
    pieces = 4 * threads;
  } else if (pieces > threads) {
    pieces = threads;
  }
  return (units + pieces - 1) / pieces;
}

// ------------------------------------------------------------------ formats of packed weights
// A format is constructed from one packed block column of a group (a block of each of its W rows, see
// pack.hpp) and gives its values in parts of 32 columns, a row to a lane:
//
//   Block                 the published block; a block has kColumns columns
//   kCodes                what codes() gives, see Codes; with kFloats a format has number(words, c), the float
//                         of byte c of every lane, and the fast mode is the exact one
//   kHalves               1: a part has one scale; 2: each of its halves of 16 columns has its own
//   kOffset, kMinimum     value = scale * (code - kOffset), or scale * code + minimum
//   codes(part, j)        columns 4 j .. 4 j + 3 of the part, j in 0 .. 7; a format that finds eight columns
//                         at once gives Words, those of j and of j + 1, for even j
//   scale(part, half)     and minimum(part, half) where kMinimum
//   kNumbers[8]           only where codes are few: code - kOffset by code, or by the bytes of
//                         indices(part, j) where a format has that beside codes()
//   kLongScale            true where (128 + kOffset) * scale may be infinite or rounded, see Exact
//
// `half` and `j` are constants once the loops below are unrolled. `part` is not: code for eight parts is slow
// to compile and to fetch. The exact mode multiplies and adds these numbers in float32: it gives the published
// value to the bit, as scale * code is exact.

template <class Format>
constexpr int kParts = Format::Block::kColumns / kBlock;

// What a format may say.
template <class Format, class = void>
constexpr bool kHasNumbers = false;
template <class Format>
constexpr bool kHasNumbers<Format, std::void_t<decltype(Format::kNumbers[0])>> = true;
template <class Format, class = void>
constexpr bool kHasIndices = false;
template <class Format>
constexpr bool kHasIndices<Format, std::void_t<decltype(&Format::indices)>> = true;
template <class Format, class = void>
constexpr bool kHasLongScale = false;
template <class Format>
constexpr bool kHasLongScale<Format, std::void_t<decltype(Format::kLongScale)>> = Format::kLongScale;

struct Words {
  vu first;
  vu second;
};
// Words j and j + 1 of a part.
template <class Format>
CLIKA_INLINE Words two_words(const Format& format, int part, int j) {
  if constexpr (std::is_same_v<decltype(format.codes(part, j)), Words>) {
    return format.codes(part, j);
  } else {
    return {format.codes(part, j), format.codes(part, j + 1)};
  }
}
template <class Format>
constexpr bool kGivesWords = std::is_same_v<decltype(std::declval<const Format&>().codes(0, 0)), Words>;

template <class Format>
CLIKA_INLINE vf minimum_of(const Format& format, int part, int half) {
  if constexpr (Format::kMinimum) return format.minimum(part, half);
  return zero();
}

// The exact values of the half of a part: factor * number(words, c) + term, rounded once, for the words that
// exact_words gives.
template <class Format>
struct Exact {
#if CLIKA_X86 && CLIKA_LEVEL >= 1
  static constexpr bool kByTable = kHasNumbers<Format>;
  // 128 scale (1 + code / 128) - (128 + kOffset) scale: both products are exact.
  static constexpr bool kByFraction = !kByTable && Format::kOffset != 0 && !kHasLongScale<Format>;
#else
  static constexpr bool kByTable = false;
  static constexpr bool kByFraction = false;
#endif
  vf factor;
  vf term;

  CLIKA_INLINE Exact(const Format& format, int part, int half)
      : factor(format.scale(part, half)), term(minimum_of(format, part, half)) {
    if constexpr (kByFraction) {
      term = factor * -(128.0f + Format::kOffset);
      factor = factor * 128.0f;
    }
  }
  // Byte c of a word.
  CLIKA_INLINE vf value(vu words, int c) const {
    if constexpr (Format::kMinimum || kByFraction) return fma(factor, number(words, c), term);
    return factor * number(words, c);
  }
  static CLIKA_INLINE vf number(vu words, int c) {
#if CLIKA_X86 && CLIKA_LEVEL >= 1
    if constexpr (kByTable) return number_of(Format::kNumbers, words, c);
    if constexpr (kByFraction) return fraction(words, c);
#endif
    if constexpr (Format::kCodes == Codes::kFloats) {
      return Format::number(words, c);
    } else {
      const vi code = Format::kCodes == Codes::kSigned ? signed_byte(words, c) : unsigned_byte(words, c);
      return to_floats(Format::kOffset == 0 ? code : code - Format::kOffset);
    }
  }
};
template <class Format>
CLIKA_INLINE auto exact_words(const Format& format, int part, int j) {
  if constexpr (Exact<Format>::kByTable && kHasIndices<Format>) {
    return format.indices(part, j);
  } else {
    return format.codes(part, j);
  }
}
template <class Format>
CLIKA_INLINE vu one_exact_word(const Format& format, int part, int j) {
  if constexpr (kGivesWords<Format>) {
    const Words words = exact_words(format, part, j & ~1);
    return j % 2 == 0 ? words.first : words.second;
  } else {
    return exact_words(format, part, j);
  }
}

// ------------------------------------------------------------------ integer dots over quantized activations
// A few tokens meet the packed weight itself; many meet panels of 256 columns of a group, unpacked once: the same codes,
// scales and minima, so the same bits.
constexpr int kDirectTokens = CLIKA_X86 && CLIKA_LEVEL == 2 ? 8 : 4;
constexpr int kPanelColumns = 256;

// What sums of activations are for, see CodeSums.
template <class Format>
constexpr CodeSums kSums = {Format::kMinimum,
                            Format::kMinimum ? 0
                                             : -(Format::kOffset + Products<Format::kCodes>::kSignedOffset)};

// sum with the integer products of token t and half h of a part. They are below 2^24, so the float is exact.
template <class Format, int T, int H>
CLIKA_INLINE vf add_products(const Format&, const ActBlock<T, H>& a, int h, int t, vi total, vf scale, vf minimum,
                             vf sum) {
  if constexpr (!Format::kMinimum) total += splat_int(static_cast<int32_t>(a.s[h][t]));
  sum = fma(to_floats(total), scale * splat(a.d[t]), sum);
  if constexpr (Format::kMinimum) sum = fma(minimum, splat(float_of(a.s[h][t])), sum);
  return sum;
}

// sum with the products of a refined token's second codes, whose first ones have the scale d.
template <class Format, int H>
CLIKA_INLINE vf add_fine(const Format& format, int part, const FineCodes<H>& fine, float d, vf sum) {
  constexpr int kWords = 8 / H;
#pragma GCC unroll 2
  for (int h = 0; h < H; ++h) {
    TileProducts<Format::kCodes, 1> products;
#pragma GCC unroll 4
    for (int j = h * kWords; j < (h + 1) * kWords; j += 2) {
      const Words words = two_words(format, part, j);
      products.add(words.first, words.second, reinterpret_cast<const uint8_t(&)[1][kBlock]>(fine.q), j);
    }
    vi total = products.total(0);
    if constexpr (!Format::kMinimum) total += splat_int(static_cast<int32_t>(fine.s[h]));
    sum = fma(to_floats(total), format.scale(part, h) * splat(d * (1.0f / kFineSteps)), sum);
  }
  return sum;
}

// Adds the products of T tokens with one part to sums.
template <class Format, int T, int H>
CLIKA_INLINE void multiply_part(const Format& format, int part, const ActBlock<T, H>& a, vf (&sums)[T]) {
  constexpr int kWords = 8 / H;
#pragma GCC unroll 2
  for (int h = 0; h < H; ++h) {
    TileProducts<Format::kCodes, T> products;
#pragma GCC unroll 4
    for (int j = h * kWords; j < (h + 1) * kWords; j += 2) {
      const Words words = two_words(format, part, j);
      products.add(words.first, words.second, a.q, j);
    }
    const vf scale = format.scale(part, h);
    const vf minimum = minimum_of(format, part, h);
    for (int t = 0; t < T; ++t) {
      sums[t] = add_products(format, a, h, t, products.total(t), scale, minimum, sums[t]);
    }
  }
}

// Adds the products of the second codes of a panel's columns to sums, which lie in memory here: it is rare.
template <class Format, int T, int H>
CLIKA_NOINLINE void add_all_fine(const uint8_t* weight, int64_t blocks, const ActBlock<T, H>* a,
                                 const FineCodes<H>* fine, vf* sums) {
  constexpr int64_t kBytes = kGroup * static_cast<int64_t>(sizeof(typename Format::Block));
  for (int64_t b = 0; b < blocks; ++b) {
    for (int part = 0; part < kParts<Format>; ++part, ++a, fine += T) {
      for (uint32_t left = a->refined; left != 0; left &= left - 1) {
        const int t = __builtin_ctz(left);
        sums[t] = add_fine(Format(weight + b * kBytes), part, fine[t], a->d[t], sums[t]);
      }
    }
  }
}

// The sums of T tokens and the rows of one group over all columns: panel by panel the first codes, then the second.
template <class Format, int T>
CLIKA_INLINE void multiply_tile(const uint8_t* weight, const uint8_t* tile, int64_t blocks, vf (&sums)[T]) {
  constexpr int64_t kBytes = kGroup * static_cast<int64_t>(sizeof(typename Format::Block));
  constexpr int64_t kBlocks = kPanelColumns / Format::Block::kColumns;
  const auto* a = reinterpret_cast<const ActBlock<T, Format::kHalves>*>(tile);
  const auto* fine = reinterpret_cast<const FineCodes<Format::kHalves>*>(a + blocks * kParts<Format>);
  for (int t = 0; t < T; ++t) sums[t] = zero();
  for (int64_t first = 0; first < blocks; first += kBlocks) {
    const int64_t count = std::min(kBlocks, blocks - first);
    uint32_t refined = 0;
    for (int64_t b = 0; b < count; ++b) {
      const Format format(weight + b * kBytes);
      constexpr int64_t kShare = kBytes / kParts<Format>;
#pragma GCC unroll 1
      for (int part = 0; part < kParts<Format>; ++part) {
        // Ask for what comes a page later, a part at a time: few tokens are bound by memory, and the page walk is done
        // early too; many requests at once stand in each other's way.
        const uint8_t* later = weight + b * kBytes + 4096 + part * kShare;
        for (int64_t i = 0; i < kShare; i += 64) __builtin_prefetch(later + i);
        multiply_part(format, part, a[b * kParts<Format> + part], sums);
        refined |= a[b * kParts<Format> + part].refined;
      }
    }
    if (refined != 0) {
      vf kept[T];
      for (int t = 0; t < T; ++t) kept[t] = sums[t];
      add_all_fine<Format>(weight, count, a, fine, kept);
      for (int t = 0; t < T; ++t) sums[t] = kept[t];
    }
    weight += count * kBytes;
    a += count * kParts<Format>;
    fine += count * kParts<Format> * T;
  }
}

// ---- panels
// What the panels of a format hold: codes as the instructions of the level want them.
template <Codes kCodes>
constexpr Codes kPanelCodes =
#if CLIKA_LEVEL == 0 || (CLIKA_X86 && CLIKA_LEVEL == 1)
    kCodes;
#else
    Codes::kUnsigned;  // one instruction for all of them
#endif

// A part of a panel, as a format: 8 words of W lanes, H scales, H minima where there are any.
template <Codes kPartCodes, int H, bool kHasMinimum>
struct PanelPart {
  static constexpr Codes kCodes = kPartCodes;
  static constexpr bool kMinimum = kHasMinimum;
  static constexpr int64_t kBytes = 4 * W * (8 + H * (kHasMinimum ? 2 : 1));
  const uint8_t* at;

  CLIKA_INLINE vu codes(int, int j) const { return load_words(at + 4 * W * j); }
  CLIKA_INLINE vf scale(int, int half) const {
    return load(reinterpret_cast<const float*>(at + 4 * W * (8 + half)));
  }
  CLIKA_INLINE vf minimum(int, int half) const {
    return load(reinterpret_cast<const float*>(at + 4 * W * (8 + H + half)));
  }
};
template <class Format>
using PartOf = PanelPart<kPanelCodes<Format::kCodes>, Format::kHalves, Format::kMinimum>;

// Unpacks `count` block columns of a packed group.
template <class Format>
inline void fill_panel(const uint8_t* column, int64_t count, uint8_t* panel) {
  using Part = PartOf<Format>;
  constexpr int64_t kBytes = kGroup * static_cast<int64_t>(sizeof(typename Format::Block));
  const auto put = [&](int j, vu words) {
    if constexpr (Part::kCodes != Format::kCodes) words = Products<Format::kCodes>::prepare(words);
    std::memcpy(panel + 4 * W * j, &words, sizeof(words));
  };
  for (int64_t b = 0; b < count; ++b) {
    const Format format(column + b * kBytes);
#pragma GCC unroll 1
    for (int part = 0; part < kParts<Format>; ++part) {
#pragma GCC unroll 4
      for (int j = 0; j < 8; j += 2) {
        const Words words = two_words(format, part, j);
        put(j, words.first);
        put(j + 1, words.second);
      }
      float* numbers = reinterpret_cast<float*>(panel + 4 * W * 8);
#pragma GCC unroll 2
      for (int h = 0; h < Format::kHalves; ++h) {
        store(numbers + h * W, format.scale(part, h));
        if constexpr (Format::kMinimum) {
          store(numbers + (Format::kHalves + h) * W, format.minimum(part, h));
        }
      }
      panel += Part::kBytes;
    }
  }
}

// A weight as the integer modes see it: groups of rows, published ones repacked where they are read.
template <class Format>
struct PackedWeight {
  using Block = typename Format::Block;
  static constexpr int64_t kBytes = kGroup * static_cast<int64_t>(sizeof(Block));
  const uint8_t* data;
  int64_t rows;
  int64_t blocks;
  bool published;

  explicit PackedWeight(const Linear& p)
      : data(static_cast<const uint8_t*>(p.weight->data)),
        rows(p.n),
        blocks(p.k / Block::kColumns),
        published(p.weight->layout == CLIKA_LAYOUT_PUBLISHED) {}
  int64_t group_bytes() const { return blocks * kBytes; }
  // Block columns [first, last) of a group, the first of them at the pointer; `room` is where a published one is
  // repacked.
  const uint8_t* columns(int64_t group, int64_t first, int64_t last, uint8_t* room) const {
    if (!published) return data + (group * blocks + first) * kBytes;
    const int64_t stride = blocks * static_cast<int64_t>(sizeof(Block));
    pack_group<kGroup, Block>(data + group * kGroup * stride, stride,
                              std::min<int64_t>(kGroup, rows - group * kGroup), first, last, room);
    return room;
  }
};

inline uint8_t* scratch_bytes(const Linear& p, int64_t bytes) {
  return static_cast<uint8_t*>(
      p.call->core->scratch(p.call, static_cast<size_t>(std::max<int64_t>(64, bytes))));
}

// All tokens, quantized in tiles of `most`, the last of which is filled up where `even`; null where scratch could not
// be had.
template <class Format>
uint8_t* quantize_tokens(const Linear& p, int64_t most, bool even) {
  constexpr int kHalves = Format::kHalves;
  const int64_t tiles = (p.m + most - 1) / most;
  const int64_t bytes = tile_bytes<kHalves>(p.k / kBlock, most);
  uint8_t* tokens = scratch_bytes(p, tiles * bytes);
  if (!tokens) return nullptr;
  const QuantizeTile quantize = quantize_tiles.of(p.x_dtype, kHalves);
  const int64_t row = p.k * (p.x_dtype == CLIKA_FLOAT32 ? 4 : 2);
  const double cost = 0.3 * static_cast<double>(most * p.k);
  parallel(p.call, tiles, piece(p.call, tiles, cost), [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t rows = std::min(most, p.m - i * most);
      quantize(static_cast<const uint8_t*>(p.x) + i * most * row, p.k, rows, even ? most : rows, kSums<Format>,
               tokens + i * bytes);
    }
  });
  return tokens;
}

template <class Format>
int32_t run_direct(const Linear& p) {
  const PackedWeight<Format> weight(p);
  const int64_t threads = std::max<int64_t>(1, p.call->core->num_threads());
  uint8_t* room = weight.published ? scratch_bytes(p, threads * weight.group_bytes()) : nullptr;
  if (weight.published && !room) return CLIKA_UNAVAILABLE;
  const int64_t groups = group_count(p.n, kGroup);
  // Nanoseconds: at 16 bytes each when one token streams the weights, at 128 operations each otherwise.
  const double cost = std::max(static_cast<double>(weight.group_bytes()) / 16.0,
                               static_cast<double>(kGroup * p.k * 2 * p.m) / 128.0);
  int32_t status = CLIKA_OK;
  with_tile<kDirectTokens>(p.m, [&](auto size) {
    const uint8_t* tokens = quantize_tokens<Format>(p, size(), true);
    if (!tokens) {
      status = CLIKA_UNAVAILABLE;
      return;
    }
    parallel(p.call, groups, piece(p.call, groups, cost), [&](int64_t begin, int64_t end, int32_t worker) {
      for (int64_t g = begin; g < end; ++g) {
        vf sums[size()];
        const uint8_t* data = weight.columns(g, 0, weight.blocks, room + worker * weight.group_bytes());
        multiply_tile<Format, size()>(data, tokens, weight.blocks, sums);
        for (int t = 0; t < size() && t < p.m; ++t) put(p, t, g, sums[t]);
      }
    });
  });
  return status;
}

template <class Format>
int32_t run_panels(const Linear& p) {
  const int64_t T = panel_kernels.tokens;
  const int64_t G = panel_kernels.groups;
  constexpr int64_t kBlocks = kPanelColumns / Format::Block::kColumns;
  constexpr int64_t kRoom = kBlocks * PackedWeight<Format>::kBytes;
  constexpr int64_t kPanels = kMostPanelGroups * kPanelColumns / kBlock * PartOf<Format>::kBytes;
  const PackedWeight<Format> weight(p);
  const uint8_t* tokens = quantize_tokens<Format>(p, T, false);
  if (!tokens) return CLIKA_UNAVAILABLE;
  const int64_t act_blocks = p.k / kBlock;
  const int64_t bytes = tile_bytes<Format::kHalves>(act_blocks, T);
  const PanelKernel* kernels =
      panel_kernels.at[static_cast<int>(PartOf<Format>::kCodes)][Format::kHalves - 1][Format::kMinimum];

  // A unit is a strip of groups times a run of tiles: their sums, and the tokens' part that meets a panel, stay in
  // the second-level cache.
  constexpr int64_t kStrip = 8;
  const int64_t tiles = (p.m + T - 1) / T;
  const int64_t groups = group_count(p.n, kGroup);
  const int64_t threads = std::max<int64_t>(1, p.call->core->num_threads());
  const int64_t wanted = threads > 1 ? 4 * threads : 1;
  const int64_t strip = std::max(G, std::min(kStrip, groups / wanted / G * G));
  const int64_t strips = group_count(groups, strip);
  int64_t run = std::min(256 / T, tiles);
  if (strips < wanted) run = std::max<int64_t>(1, std::min(run, tiles * strips / wanted));
  const int64_t runs = group_count(tiles, run);
  const int64_t sums_bytes = strip * run * T * W * static_cast<int64_t>(sizeof(float));
  const int64_t worker_bytes = (sums_bytes + kPanels + (weight.published ? kRoom : 0) + 63) / 64 * 64;
  uint8_t* memory = scratch_bytes(p, threads * worker_bytes);
  if (!memory) return CLIKA_UNAVAILABLE;
  const double cost = static_cast<double>(strip * kGroup * p.k * 2) *
                      static_cast<double>(std::min(p.m, run * T)) / 128.0;
  const int64_t units = strips * runs;
  parallel(p.call, units, piece(p.call, units, cost), [&](int64_t begin, int64_t end, int32_t worker) {
    uint8_t* own = memory + worker * worker_bytes;
    float* sums = reinterpret_cast<float*>(own);
    uint8_t* panels = own + sums_bytes;
    const int64_t pitch = run * T * W;  // from group to group
    for (int64_t u = begin; u < end; ++u) {
      const int64_t first_group = u / runs * strip;
      const int64_t last_group = std::min(groups, first_group + strip);
      const int64_t first_tile = u % runs * run;
      const int64_t last_tile = std::min(tiles, first_tile + run);
      std::memset(sums, 0, static_cast<size_t>(sums_bytes));
      for (int64_t b = 0; b < weight.blocks; b += kBlocks) {
        const int64_t columns = std::min(kBlocks, weight.blocks - b);
        const int64_t parts = columns * kParts<Format>;
        for (int64_t g = first_group; g < last_group; g += G) {
          for (int64_t i = 0; i < G; ++i) {
            uint8_t* panel = panels + i * parts * PartOf<Format>::kBytes;
            if (g + i < last_group) {
              fill_panel<Format>(weight.columns(g + i, b, b + columns, panels + kPanels), columns, panel);
            } else {  // its sums are not written
              std::memset(panel, 0, static_cast<size_t>(parts * PartOf<Format>::kBytes));
            }
          }
          float* to = sums + (g - first_group) * pitch;
          for (int64_t i = first_tile; i < last_tile; ++i) {
            const int64_t count = std::min(T, p.m - i * T);
            const uint8_t* tile = tokens + i * bytes;
            const int64_t block = act_bytes(Format::kHalves, count);
            const int64_t first = b * kParts<Format>;
            const uint8_t* fine = tile + act_blocks * block +
                                  first * count * static_cast<int64_t>(sizeof(FineCodes<Format::kHalves>));
            kernels[count - 1](panels, parts, tile + first * block, fine, to + (i - first_tile) * T * W, pitch);
          }
        }
      }
      for (int64_t i = first_tile; i < last_tile; ++i) {
        for (int64_t t = 0; t < std::min(T, p.m - i * T); ++t) {
          const float* from = sums + ((i - first_tile) * T + t) * W;
          for (int64_t g = first_group; g < last_group; ++g) {
            put(p, i * T + t, g, load(from + (g - first_group) * pitch));
          }
        }
      }
    }
  });
  return CLIKA_OK;
}

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

template <class Source>
int32_t run_exact(const Linear& p, const Source& source) {
  constexpr int64_t T = kExactTokens;
  const int64_t tiles = (p.m + T - 1) / T;
  const float* tokens = static_cast<const float*>(p.x);  // tiles of [K, T]; one float32 token is one already
  if (p.m > 1 || p.x_dtype != CLIKA_FLOAT32) {
    float* copy = static_cast<float*>(
        p.call->core->scratch(p.call, static_cast<size_t>(std::max<int64_t>(64, 4 * p.m * p.k))));
    if (!copy) return CLIKA_UNAVAILABLE;
    with_input(p, [&](const auto* x) {
      const double cost = static_cast<double>(T * p.k);
      parallel(p.call, tiles, piece(p.call, tiles, cost), [&](int64_t begin, int64_t end, int32_t) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t count = std::min(T, p.m - i * T);
          float* tile = copy + i * T * p.k;
          for (int64_t t = 0; t < count; ++t) {
            const auto* row = x + (i * T + t) * p.k;
            for (int64_t k = 0; k < p.k; ++k) tile[k * count + t] = to_float(row[k]);
          }
        }
      });
    });
    tokens = copy;
  }

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
          for (int64_t g = 0; g < count; ++g) put(p, 0, group + g, sums[g]);
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
        for (int64_t g = 0; g < count; ++g) put(p, t, group + g, load(from + g * kPitch));
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

// `linear` over a quantized weight: the static attribute `mode` is 0 exact, 1 fast.
template <class Format>
int32_t linear_quantized(const clika_call* call) {
  Linear p;
  bool empty = false;
  const int32_t status = read_call(call, &p, &empty);
  if (status != CLIKA_OK || empty) return status;
  const int32_t layout = p.weight->layout;
  if (layout != CLIKA_LAYOUT_PUBLISHED && layout != kGroup) {
    return refuse(call, CLIKA_UNSUPPORTED,
                  "linear: the weight is packed in groups of %d rows, this level reads %d",
                  static_cast<int>(layout), kGroup);
  }
  if constexpr (Format::kCodes != Codes::kFloats) {
    if (attr_int(call, 0, 0) != 0) return p.m <= kDirectTokens ? run_direct<Format>(p) : run_panels<Format>(p);
  }
  const QuantizedSource<Format> source = {static_cast<const uint8_t*>(p.weight->data), p.n,
                                          p.k / Format::Block::kColumns, layout == CLIKA_LAYOUT_PUBLISHED};
  return run_exact(p, source);
}
