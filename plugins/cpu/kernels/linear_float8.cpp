// linear over FP8_E4M3 and FP8_E5M2: value = d * q.
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
struct FormatFloat8 {
  using Block = B;
  static constexpr Codes kCodes = Codes::kFloats;
  static constexpr int kHalves = 1;
  static constexpr int kOffset = 0;
  static constexpr bool kMinimum = false;
  const uint8_t* column;

  CLIKA_INLINE explicit FormatFloat8(const uint8_t* packed) : column(packed) {}
  CLIKA_INLINE vu codes(int, int j) const { return word_of_run(column, 0, j); }
  CLIKA_INLINE vf scale(int, int) const { return float_of_run(column, 32, 0); }
};
struct FormatFP8_E4M3 : FormatFloat8<BlockFP8_E4M3> {
  CLIKA_INLINE explicit FormatFP8_E4M3(const uint8_t* packed) : FormatFloat8(packed) {}
  static CLIKA_INLINE vf number(vu words, int c) {
    const vu x = reinterpret_cast<vu>(unsigned_byte(words, c));
    const vf magnitude = magnitude_e4m3<0>(x & 127u);
    return reinterpret_cast<vf>(reinterpret_cast<vu>(magnitude) | (x & 128u) << 24);
  }
};
struct FormatFP8_E5M2 : FormatFloat8<BlockFP8_E5M2> {
  CLIKA_INLINE explicit FormatFP8_E5M2(const uint8_t* packed) : FormatFloat8(packed) {}
  static CLIKA_INLINE vf number(vu words, int c) {  // as magnitude_e4m3, with infinities
    const vu byte = reinterpret_cast<vu>(unsigned_byte(words, c));
    const vu x = byte & 127u;
    const vf normal = reinterpret_cast<vf>((x << 21) + (112u << 23));
    const vf value = x < 4u ? normal + normal - 0x1p-14f : normal;
    const vu bits = x > 123u ? 0x7f800000u + ((x & 3u) << 21) : reinterpret_cast<vu>(value);
    return reinterpret_cast<vf>(bits | (byte & 128u) << 24);
  }
};

CLIKA_KERNELS(linear_float8, CLIKA_LINEAR_ENTRY(FormatFP8_E4M3, CLIKA_FP8_E4M3),
              CLIKA_LINEAR_ENTRY(FormatFP8_E5M2, CLIKA_FP8_E5M2))
#include "level_end.hpp"
