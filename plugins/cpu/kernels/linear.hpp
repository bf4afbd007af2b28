// What the kernels of `linear` share: reading the call, splitting the work, the loops of the modes. Included after
// level.hpp, blocks.hpp, pack.hpp, linear_lanes.hpp and quantize_activations.hpp.
//
// output[t, n] = sum over k of input[t, k] * weight[n, k] + bias[n]. A lane is an output row n, k ascends,
// and the sum is one float32: the bits of output[t, n] depend on input[t], weight[n] and bias[n] alone.
// Tiles of tokens, strips of rows and threads only choose which sums run side by side.
#pragma once

}  // namespace
#include "linear_tables.hpp"
namespace {

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

// Fills `p` from the parts of a call; CLIKA_OK or the recorded error. `*empty` says that there is nothing left to do.
inline int32_t read_product(const clika_call* call, const clika_value& weight, const clika_value* given_bias,
                            const clika_value& out, Linear* p, bool* empty) {
  const clika_value& x = call->inputs[0];
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
  p->out = out.data;
  p->out_dtype = out.dtype;
  p->bias = nullptr;
  *empty = p->m == 0 || p->n == 0;
  if (given_bias != nullptr) {
    const clika_value& bias = *given_bias;
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

inline int32_t read_call(const clika_call* call, Linear* p, bool* empty) {
  const clika_value* bias = present(call, 2) ? &call->inputs[2] : nullptr;
  return read_product(call, call->inputs[1], bias, call->outputs[0], p, empty);
}

// Packed weights are read in this level's layout, or as published.
inline int32_t check_layout(const clika_call* call, const Linear& p) {
  const int32_t layout = p.weight->layout;
  if (layout == CLIKA_LAYOUT_PUBLISHED || layout == kGroup) return CLIKA_OK;
  return refuse(call, CLIKA_UNSUPPORTED, "linear: the weight is packed in groups of %d rows, this level reads %d",
                static_cast<int>(layout), kGroup);
}

// The sums of one token for the rows of one group, with their bias.
CLIKA_INLINE vf with_bias(const Linear& p, int64_t group, vf sum) {
  return p.bias ? sum + load(p.bias + group * kGroup) : sum;
}

// Writes results of one token for the rows of one group.
CLIKA_INLINE void put(const Linear& p, int64_t token, int64_t group, vf sum) {
  const int64_t row = group * kGroup;
  const int64_t at = token * p.n + row;
  const int64_t rows = p.n - row;
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
//   kSharesWords          true where parts 2 i and 2 i + 1 lie in the same words
//   kSlow                 true where codes take longer to unpack than to read, see ask_ahead
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

// Parts that are computed one after the other without a loop: two where they share words.
template <class Format, class = void>
constexpr int kTogether = 1;
template <class Format>
constexpr int kTogether<Format, std::void_t<decltype(Format::kSharesWords)>> = Format::kSharesWords ? 2 : 1;

template <class Format, class = void>
constexpr bool kIsSlow = false;
template <class Format>
constexpr bool kIsSlow<Format, std::void_t<decltype(Format::kSlow)>> = Format::kSlow;

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
// What sums of activations are for, see CodeSums.
template <class Format>
constexpr CodeSums kSums = {Format::kMinimum,
                            Format::kMinimum ? 0
                                             : -(Format::kOffset + Products<Format::kCodes>::kSignedOffset)};

// The integer products of token t and half h of a part; those of two halves times their scales, on top of the first
// half's. Sums of products are below 2^24, so the float is exact.
template <class Format, int T, int H>
CLIKA_INLINE vf scale_products(const Format&, const ActBlock<T, H>& a, int h, int t, vi total, vf scale, vf first) {
  if constexpr (!Format::kMinimum) total += splat_int(static_cast<int32_t>(a.s[h][t]));
  if constexpr (H == 1) return to_floats(total);
  return h == 0 ? to_floats(total) * scale : fma(to_floats(total), scale, first);
}
// sum with what a part's products are, times the scale of the token's codes (and of the part, where it has one), and
// with the part's minima.
template <class Format, int T, int H>
CLIKA_INLINE vf add_products(const Format&, const ActBlock<T, H>& a, int t, vf products, vf scale,
                             const vf (&minimum)[H], vf sum) {
  sum = fma(products, H == 1 ? scale * splat(a.d[t]) : splat(a.d[t]), sum);
  if constexpr (Format::kMinimum) {
    for (int h = 0; h < H; ++h) sum = fma(minimum[h], splat(float_of(a.s[h][t])), sum);
  }
  return sum;
}

// Adds the products of T refined tokens' second codes, whose first ones have the scales d, with one part to sums.
template <class Format, int H, int T>
CLIKA_INLINE void add_fine(const Format& format, int part, const FineCodes<H>* const (&fine)[T], const float (&d)[T],
                           vf (&sums)[T]) {
  constexpr int kWords = 8 / H;
#pragma GCC unroll 2
  for (int h = 0; h < H; ++h) {
    Products<Format::kCodes> products[T][2];  // two short chains
#pragma GCC unroll 4
    for (int j = h * kWords; j < (h + 1) * kWords; j += 2) {
      const Words words = two_words(format, part, j);
      const auto first = Products<Format::kCodes>::prepare(words.first);
      const auto second = Products<Format::kCodes>::prepare(words.second);
#pragma GCC unroll 4
      for (int t = 0; t < T; ++t) {
        products[t][0].add(first, fine[t]->q, j);
        products[t][1].add(second, fine[t]->q, j + 1);
      }
    }
    const vf scale = format.scale(part, h);
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t) {
      vi total = products[t][0].total() + products[t][1].total();
      if constexpr (!Format::kMinimum) total += splat_int(static_cast<int32_t>(fine[t]->s[h]));
      sums[t] = fma(to_floats(total), scale * splat(d[t] * (1.0f / kFineSteps)), sums[t]);
    }
  }
}

// Adds the products of T tokens with one part to sums.
template <class Format, int T, int H>
CLIKA_INLINE void multiply_part(const Format& format, int part, const ActBlock<T, H>& a, vf (&sums)[T]) {
  constexpr int kWords = 8 / H;
  vf scaled[T] = {};
  vf scale;
  vf minimum[H];
#pragma GCC unroll 2
  for (int h = 0; h < H; ++h) {
    TileProducts<Format::kCodes, T> products;
#pragma GCC unroll 4
    for (int j = h * kWords; j < (h + 1) * kWords; j += 2) {
      const Words words = two_words(format, part, j);
      products.add(words.first, words.second, a.q, j);
    }
    scale = format.scale(part, h);
    minimum[h] = minimum_of(format, part, h);
    for (int t = 0; t < T; ++t) scaled[t] = scale_products(format, a, h, t, products.total(t), scale, scaled[t]);
  }
  for (int t = 0; t < T; ++t) sums[t] = add_products(format, a, t, scaled[t], scale, minimum, sums[t]);
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
        vf sum[1] = {sums[t]};
        add_fine<Format, H, 1>(Format(weight + b * kBytes), part, {fine + t}, {a->d[t]}, sum);
        sums[t] = sum[0];
      }
    }
  }
}

// Asks for what comes later, a part's share at a time: few tokens are bound by memory, and the page walk is done early
// too; many requests at once stand in each other's way. Where codes take long to unpack, more has to be on its way, into
// the second-level cache.
template <class Format>
CLIKA_INLINE void ask_ahead(const uint8_t* at) {
  constexpr int64_t kShare = kGroup * static_cast<int64_t>(sizeof(typename Format::Block)) / kParts<Format>;
  for (int64_t i = 0; i < kShare; i += 64) {
    if constexpr (kIsSlow<Format>) {
      __builtin_prefetch(at + 8192 + i, 0, 2);
    } else {
      __builtin_prefetch(at + 4096 + i);
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
      for (int first_part = 0; first_part < kParts<Format>; first_part += kTogether<Format>) {
#pragma GCC unroll 2
        for (int i = 0; i < kTogether<Format>; ++i) {
          const int part = first_part + i;
          ask_ahead<Format>(weight + b * kBytes + part * kShare);
          multiply_part(format, part, a[b * kParts<Format> + part], sums);
          refined |= a[b * kParts<Format> + part].refined;
        }
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
#if CLIKA_X86 && CLIKA_LEVEL == 1
    kCodes;
#elif CLIKA_LEVEL == 0
    kCodes == Codes::kSigned ? kCodes : Codes::kUnsigned;
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

// See RefineKernel: T blocks of one part.
template <class Part, int H, int T>
CLIKA_INLINE void refine_tokens(const Part& part, const FineBlock* fine, float* sums) {
  const FineCodes<H>* codes[T];
  float d[T];
  vf sum[T];
#pragma GCC unroll 4
  for (int t = 0; t < T; ++t) {
    codes[t] = reinterpret_cast<const FineCodes<H>*>(fine[t].codes);
    d[t] = fine[t].d;
    sum[t] = load(sums + fine[t].sums);
  }
  add_fine(part, 0, codes, d, sum);
#pragma GCC unroll 4
  for (int t = 0; t < T; ++t) store(sums + fine[t].sums, sum[t]);
}
template <Codes kCodes, int H, bool kMinimum, int G>
void refine_sums(const uint8_t* panels, int64_t parts, const FineBlock* fine, int64_t count, float* sums,
                 int64_t pitch) {
  using Part = PanelPart<kCodes, H, kMinimum>;
  constexpr int kAtOnce = 4;
  for (int64_t i = 0; i < count;) {
    const int32_t part = fine[i].part;
    const bool many = i + kAtOnce <= count && fine[i + kAtOnce - 1].part == part;
    for (int g = 0; g < G; ++g) {
      const Part at{panels + (g * parts + part) * Part::kBytes};
      if (many) {
        refine_tokens<Part, H, kAtOnce>(at, fine + i, sums + g * pitch);
      } else {
        refine_tokens<Part, H, 1>(at, fine + i, sums + g * pitch);
      }
    }
    i += many ? kAtOnce : 1;
  }
}

// Unpacks `count` block columns of a packed group.
template <class Format>
void fill_panel(const uint8_t* column, int64_t count, uint8_t* panel) {
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

// ---- the table of a format
template <class Format, int T>
void multiply_group(const uint8_t* group, const uint8_t* tile, int64_t blocks, float* to) {
  vf sums[T];
  multiply_tile<Format, T>(group, tile, blocks, sums);
  for (int t = 0; t < T; ++t) store(to + t * W, sums[t]);
}
template <class Format>
void repack_group(const uint8_t* rows, int64_t stride, int64_t valid, int64_t first, int64_t last, uint8_t* to) {
  pack_group<kGroup, typename Format::Block>(rows, stride, valid, first, last, to);
}
template <class Format>
int32_t multiply_exactly(const Linear& p);

template <class Format>
constexpr IntegerFormat integer_format(int32_t scheme) {
  IntegerFormat f = {};
  f.scheme = scheme;
  f.columns = Format::Block::kColumns;
  f.bytes = static_cast<int64_t>(sizeof(typename Format::Block));
  f.exact = multiply_exactly<Format>;
  if constexpr (Format::kCodes != Codes::kFloats) {
    f.halves = Format::kHalves;
    f.minimum = Format::kMinimum;
    f.codes = static_cast<int32_t>(PartOf<Format>::kCodes);
    f.sums = kSums<Format>;
    f.part_bytes = PartOf<Format>::kBytes;
    f.multiply[0] = multiply_group<Format, 1>;
    f.multiply[1] = multiply_group<Format, 2>;
    f.multiply[2] = multiply_group<Format, 4>;
    if constexpr (kDirectTokens > 4) f.multiply[3] = multiply_group<Format, 8>;
    f.repack = repack_group<Format>;
    f.fill = fill_panel<Format>;
  }
  return f;
}

#include "linear_exact.hpp"

// `linear` over a quantized weight: the static attribute `mode` is 0 exact, 1 fast.
inline int32_t linear_packed(const clika_call* call, const IntegerFormat& format) {
  Linear p;
  bool empty = false;
  int32_t status = read_call(call, &p, &empty);
  if (status == CLIKA_OK) status = check_layout(call, p);
  if (status != CLIKA_OK || empty) return status;
  const bool fast = format.fill != nullptr && attr_int(call, 0, 0) != 0;
  const IntegerFormat* formats[] = {&format};
  return fast ? run_integer(call, &p, formats, 1, Gate::kNone) : format.exact(p);
}

// A file's part for one scheme: its table, and the kernel of `linear` that uses it. A file gives its entries with
// CLIKA_KERNELS.
#define CLIKA_LINEAR_FORMAT(name, scheme)                                                \
  }                                                                                      \
  extern const IntegerFormat integer_##name;                                             \
  CLIKA_CONSTINIT const IntegerFormat integer_##name = integer_format<Format##name>(scheme); \
  namespace {                                                                            \
  int32_t linear_##name(const clika_call* call) { return linear_packed(call, integer_##name); }
#define CLIKA_LINEAR_ENTRY(name, scheme)       \
  Entry("linear", linear_##name)               \
      .in(FLOATS, CLIKA_ANY, FLOATS)           \
      .schemes(0, CLIKA_BIT(scheme), 0)        \
      .out(FLOATS)                             \
      .rank(1, CLIKA_MAX_RANK)                 \
      .contiguous()                            \
      .parallel()
// The file of a GGUF format; `name` is that of the scheme.
#define CLIKA_LINEAR(stem, name)                     \
  CLIKA_LINEAR_FORMAT(name, CLIKA_GGUF_##name)       \
  CLIKA_KERNELS(linear_##stem, CLIKA_LINEAR_ENTRY(name, CLIKA_GGUF_##name))
