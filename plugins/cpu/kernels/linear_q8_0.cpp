// linear over Q8_0: value = d * q with q in -128 .. 127.
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

struct FormatQ8_0 {
  using Block = BlockQ8_0;
  static constexpr Codes kCodes = Codes::kSigned;
  static constexpr int kHalves = 1;
  static constexpr int kOffset = 0;
  static constexpr bool kMinimum = false;
  const uint8_t* column;

  CLIKA_INLINE explicit FormatQ8_0(const uint8_t* packed) : column(packed) {}
  CLIKA_INLINE vu codes(int, int j) const { return load_words(column + 4 * W * j); }
  CLIKA_INLINE vf scale(int, int) const { return load_halves(column + 32 * W); }
};

CLIKA_LINEAR(q8_0, Q8_0)
#include "level_end.hpp"
