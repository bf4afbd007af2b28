// The products of linear for many tokens: kernels over unpacked panels, the same for every format, which
// linear_panels.cpp defines once per level. Included within the namespace of the level, outside the unnamed one.
#pragma once

// ---- integers
// Adds the products of `groups` panels, one after the other, with a tile of T tokens to sums[t][row]; the sums of the
// groups lie `pitch` floats apart. `tokens` are the tile's ActBlocks, `fine` its second codes.
using PanelKernel = void (*)(const uint8_t* panels, int64_t parts, const uint8_t* tokens, const uint8_t* fine,
                             float* sums, int64_t pitch);
constexpr int kMostPanelTokens = 8;
constexpr int kMostPanelGroups = 2;

struct PanelKernels {
  int64_t tokens;  // of a tile
  int64_t groups;
  // By codes (see Codes), halves - 1, whether a block has a minimum, tokens - 1.
  PanelKernel at[3][2][2][kMostPanelTokens];
};
extern const PanelKernels panel_kernels;

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
