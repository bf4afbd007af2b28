// linear over MXFP4: value = 2^(e - 128) * kFloat4[q].
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

// kFloat4 + 12.
constexpr int8_t kShifted[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

struct FormatMXFP4 {
  using Block = BlockMXFP4;
  static constexpr Codes kCodes = Codes::kFiveBits;
  static constexpr int kHalves = 1;
  static constexpr int kOffset = 12;
  static constexpr bool kMinimum = false;
  static constexpr bool kLongScale = true;
  const uint8_t* column;

  CLIKA_INLINE explicit FormatMXFP4(const uint8_t* packed) : column(packed) {}
  CLIKA_INLINE vu codes(int, int j) const {
    const vu words = word_of_run(column, 0, j % 4);
    return look_up(kShifted, j < 4 ? low_halves(words) : high_halves(words));
  }
  CLIKA_INLINE vf scale(int, int) const {  // see half_power
    const vu e = byte_of_run(column, 16, 0);
    const vu subnormal = 0x200000u + e * 0x200000u;
    return reinterpret_cast<vf>(e < 2u ? subnormal : (e - 1u) << 23);
  }
};

CLIKA_LINEAR(mxfp4, MXFP4)
#include "level_end.hpp"
