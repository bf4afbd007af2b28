// linear over Q6_K: value = d * scale * (q - 32) with q in 0 .. 63, in sub-blocks of 16.
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

struct FormatQ6_K {
  using Block = BlockQ6_K;
  static constexpr Codes kCodes = Codes::kSixBits;
  static constexpr int kHalves = 2;
  static constexpr int kOffset = 32;
  static constexpr bool kMinimum = false;
  static constexpr bool kSharesWords = true;
  static constexpr bool kSlow = true;
  const uint8_t* column;
  vf d;

  CLIKA_INLINE explicit FormatQ6_K(const uint8_t* packed) : column(packed), d(half_of_run(packed, 208, 0)) {}
  CLIKA_INLINE vu codes(int part, int j) const {
    const vu low = shift_right(word_of_run(column, 0, part / 4 * 16 + part % 2 * 8 + j), part % 4 / 2 * 4);
    const vu high = shift_right(word_of_run(column, 128, part / 4 * 8 + j), part % 4 * 2);
    return (low & 0x0f0f0f0fu) | (high & 0x03030303u) << 4;
  }
  CLIKA_INLINE vf scale(int part, int half) const {
    return d * to_floats(signed_byte(word_of_run(column, 192, part / 2), part % 2 * 2 + half));
  }
};

CLIKA_LINEAR(q6_k, Q6_K)
#include "level_end.hpp"
