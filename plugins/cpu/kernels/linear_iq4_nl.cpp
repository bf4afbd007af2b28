// linear over IQ4_NL: value = d * kNonlinear[q].
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

struct FormatIQ4_NL {
  using Block = BlockIQ4_NL;
  static constexpr Codes kCodes = Codes::kSigned;
  static constexpr int kHalves = 1;
  static constexpr int kOffset = 0;
  static constexpr bool kMinimum = false;
  const uint8_t* column;

  CLIKA_INLINE explicit FormatIQ4_NL(const uint8_t* packed) : column(packed) {}
  CLIKA_INLINE vu codes(int, int j) const {
    const vu words = word_of_run(column, 0, j % 4);
    return look_up(kNonlinear, j < 4 ? low_halves(words) : high_halves(words));
  }
  CLIKA_INLINE vf scale(int, int) const { return half_of_run(column, 16, 0); }
};

CLIKA_LINEAR(iq4_nl, IQ4_NL)
#include "level_end.hpp"
