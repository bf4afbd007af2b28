// The integer products of linear over unpacked panels, see panels.hpp.
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <type_traits>
#include <utility>

#include "level.hpp"

#include "blocks.hpp"
#include "linear_lanes.hpp"
#include "pack.hpp"
#include "quantize_activations.hpp"
#include "linear.hpp"

#if CLIKA_X86 && CLIKA_LEVEL == 2
// A broadcast of four codes meets both groups.
template <Codes kCodes, int H, bool kMinimum, int T>
void multiply_unpacked(const uint8_t* panels, int64_t parts, const uint8_t* tokens, const uint8_t* fine, float* sums,
                       int64_t pitch) {
  using Part = PanelPart<kCodes, H, kMinimum>;
  constexpr int kWords = 8 / H;
  const auto* a = reinterpret_cast<const ActBlock<T, H>*>(tokens);
  const auto* second = reinterpret_cast<const FineCodes<H>*>(fine);
  const uint8_t* panel[2] = {panels, panels + parts * Part::kBytes};
  for (int64_t i = 0; i < parts; ++i) {
    const Part part[2] = {{panel[0] + i * Part::kBytes}, {panel[1] + i * Part::kBytes}};
#pragma GCC unroll 2
    for (int h = 0; h < H; ++h) {
      vi total[T][2] = {};
#pragma GCC unroll 8
      for (int j = h * kWords; j < (h + 1) * kWords; ++j) {
        const __m512i words[2] = {(__m512i)part[0].codes(0, j), (__m512i)part[1].codes(0, j)};
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t) {
          const __m512i four = _mm512_set1_epi32(word_at(a[i].q[t] + 4 * j));
          for (int g = 0; g < 2; ++g) {
            total[t][g] = (vi)_mm512_dpbusd_epi32((__m512i)total[t][g], words[g], four);
          }
        }
      }
#pragma GCC unroll 2
      for (int g = 0; g < 2; ++g) {
        const vf scale = part[g].scale(0, h);
        const vf minimum = minimum_of(part[g], 0, h);
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t) {
          float* sum = sums + g * pitch + t * W;
          store(sum, add_products(part[g], a[i], h, t, total[t][g], scale, minimum, load(sum)));
        }
      }
    }
    for (uint32_t left = a[i].refined; left != 0; left &= left - 1) {
      const int t = __builtin_ctz(left);
      for (int g = 0; g < 2; ++g) {
        float* sum = sums + g * pitch + t * W;
        store(sum, add_fine(part[g], 0, second[i * T + t], a[i].d[t], load(sum)));
      }
    }
  }
}
#else
template <Codes kCodes, int H, bool kMinimum, int T>
void multiply_unpacked(const uint8_t* panel, int64_t parts, const uint8_t* tokens, const uint8_t* fine, float* sums,
                       int64_t) {
  using Part = PanelPart<kCodes, H, kMinimum>;
  const auto* a = reinterpret_cast<const ActBlock<T, H>*>(tokens);
  const auto* second = reinterpret_cast<const FineCodes<H>*>(fine);
  vf total[T];
  for (int t = 0; t < T; ++t) total[t] = load(sums + t * W);
  for (int64_t part = 0; part < parts; ++part) {
    multiply_part(Part{panel}, 0, a[part], second + part * T, total);
    panel += Part::kBytes;
  }
  for (int t = 0; t < T; ++t) store(sums + t * W, total[t]);
}
#endif

// What the formats of this level ask for.
constexpr bool is_used(Codes codes, int halves, bool minimum) {
  if (kPanelCodes<Codes::kNibbles> != Codes::kNibbles) return codes == Codes::kUnsigned;
  return codes == Codes::kNibbles || (halves == 1 ? codes == Codes::kUnsigned || !minimum
                                                  : codes == Codes::kUnsigned && !minimum);
}

template <Codes kCodes, int H, bool kMinimum, int... T>
constexpr void fill(PanelKernels* kernels, std::integer_sequence<int, T...>) {
  if constexpr (is_used(kCodes, H, kMinimum)) {
    PanelKernel* to = kernels->at[static_cast<int>(kCodes)][H - 1][kMinimum];
    ((to[T] = multiply_unpacked<kCodes, H, kMinimum, T + 1>), ...);
  }
}
template <Codes kCodes>
constexpr void fill_codes(PanelKernels* kernels) {
  constexpr auto kTokens = std::make_integer_sequence<int, kPanelTokens>();
  fill<kCodes, 1, false>(kernels, kTokens);
  fill<kCodes, 1, true>(kernels, kTokens);
  fill<kCodes, 2, false>(kernels, kTokens);
  fill<kCodes, 2, true>(kernels, kTokens);
}
constexpr PanelKernels all_kernels() {
  PanelKernels kernels = {};
  fill_codes<Codes::kNibbles>(&kernels);
  fill_codes<Codes::kUnsigned>(&kernels);
  fill_codes<Codes::kSigned>(&kernels);
  return kernels;
}

}  // namespace
CLIKA_CONSTINIT const PanelKernels panel_kernels = all_kernels();
// No kernels of an operator here, so the macro of level.hpp does not fit: its array may not be empty.
extern const KernelFile file_linear_panels;
CLIKA_CONSTINIT const KernelFile file_linear_panels = {nullptr, 0, nullptr};
namespace {
#include "level_end.hpp"
