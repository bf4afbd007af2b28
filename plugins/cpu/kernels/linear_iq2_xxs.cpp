// linear over IQ2_XXS: value = d / 8 * (2 scale + 1) * point, in sub-blocks of 32.
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

// 43 plus or minus the magnitude of a coordinate; bit 2 is the sign.
constexpr int8_t kShifted[16] = {51, 68, 86, 43, 35, 18, 0, 43};
constexpr auto kPoints = in_halves(kGridIQ2_XXS);

struct FormatIQ2_XXS {
  using Block = BlockIQ2_XXS;
  static constexpr Codes kCodes = Codes::kUnsigned;
  static constexpr int kHalves = 1;
  static constexpr int kOffset = 43;
  static constexpr bool kMinimum = false;
  const uint8_t* column;
  vf d;

  CLIKA_INLINE explicit FormatIQ2_XXS(const uint8_t* packed)
      : column(packed), d(half_of_run(packed, 64, 0) * 0.125f) {}
  CLIKA_INLINE Words codes(int part, int j) const {
    const vu point = gather(kPoints.word, (word_of_run(column, 0, 2 * part) >> (j / 2 * 8)) & 255u);
    return signed_point(kShifted, point, signs(part), 4 * j);
  }
  CLIKA_INLINE vf scale(int part, int) const {
    return d * whole((word_of_run(column, 0, 2 * part + 1) >> 27 & 30u) | 1u);
  }

  CLIKA_INLINE vu signs(int part) const {
    const vu word = word_of_run(column, 0, 2 * part + 1);
    return even_signs((word & 0x7fu) | (word << 1 & 0x7f00u) | (word << 2 & 0x7f0000u) |
                      (word << 3 & 0x7f000000u));
  }
};

CLIKA_LINEAR(iq2_xxs, IQ2_XXS)
#include "level_end.hpp"
