// linear over Q5_0: value = d * (q - 16) with q in 0 .. 31.
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

struct FormatQ5_0 {
  using Block = BlockQ5_0;
  static constexpr Codes kCodes = Codes::kFiveBits;
  static constexpr int kHalves = 1;
  static constexpr int kOffset = 16;
  static constexpr bool kMinimum = false;
  static constexpr bool kSlow = true;
  const uint8_t* column;

  CLIKA_INLINE explicit FormatQ5_0(const uint8_t* packed) : column(packed) {}
  CLIKA_INLINE vu codes(int, int j) const {
    const vu words = word_of_run(column, 0, j % 4);
    const vu fifth = spread_bits(word_of_run(column, 16, 0), 4 * j) & 0x10101010u;
    return (j < 4 ? low_halves(words) : high_halves(words)) | fifth;
  }
  CLIKA_INLINE vf scale(int, int) const { return half_of_run(column, 20, 0); }
};

CLIKA_LINEAR(q5_0, Q5_0)
#include "level_end.hpp"
