// linear over Q3_K: value = d * (scale - 32) * (q - 4) with q in 0 .. 7, in sub-blocks of 16.
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

struct FormatQ3_K {
  using Block = BlockQ3_K;
  static constexpr Codes kCodes = Codes::kNibbles;
  static constexpr int kHalves = 2;
  static constexpr int kOffset = 4;
  static constexpr bool kMinimum = false;
  static constexpr float kNumbers[8] = {-4, -3, -2, -1, 0, 1, 2, 3};
  const uint8_t* column;
  vf d;

  CLIKA_INLINE explicit FormatQ3_K(const uint8_t* packed) : column(packed), d(half_of_run(packed, 108, 0)) {}
  CLIKA_INLINE vu codes(int part, int j) const {
    const vu low = shift_right(word_of_run(column, 0, part / 4 * 8 + j), part % 4 * 2) & 0x03030303u;
    return low | (shift_right(word_of_run(column, 64, j), part) & 0x01010101u) << 2;
  }
  CLIKA_INLINE vf scale(int part, int half) const {
    const int s = 2 * part + half;
    const vu low = shift_right(word_of_run(column, 96, s / 4 % 2), s % 4 * 8 + s / 8 * 4) & 15u;
    const vu high = shift_right(word_of_run(column, 96, 2), s % 4 * 8 + s / 4 * 2) & 3u;
    return d * whole(low | high << 4, 32);
  }
};

CLIKA_LINEAR(q3_k, Q3_K)
#include "level_end.hpp"
