// linear over IQ3_XXS: value = d / 4 * (2 scale + 1) * point, in sub-blocks of 32.
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

// 62 plus or minus the magnitude of a coordinate; bit 3 is the sign.
constexpr int8_t kShifted[16] = {66, 74, 82, 90, 98, 106, 114, 124, 58, 50, 42, 34, 26, 18, 10, 0};
constexpr auto kPoints = in_bytes(kGridIQ3_XXS);

struct FormatIQ3_XXS {
  using Block = BlockIQ3_XXS;
  static constexpr Codes kCodes = Codes::kUnsigned;
  static constexpr int kHalves = 1;
  static constexpr int kOffset = 62;
  static constexpr bool kMinimum = false;
  const uint8_t* column;
  vf d;

  CLIKA_INLINE explicit FormatIQ3_XXS(const uint8_t* packed)
      : column(packed), d(half_of_run(packed, 96, 0) * 0.25f) {}
  CLIKA_INLINE vu codes(int part, int j) const {
    const vu index = (word_of_run(column, 0, 2 * part + j / 4) >> (j % 4 * 8)) & 255u;
    const vu sign = spread_bits(signs(part), 4 * j) & 0x08080808u;
    return look_up(kShifted, gather(kPoints.word, index) | sign);
  }
  CLIKA_INLINE vf scale(int part, int) const {
    return d * whole((word_of_run(column, 64, part) >> 27 & 30u) | 1u);
  }

  CLIKA_INLINE vu signs(int part) const {
    const vu word = word_of_run(column, 64, part);
    return even_signs((word & 0x7fu) | (word << 1 & 0x7f00u) | (word << 2 & 0x7f0000u) |
                      (word << 3 & 0x7f000000u));
  }
};

CLIKA_LINEAR(iq3_xxs, IQ3_XXS)
#include "level_end.hpp"
