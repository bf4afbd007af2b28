// linear over Q4_1: value = d * q + m with q in 0 .. 15.
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

struct FormatQ4_1 {
  using Block = BlockQ4_1;
  static constexpr Codes kCodes = Codes::kNibbles;
  static constexpr int kHalves = 1;
  static constexpr int kOffset = 0;
  static constexpr bool kMinimum = true;
  const uint8_t* column;

  CLIKA_INLINE explicit FormatQ4_1(const uint8_t* packed) : column(packed) {}
  CLIKA_INLINE vu codes(int, int j) const {
    const vu words = load_words(column + 4 * W * (j % 4));
    return j < 4 ? low_halves(words) : high_halves(words);
  }
  CLIKA_INLINE vf scale(int, int) const { return load_halves(column + 16 * W); }
  CLIKA_INLINE vf minimum(int, int) const { return load_halves(column + 18 * W); }
};

CLIKA_LINEAR(q4_1, Q4_1)
#include "level_end.hpp"
