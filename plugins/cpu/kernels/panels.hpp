// The integer products of linear for many tokens: kernels over unpacked panels, the same for every format, which
// linear_panels.cpp defines once per level. Included within the namespace of the level, outside the unnamed one.
#pragma once

// Adds the products of kPanelGroups panels, one after the other, with a tile of T tokens to sums[t][row]; the sums of
// the groups lie `pitch` floats apart. `tokens` are the tile's ActBlocks, `fine` its second codes.
using PanelKernel = void (*)(const uint8_t* panels, int64_t parts, const uint8_t* tokens, const uint8_t* fine,
                             float* sums, int64_t pitch);

// 32 registers hold the integer sums of 8 tokens and 2 groups; the float sums wait in memory.
constexpr bool kWidePanels = CLIKA_X86 && CLIKA_LEVEL == 2;
constexpr int kPanelTokens = CLIKA_LEVEL == 2 ? 8 : 4;
constexpr int kPanelGroups = kWidePanels ? 2 : 1;

// By codes (see Codes), halves - 1, whether a block has a minimum, tokens - 1.
struct PanelKernels {
  PanelKernel at[3][2][2][kPanelTokens];
};
extern const PanelKernels panel_kernels;
