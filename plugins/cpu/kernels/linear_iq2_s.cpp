// linear over IQ2_S: value = d / 8 * (2 scale + 1) * point, in sub-blocks of 16.
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

// 43 plus or minus the magnitude of a coordinate; bit 2 is the sign.
constexpr int8_t kShifted[16] = {51, 68, 86, 43, 35, 18, 0, 43};
constexpr auto kPoints = in_halves(kGridIQ2_S);

struct FormatIQ2_S {
  using Block = BlockIQ2_S;
  static constexpr Codes kCodes = Codes::kUnsigned;
  static constexpr int kHalves = 2;
  static constexpr int kOffset = 43;
  static constexpr bool kMinimum = false;
  const uint8_t* column;
  vf d;

  CLIKA_INLINE explicit FormatIQ2_S(const uint8_t* packed)
      : column(packed), d(half_of_run(packed, 80, 0) * 0.125f) {}
  CLIKA_INLINE Words codes(int part, int j) const {
    const vu low = (word_of_run(column, 0, part) >> (j / 2 * 8)) & 255u;
    const vu high = (word_of_run(column, 64, part / 4) >> (part % 4 * 8 + j / 2 * 2)) & 3u;
    const vu point = gather(kPoints.word, low | high << 8);
    return signed_point(kShifted, point, word_of_run(column, 32, part), 4 * j);
  }
  CLIKA_INLINE vf scale(int part, int half) const {
    const vu number = (word_of_run(column, 72, part / 4) >> (part % 4 * 8 + half * 4)) & 15u;
    return d * whole(2u * number + 1u);
  }
};

CLIKA_LINEAR(iq2_s, IQ2_S)
#include "level_end.hpp"
