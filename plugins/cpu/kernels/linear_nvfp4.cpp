// linear over NVFP4: value = scale * kFloat4[q], in sub-blocks of 16.
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

struct FormatNVFP4 {
  using Block = BlockNVFP4;
  static constexpr Codes kCodes = Codes::kFiveBits;
  static constexpr int kHalves = 2;
  static constexpr int kOffset = 12;
  static constexpr bool kMinimum = false;
  static constexpr bool kLongScale = true;
  const uint8_t* column;

  CLIKA_INLINE explicit FormatNVFP4(const uint8_t* packed) : column(packed) {}
  CLIKA_INLINE vu codes(int part, int j) const {
    const vu words = word_of_run(column, 0, 4 * part + j / 4 * 2 + j % 2);
    return look_up(kShifted, j % 4 < 2 ? low_halves(words) : high_halves(words));
  }
  CLIKA_INLINE vf scale(int part, int half) const {  // see half_float8
    const vu bits = (word_of_run(column, 32, 0) >> (16 * part + 8 * half)) & 255u;
    const vu rest = bits & 127u;
    const vf normal = reinterpret_cast<vf>((rest << 20) + (119u << 23));
    const vf small = whole(rest) * 0x1p-10f;
    const vf value = rest < 8u ? small : normal;
    return bits == 127u ? zero() : value;
  }
};

CLIKA_LINEAR(nvfp4, NVFP4)
#include "level_end.hpp"
