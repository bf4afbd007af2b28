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

// Adds the products of tokens [First, Last) of a tile with a part of two groups.
template <int First, int Last, class Part, int T, int H>
CLIKA_INLINE void multiply_tokens(const Part (&part)[2], const ActBlock<T, H>& a, vf (&sum)[T][2]) {
  constexpr int kWords = 8 / H;
  vf scaled[T][2] = {};
#pragma GCC unroll 2
  for (int h = 0; h < H; ++h) {
    vi total[T][2];
#pragma GCC unroll 8
    for (int t = First; t < Last; ++t) total[t][0] = total[t][1] = vi{};
#pragma GCC unroll 8
    for (int j = h * kWords; j < (h + 1) * kWords; ++j) {
      const __m512i words[2] = {(__m512i)part[0].codes(0, j), (__m512i)part[1].codes(0, j)};
#pragma GCC unroll 8
      for (int t = First; t < Last; ++t) {
        const __m512i four = _mm512_set1_epi32(word_at(a.q[t] + 4 * j));
#pragma GCC unroll 2
        for (int g = 0; g < 2; ++g) {
          total[t][g] = (vi)_mm512_dpbusd_epi32((__m512i)total[t][g], words[g], four);
        }
      }
    }
#pragma GCC unroll 2
    for (int g = 0; g < 2; ++g) {
      const vf scale = part[g].scale(0, h);
#pragma GCC unroll 8
      for (int t = First; t < Last; ++t) {
        scaled[t][g] = scale_products(part[g], a, h, t, total[t][g], scale, scaled[t][g]);
      }
    }
  }
#pragma GCC unroll 2
  for (int g = 0; g < 2; ++g) {
    const vf scale = part[g].scale(0, 0);
    vf minimum[H];
#pragma GCC unroll 2
    for (int h = 0; h < H; ++h) minimum[h] = minimum_of(part[g], 0, h);
#pragma GCC unroll 8
    for (int t = First; t < Last; ++t) {
      sum[t][g] = add_products(part[g], a, t, scaled[t][g], scale, minimum, sum[t][g]);
    }
  }
}

// A broadcast of four codes meets both groups. The float sums stay in registers: stores of 64 bytes take two cycles.
template <Codes kCodes, int H, bool kMinimum, int T>
void multiply_unpacked(const uint8_t* panels, int64_t parts, const uint8_t* tokens, float* sums, int64_t pitch) {
  using Part = PanelPart<kCodes, H, kMinimum>;
  // With two sums a half of a part each, three tokens at a time leave registers for both.
  constexpr int kFirst = H == 1 || T <= 3 ? T : 3;
  const auto* a = reinterpret_cast<const ActBlock<T, H>*>(tokens);
  const uint8_t* panel[2] = {panels, panels + parts * Part::kBytes};
  vf sum[T][2];
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) {
#pragma GCC unroll 2
    for (int g = 0; g < 2; ++g) sum[t][g] = load(sums + g * pitch + t * W);
  }
  for (int64_t i = 0; i < parts; ++i) {
    const Part part[2] = {{panel[0] + i * Part::kBytes}, {panel[1] + i * Part::kBytes}};
    multiply_tokens<0, kFirst>(part, a[i], sum);
    if constexpr (kFirst < T) multiply_tokens<kFirst, T>(part, a[i], sum);
  }
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) {
#pragma GCC unroll 2
    for (int g = 0; g < 2; ++g) store(sums + g * pitch + t * W, sum[t][g]);
  }
}
#elif CLIKA_X86 && CLIKA_LEVEL == 1
// 16 registers hold the integer sums of some tokens and groups; the float sums lie in memory.
constexpr int kPanelTokens = 6;
constexpr int kPanelGroups = 2;
template <Codes kCodes>
constexpr int kTokensAtOnce = kCodes == Codes::kNibbles || kCodes == Codes::kSigned ? 6 : 3;
template <Codes kCodes>
constexpr int kGroupsAtOnce = kCodes == Codes::kSigned ? 1 : 2;

// Adds the products of tokens [First, First + N) of a tile with a part of G groups.
template <int First, int N, int G, class Part, int T, int H>
CLIKA_INLINE void multiply_tokens(const Part (&part)[G], const ActBlock<T, H>& a, float* sums, int64_t pitch) {
  constexpr int kWords = 8 / H;
  using One = Products<Part::kCodes>;
  vf scaled[N][G] = {};
#pragma GCC unroll 2
  for (int h = 0; h < H; ++h) {
    One products[N][G];
#pragma GCC unroll 8
    for (int j = h * kWords; j < (h + 1) * kWords; ++j) {
      decltype(One::prepare(vu{})) words[G];
      for (int g = 0; g < G; ++g) words[g] = One::prepare(part[g].codes(0, j));
#pragma GCC unroll 8
      for (int t = 0; t < N; ++t) {
        for (int g = 0; g < G; ++g) products[t][g].add(words[g], a.q[First + t], j);
      }
    }
    for (int g = 0; g < G; ++g) {
      const vf scale = part[g].scale(0, h);
#pragma GCC unroll 8
      for (int t = 0; t < N; ++t) {
        scaled[t][g] = scale_products(part[g], a, h, First + t, products[t][g].total(), scale, scaled[t][g]);
      }
    }
  }
  for (int g = 0; g < G; ++g) {
    const vf scale = part[g].scale(0, 0);
    vf minimum[H];
#pragma GCC unroll 2
    for (int h = 0; h < H; ++h) minimum[h] = minimum_of(part[g], 0, h);
#pragma GCC unroll 8
    for (int t = 0; t < N; ++t) {
      float* at = sums + g * pitch + (First + t) * W;
      store(at, add_products(part[g], a, First + t, scaled[t][g], scale, minimum, load(at)));
    }
  }
}

template <Codes kCodes, int H, bool kMinimum, int T>
void multiply_unpacked(const uint8_t* panels, int64_t parts, const uint8_t* tokens, float* sums, int64_t pitch) {
  using Part = PanelPart<kCodes, H, kMinimum>;
  constexpr int kFirst = T < kTokensAtOnce<kCodes> ? T : kTokensAtOnce<kCodes>;
  constexpr int G = kGroupsAtOnce<kCodes>;
  const auto* a = reinterpret_cast<const ActBlock<T, H>*>(tokens);
  for (int64_t i = 0; i < parts; ++i) {
    for (int g = 0; g < kPanelGroups; g += G) {
      Part part[G];
      for (int n = 0; n < G; ++n) part[n].at = panels + ((g + n) * parts + i) * Part::kBytes;
      multiply_tokens<0, kFirst>(part, a[i], sums + g * pitch, pitch);
      if constexpr (kFirst < T) multiply_tokens<kFirst, T - kFirst>(part, a[i], sums + g * pitch, pitch);
    }
  }
}
#else
constexpr int kPanelTokens = 4;
constexpr int kPanelGroups = 1;

template <Codes kCodes, int H, bool kMinimum, int T>
void multiply_unpacked(const uint8_t* panel, int64_t parts, const uint8_t* tokens, float* sums, int64_t) {
  using Part = PanelPart<kCodes, H, kMinimum>;
  const auto* a = reinterpret_cast<const ActBlock<T, H>*>(tokens);
  vf total[T];
  for (int t = 0; t < T; ++t) total[t] = load(sums + t * W);
  for (int64_t i = 0; i < parts; ++i) multiply_part(Part{panel + i * Part::kBytes}, 0, a[i], total);
  for (int t = 0; t < T; ++t) store(sums + t * W, total[t]);
}
#endif

// What the formats of this level ask for.
constexpr bool is_used(Codes codes, int halves, bool minimum) {
  if (codes == Codes::kSigned) return kPanelCodes<Codes::kSigned> == codes && halves == 1 && !minimum;
  if (kPanelCodes<Codes::kNibbles> != Codes::kNibbles) return codes == Codes::kUnsigned;
  switch (codes) {
    case Codes::kNibbles: return true;
    case Codes::kFiveBits: return halves == 1 || !minimum;
    case Codes::kSixBits: return halves == 2 && !minimum;
    case Codes::kUnsigned: return !minimum;
    default: return false;
  }
}

template <Codes kCodes, int H, bool kMinimum, int... T>
constexpr void fill(PanelKernels* kernels, std::integer_sequence<int, T...>) {
  if constexpr (is_used(kCodes, H, kMinimum)) {
    PanelKernel* to = kernels->at[static_cast<int>(kCodes)][H - 1][kMinimum];
    ((to[T] = multiply_unpacked<kCodes, H, kMinimum, T + 1>), ...);
    kernels->refine[static_cast<int>(kCodes)][H - 1][kMinimum] = refine_sums<kCodes, H, kMinimum, kPanelGroups>;
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
  fill_codes<Codes::kFiveBits>(&kernels);
  fill_codes<Codes::kSixBits>(&kernels);
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
