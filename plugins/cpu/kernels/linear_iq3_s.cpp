// linear over IQ3_S: value = d * (2 scale + 1) * point, in sub-blocks of 32.
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

// 15 plus or minus the magnitude of a coordinate; bit 3 is the sign.
constexpr int8_t kShifted[16] = {16, 18, 20, 22, 24, 26, 28, 30, 14, 12, 10, 8, 6, 4, 2, 0};
constexpr auto kPoints = in_bytes(kGridIQ3_S);

struct FormatIQ3_S {
  using Block = BlockIQ3_S;
  static constexpr Codes kCodes = Codes::kUnsigned;
  static constexpr int kHalves = 1;
  static constexpr int kOffset = 15;
  static constexpr bool kMinimum = false;
  const uint8_t* column;
  vf d;

  CLIKA_INLINE explicit FormatIQ3_S(const uint8_t* packed) : column(packed), d(half_of_run(packed, 108, 0)) {}
  CLIKA_INLINE vu codes(int part, int j) const {
    const vu low = (word_of_run(column, 0, 2 * part + j / 4) >> (j % 4 * 8)) & 255u;
    const vu high = (word_of_run(column, 96, part / 4) >> (part % 4 * 8 + j)) & 1u;
    const vu sign = spread_bits(word_of_run(column, 64, part), 4 * j) & 0x08080808u;
    return look_up(kShifted, gather(kPoints.word, low | high << 8) | sign);
  }
  CLIKA_INLINE vf scale(int part, int) const {
    const vu number = (word_of_run(column, 104, 0) >> (4 * part)) & 15u;
    return d * whole(2u * number + 1u);
  }
};

CLIKA_LINEAR(iq3_s, IQ3_S)
#include "level_end.hpp"
