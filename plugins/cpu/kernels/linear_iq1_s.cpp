// linear over IQ1_S: value = d * (2 scale + 1) * (q - 1 + shift / 8) with q in 0 .. 2, in sub-blocks of 32.
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <type_traits>

#include "level.hpp"

#include "blocks.hpp"
#include "linear_lanes.hpp"
#include "pack.hpp"
#include "quantize_activations.hpp"
#include "linear.hpp"
#include "linear_codes.hpp"

constexpr auto kPoints = in_halves(kGridIQ1);

struct FormatIQ1_S {
  using Block = BlockIQ1_S;
  static constexpr Codes kCodes = Codes::kNibbles;
  static constexpr int kHalves = 1;
  static constexpr int kOffset = 0;
  static constexpr bool kMinimum = true;
  const uint8_t* column;
  vf d;

  CLIKA_INLINE explicit FormatIQ1_S(const uint8_t* packed) : column(packed), d(half_of_run(packed, 48, 0)) {}
  CLIKA_INLINE Words codes(int part, int j) const {
    const vu low = (word_of_run(column, 0, part) >> (j / 2 * 8)) & 255u;
    const vu high = (head(part) >> (j / 2 * 3)) & 7u;
    const vu point = gather(kPoints.word, low | high << 8);
    return {low_halves(point), high_halves(point)};
  }
  CLIKA_INLINE vf scale(int part, int) const { return d * whole((head(part) >> 11 & 14u) | 1u); }
  // -9 / 8 or -7 / 8 of the scale.
  CLIKA_INLINE vf minimum(int part, int half) const {
    return scale(part, half) * ((head(part) & 0x8000u) != 0u ? vf{} - 1.125f : vf{} - 0.875f);
  }

  CLIKA_INLINE vu head(int part) const { return word_of_run(column, 32, part / 2) >> (part % 2 * 16); }
};

CLIKA_LINEAR(iq1_s, IQ1_S)
#include "level_end.hpp"
