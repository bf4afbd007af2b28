// linear over Q5_K: value = d * scale * q - m * minimum with q in 0 .. 31, in sub-blocks of 32.
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

struct FormatQ5_K {
  using Block = BlockQ5_K;
  static constexpr Codes kCodes = Codes::kFiveBits;
  static constexpr int kHalves = 1;
  static constexpr int kOffset = 0;
  static constexpr bool kMinimum = true;
  static constexpr bool kSharesWords = true;
  const uint8_t* column;
  vf d;
  vf m;

  CLIKA_INLINE explicit FormatQ5_K(const uint8_t* packed)
      : column(packed), d(half_of_run(packed, 172, 0)), m(-half_of_run(packed, 172, 1)) {}
  CLIKA_INLINE vu codes(int part, int j) const {
    const vu low = shift_right(word_of_run(column, 0, part / 2 * 8 + j), part % 2 * 4) & 0x0f0f0f0fu;
    return low | (shift_right(word_of_run(column, 128, j), part) & 0x01010101u) << 4;
  }
  CLIKA_INLINE vf scale(int part, int) const { return d * whole(six_bits(column, 160, part, 0)); }
  CLIKA_INLINE vf minimum(int part, int) const { return m * whole(six_bits(column, 160, part, 4)); }
};

CLIKA_LINEAR(q5_k, Q5_K)
#include "level_end.hpp"
