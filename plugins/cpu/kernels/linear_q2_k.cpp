// linear over Q2_K: value = d * scale * q - m * minimum with q in 0 .. 3, in sub-blocks of 16.
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

struct FormatQ2_K {
  using Block = BlockQ2_K;
  static constexpr Codes kCodes = Codes::kNibbles;
  static constexpr int kHalves = 2;
  static constexpr int kOffset = 0;
  static constexpr bool kMinimum = true;
  static constexpr float kNumbers[8] = {0, 1, 2, 3};
  const uint8_t* column;
  vf d;
  vf m;

  CLIKA_INLINE explicit FormatQ2_K(const uint8_t* packed)
      : column(packed), d(half_of_run(packed, 80, 0)), m(-half_of_run(packed, 80, 1)) {}
  CLIKA_INLINE vu codes(int part, int j) const {
    return shift_right(word_of_run(column, 0, part / 4 * 8 + j), part % 4 * 2) & 0x03030303u;
  }
  CLIKA_INLINE vf scale(int part, int half) const { return d * whole(number(part, half, 0)); }
  CLIKA_INLINE vf minimum(int part, int half) const { return m * whole(number(part, half, 4)); }

  CLIKA_INLINE vu number(int part, int half, int shift) const {
    return shift_right(word_of_run(column, 64, part / 2), part % 2 * 16 + half * 8 + shift) & 15u;
  }
};

CLIKA_LINEAR(q2_k, Q2_K)
#include "level_end.hpp"
