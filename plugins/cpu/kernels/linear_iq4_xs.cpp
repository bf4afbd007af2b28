// linear over IQ4_XS: value = d * (scale - 32) * kNonlinear[q], in sub-blocks of 32.
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

struct FormatIQ4_XS {
  using Block = BlockIQ4_XS;
  static constexpr Codes kCodes = Codes::kSigned;
  static constexpr int kHalves = 1;
  static constexpr int kOffset = 0;
  static constexpr bool kMinimum = false;
  static constexpr bool kSlow = true;
  const uint8_t* column;
  vf d;

  CLIKA_INLINE explicit FormatIQ4_XS(const uint8_t* packed)
      : column(packed), d(half_of_run(packed, 134, 0)) {}
  CLIKA_INLINE vu codes(int part, int j) const {
    const vu words = word_of_run(column, 0, 4 * part + j % 4);
    return look_up(kNonlinear, j < 4 ? low_halves(words) : high_halves(words));
  }
  CLIKA_INLINE vf scale(int part, int) const {
    const vu low = (word_of_run(column, 128, 0) >> (4 * part)) & 15u;
    const vu high = (short_of_run(column, 132, 0) >> (2 * part)) & 3u;
    return d * whole(low | high << 4, 32);
  }
};

CLIKA_LINEAR(iq4_xs, IQ4_XS)
#include "level_end.hpp"
