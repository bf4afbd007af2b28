// linear over INT4_G32, INT4_G128 (value = d * q + m) and INT8_G32 (value = d * q): float32 scales.
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

template <class B>
struct FormatInt4 {
  using Block = B;
  static constexpr Codes kCodes = Codes::kNibbles;
  static constexpr int kHalves = 1;
  static constexpr int kOffset = 0;
  static constexpr bool kMinimum = true;
  static constexpr int kFloatsAt = B::kColumns / 2;
  const uint8_t* column;

  CLIKA_INLINE explicit FormatInt4(const uint8_t* packed) : column(packed) {}
  CLIKA_INLINE vu codes(int part, int j) const {
    const vu words = word_of_run(column, 0, 4 * part + j % 4);
    return j < 4 ? low_halves(words) : high_halves(words);
  }
  CLIKA_INLINE vf scale(int, int) const { return float_of_run(column, kFloatsAt, 0); }
  CLIKA_INLINE vf minimum(int, int) const { return float_of_run(column, kFloatsAt, 1); }
};

struct FormatINT8_G32 {
  using Block = BlockINT8_G32;
  static constexpr Codes kCodes = Codes::kSigned;
  static constexpr int kHalves = 1;
  static constexpr int kOffset = 0;
  static constexpr bool kMinimum = false;
  const uint8_t* column;

  CLIKA_INLINE explicit FormatINT8_G32(const uint8_t* packed) : column(packed) {}
  CLIKA_INLINE vu codes(int, int j) const { return word_of_run(column, 0, j); }
  CLIKA_INLINE vf scale(int, int) const { return float_of_run(column, 32, 0); }
};

using FormatINT4_G32 = FormatInt4<BlockINT4_G32>;
using FormatINT4_G128 = FormatInt4<BlockINT4_G128>;
CLIKA_LINEAR_FORMAT(INT4_G32, CLIKA_INT4_G32)
CLIKA_LINEAR_FORMAT(INT4_G128, CLIKA_INT4_G128)
CLIKA_LINEAR_FORMAT(INT8_G32, CLIKA_INT8_G32)
CLIKA_KERNELS(linear_int, CLIKA_LINEAR_ENTRY(INT4_G32, CLIKA_INT4_G32),
              CLIKA_LINEAR_ENTRY(INT4_G128, CLIKA_INT4_G128),
              CLIKA_LINEAR_ENTRY(INT8_G32, CLIKA_INT8_G32))
#include "level_end.hpp"
