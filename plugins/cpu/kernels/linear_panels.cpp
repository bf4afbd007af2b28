// The products of linear over unpacked panels, see linear_tables.hpp.
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
// 32 registers hold the integer and the float sums of 6 tokens and 2 groups.
constexpr int kPanelTokens = 6;
constexpr int kPanelGroups = 2;

// A broadcast of four codes meets both groups. The float sums stay in registers: stores of 64 bytes take two cycles.
template <Codes kCodes, int H, bool kMinimum, int T>
void multiply_unpacked(const uint8_t* panels, int64_t parts, const uint8_t* tokens, const uint8_t* fine, float* sums,
                       int64_t pitch) {
  using Part = PanelPart<kCodes, H, kMinimum>;
  constexpr int kWords = 8 / H;
  const auto* a = reinterpret_cast<const ActBlock<T, H>*>(tokens);
  const auto* second = reinterpret_cast<const FineCodes<H>*>(fine);
  const uint8_t* panel[2] = {panels, panels + parts * Part::kBytes};
  vf sum[T][2];
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) {
#pragma GCC unroll 2
    for (int g = 0; g < 2; ++g) sum[t][g] = load(sums + g * pitch + t * W);
  }
  for (int64_t i = 0; i < parts; ++i) {
    const Part part[2] = {{panel[0] + i * Part::kBytes}, {panel[1] + i * Part::kBytes}};
#pragma GCC unroll 2
    for (int h = 0; h < H; ++h) {
      vi total[T][2];
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) total[t][0] = total[t][1] = vi{};
#pragma GCC unroll 8
      for (int j = h * kWords; j < (h + 1) * kWords; ++j) {
        const __m512i words[2] = {(__m512i)part[0].codes(0, j), (__m512i)part[1].codes(0, j)};
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t) {
          const __m512i four = _mm512_set1_epi32(word_at(a[i].q[t] + 4 * j));
#pragma GCC unroll 2
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
          sum[t][g] = add_products(part[g], a[i], h, t, total[t][g], scale, minimum, sum[t][g]);
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) {
#pragma GCC unroll 2
    for (int g = 0; g < 2; ++g) store(sums + g * pitch + t * W, sum[t][g]);
  }
  for (int64_t i = 0; i < parts; ++i) {
    for (uint32_t left = a[i].refined; left != 0; left &= left - 1) {
      const int t = __builtin_ctz(left);
      for (int g = 0; g < 2; ++g) {
        float* to = sums + g * pitch + t * W;
        store(to, add_fine(Part{panel[g] + i * Part::kBytes}, 0, second[i * T + t], a[i].d[t], load(to)));
      }
    }
  }
}
#else
constexpr int kPanelTokens = CLIKA_LEVEL == 2 ? 8 : 4;
constexpr int kPanelGroups = 1;

template <Codes kCodes, int H, bool kMinimum, int T>
void multiply_unpacked(const uint8_t* panel, int64_t parts, const uint8_t* tokens, const uint8_t* fine, float* sums,
                       int64_t) {
  using Part = PanelPart<kCodes, H, kMinimum>;
  const auto* a = reinterpret_cast<const ActBlock<T, H>*>(tokens);
  const auto* second = reinterpret_cast<const FineCodes<H>*>(fine);
  vf total[T];
  for (int t = 0; t < T; ++t) total[t] = load(sums + t * W);
  for (int64_t i = 0; i < parts; ++i) multiply_part(Part{panel + i * Part::kBytes}, 0, a[i], total);
  for (int t = 0; t < T; ++t) store(sums + t * W, total[t]);
  for (int64_t i = 0; i < parts; ++i) {
    for (uint32_t left = a[i].refined; left != 0; left &= left - 1) {
      const int t = __builtin_ctz(left);
      float* to = sums + t * W;
      store(to, add_fine(Part{panel + i * Part::kBytes}, 0, second[i * T + t], a[i].d[t], load(to)));
    }
  }
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
  kernels.tokens = kPanelTokens;
  kernels.groups = kPanelGroups;
  fill_codes<Codes::kNibbles>(&kernels);
  fill_codes<Codes::kUnsigned>(&kernels);
  fill_codes<Codes::kSigned>(&kernels);
  return kernels;
}

// ---- floats
// Adds columns of G groups times T tokens to sums[g][t].
template <int G, int T>
CLIKA_INLINE void multiply_panel(const float* panel, const float* x, int64_t columns, float* sums, int64_t pitch) {
  vf total[G][T];
  for (int g = 0; g < G; ++g) {
    for (int t = 0; t < T; ++t) total[g][t] = load(sums + g * pitch + t * W);
  }
  for (int64_t k = 0; k < columns; ++k) {
    vf value[G];
    for (int g = 0; g < G; ++g) value[g] = load(panel + (g * kExactColumns + k) * W);
    for (int t = 0; t < T; ++t) {
      const vf s = splat(x[k * T + t]);
      for (int g = 0; g < G; ++g) total[g][t] = fma(value[g], s, total[g][t]);
    }
  }
  for (int g = 0; g < G; ++g) {
    for (int t = 0; t < T; ++t) store(sums + g * pitch + t * W, total[g][t]);
  }
}
// All groups at once where the tile leaves the registers, else two by two.
template <int T>
void multiply_exact(const float* panels, const float* x, int64_t columns, int64_t groups, float* sums, int64_t pitch) {
  constexpr int kAtOnce = T <= kExactTokens / 2 ? kExactGroups : kExactGroups / 2;
  for (int64_t g = 0; g < groups; g += kAtOnce) {
    multiply_panel<kAtOnce, T>(panels + g * kExactColumns * W, x, columns, sums + g * pitch, pitch);
  }
}
template <int... T>
constexpr ExactKernels all_exact(std::integer_sequence<int, T...>) {
  return {{multiply_exact<T + 1>...}};
}

}  // namespace
CLIKA_CONSTINIT const PanelKernels panel_kernels = all_kernels();
CLIKA_CONSTINIT const ExactKernels exact_kernels = all_exact(std::make_integer_sequence<int, kExactTokens>());
// No kernels of an operator here, so the macro of level.hpp does not fit: its array may not be empty.
extern const KernelFile file_linear_panels;
CLIKA_CONSTINIT const KernelFile file_linear_panels = {nullptr, 0, nullptr};
namespace {
#include "level_end.hpp"
