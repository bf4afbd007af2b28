// linear over IQ2_XS: value = d / 8 * (2 scale + 1) * point, in sub-blocks of 16.
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
constexpr auto kPoints = in_halves(kGridIQ2_XS);

struct FormatIQ2_XS {
  using Block = BlockIQ2_XS;
  static constexpr Codes kCodes = Codes::kUnsigned;
  static constexpr int kHalves = 2;
  static constexpr int kOffset = 43;
  static constexpr bool kMinimum = false;
  const uint8_t* column;
  vf d;

  CLIKA_INLINE explicit FormatIQ2_XS(const uint8_t* packed)
      : column(packed), d(half_of_run(packed, 72, 0) * 0.125f) {}
  CLIKA_INLINE Words codes(int part, int j) const {
    const vu index = (word_of_run(column, 0, 2 * part + j / 4) >> (j / 2 % 2 * 16)) & 511u;
    const vu point = gather(kPoints.word, index);
    return signed_point(kShifted, point, signs(part), 4 * j);
  }
  CLIKA_INLINE vf scale(int part, int half) const {
    const vu number = (word_of_run(column, 64, part / 4) >> (part % 4 * 8 + half * 4)) & 15u;
    return d * whole(2u * number + 1u);
  }

  CLIKA_INLINE vu signs(int part) const {
    const vu first = word_of_run(column, 0, 2 * part);
    const vu second = word_of_run(column, 0, 2 * part + 1);
    return even_signs((first >> 9 & 0x7fu) | (first >> 17 & 0x7f00u) | (second << 7 & 0x7f0000u) |
                      (second >> 1 & 0x7f000000u));
  }
};

CLIKA_LINEAR(iq2_xs, IQ2_XS)
#include "level_end.hpp"
