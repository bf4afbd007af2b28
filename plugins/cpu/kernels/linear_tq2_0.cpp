// linear over TQ2_0: value = d * (q - 1) with q in 0 .. 2.
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

struct FormatTQ2_0 {
  using Block = BlockTQ2_0;
  static constexpr Codes kCodes = Codes::kNibbles;
  static constexpr int kHalves = 1;
  static constexpr int kOffset = 1;
  static constexpr bool kMinimum = false;
  static constexpr float kNumbers[8] = {-1, 0, 1, 2};
  const uint8_t* column;

  CLIKA_INLINE explicit FormatTQ2_0(const uint8_t* packed) : column(packed) {}
  CLIKA_INLINE vu codes(int part, int j) const {
    return shift_right(word_of_run(column, 0, part / 4 * 8 + j), part % 4 * 2) & 0x03030303u;
  }
  CLIKA_INLINE vf scale(int, int) const { return half_of_run(column, 64, 0); }
};

CLIKA_LINEAR(tq2_0, TQ2_0)
#include "level_end.hpp"
