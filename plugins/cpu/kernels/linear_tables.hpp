// What the files of linear give each other at one level: the tables of the formats, the products over unpacked panels,
// and the driver of the integer products. Included within the namespace of the level, outside the unnamed one.
#pragma once

// One product: output[t, n] = sum over k of input[t, k] * weight[n, k] + bias[n].
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

// A few tokens meet the packed weight itself; many meet panels of 512 columns of a group, unpacked once: the same codes,
// scales and minima, so the same bits.
constexpr int kDirectTokens = CLIKA_X86 && CLIKA_LEVEL == 2 ? 8 : 4;
constexpr int kPanelColumns = 512;
constexpr int64_t kPanelParts = kPanelColumns / 32;

// A scheme of packed weights. What is null or 0 is for integer products, which a scheme of floats has not.
struct IntegerFormat {
  int32_t scheme;
  int64_t columns;  // of a block
  int64_t bytes;    // of a published block
  // What activations and panels are for it.
  int32_t halves;
  bool minimum;
  int32_t codes;  // of a panel, see Codes
  CodeSums sums;
  int64_t part_bytes;  // of a panel
  // The sums [1 << i][rows] of a tile of 1 << i tokens with a packed group of `blocks` block columns.
  void (*multiply[4])(const uint8_t* group, const uint8_t* tile, int64_t blocks, float* sums);
  // Block columns [first, last) of a group out of published rows, of which `valid` exist.
  void (*repack)(const uint8_t* rows, int64_t stride, int64_t valid, int64_t first, int64_t last, uint8_t* to);
  // A panel of some block columns of a packed group.
  void (*fill)(const uint8_t* column, int64_t blocks, uint8_t* panel);
  int32_t (*exact)(const Linear& p);
};

// What becomes of the products: they are written, or the first of two is the gate of the other, f(gate) * other in the
// place of the first one's output.
enum class Gate { kNone, kSwiglu, kGeglu, kGegluTanh };
// Integer products of the tokens of a call with one or several weights: tokens are quantized once, and all groups of
// rows are one region.
int32_t run_integer(const clika_call* call, const Linear* products, const IntegerFormat* const* formats, int32_t count,
                    Gate gate);
constexpr int32_t kMostProducts = 8;

// ---- integers
// Adds the products of `groups` panels, one after the other, with a tile of T tokens to sums[t][row]; the sums of the
// groups lie `pitch` floats apart. `tokens` are the tile's ActBlocks.
using PanelKernel = void (*)(const uint8_t* panels, int64_t parts, const uint8_t* tokens, float* sums, int64_t pitch);
// A refined block of a token: what its second codes are, and which part of a panel and which sums they belong to.
struct FineBlock {
  const uint8_t* codes;  // FineCodes
  float d;               // the scale of the first codes
  int32_t part;
  int64_t sums;  // from the first
};
// Adds the products of `groups` panels with the second codes of some tokens to their sums; parts ascend.
using RefineKernel = void (*)(const uint8_t* panels, int64_t parts, const FineBlock* fine, int64_t count, float* sums,
                              int64_t pitch);
constexpr int kMostPanelTokens = 16;
constexpr int kPanelKinds = 5;  // of Codes, all but floats

struct PanelKernels {
  int64_t tokens;  // of a tile
  int64_t groups;
  // By codes (see Codes), halves - 1, whether a block has a minimum, tokens - 1.
  PanelKernel at[kPanelKinds][2][2][kMostPanelTokens];
  RefineKernel refine[kPanelKinds][2][2];
};
extern const PanelKernels panel_kernels;
// Those of AMX where the machine has it and CLIKA_RT_CPU_AMX is 1, with the same bits, else panel_kernels.
const PanelKernels& best_panels();

// ---- floats
// Adds the products of `groups` panels of float32 values, kExactColumns columns apart, with a tile of T tokens to
// sums[t][row].
using ExactKernel = void (*)(const float* panels, const float* x, int64_t columns, int64_t groups, float* sums,
                             int64_t pitch);
constexpr int kExactTokens = CLIKA_LEVEL == 2 ? 8 : 6;  // times 2 groups: 12 or 16 sums, the rest for values
constexpr int kExactGroups = 4;
constexpr int64_t kExactColumns = 128;  // decoded at a time: the panels stay in the first-level cache

struct ExactKernels {
  ExactKernel at[kExactTokens];  // by tokens - 1
};
extern const ExactKernels exact_kernels;
// A product with a dense weight, as published or with its rows interleaved.
int32_t multiply_dense(const Linear& p);
// Products of the tokens of a call with several weights whose rows are interleaved: all rows are one region. False where
// one is no such weight or the tokens are many, and nothing is done.
bool run_interleaved(const clika_call* call, const Linear* products, int32_t count, Gate gate, int32_t* status);
// bfloat16 times bfloat16 by AMX under the same condition; false where that is not served. Products are summed in
// pairs, so the bits are not those of float32 products.
bool multiply_bfloat16(const Linear& p, int32_t* status);
