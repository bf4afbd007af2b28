// linear over Q4_K: value = d * scale * q - m * minimum with q in 0 .. 15, in sub-blocks of 32.
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

struct FormatQ4_K {
  using Block = BlockQ4_K;
  static constexpr Codes kCodes = Codes::kNibbles;
  static constexpr int kHalves = 1;
  static constexpr int kOffset = 0;
  static constexpr bool kMinimum = true;
  static constexpr bool kSharesWords = true;
  static constexpr bool kSlow = true;
  const uint8_t* column;
  vf d;
  vf m;

  CLIKA_INLINE explicit FormatQ4_K(const uint8_t* packed)
      : column(packed), d(half_of_run(packed, 140, 0)), m(-half_of_run(packed, 140, 1)) {}
  CLIKA_INLINE vu codes(int part, int j) const {
    return shift_right(word_of_run(column, 0, part / 2 * 8 + j), part % 2 * 4) & 0x0f0f0f0fu;
  }
  CLIKA_INLINE vf scale(int part, int) const { return d * whole(six_bits(column, 128, part, 0)); }
  CLIKA_INLINE vf minimum(int part, int) const { return m * whole(six_bits(column, 128, part, 4)); }
};

CLIKA_LINEAR(q4_k, Q4_K)
#include "level_end.hpp"
