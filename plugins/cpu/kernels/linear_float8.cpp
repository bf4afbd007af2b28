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
#if CLIKA_ARM || CLIKA_LEVEL >= 1
// A float8 is a bfloat16 too. Four of them are made at once, as their upper and their lower bytes: by the
// halves of a byte from tables, with other ones for subnormal numbers.
typedef uint8_t vbyte __attribute__((vector_size(4 * W)));
CLIKA_INLINE vu bytes_equal(vu words, uint8_t to) {
  return reinterpret_cast<vu>(reinterpret_cast<vbyte>(words) == to);
}
CLIKA_INLINE vu choose(vu mask, vu yes, vu no) { return (mask & yes) | (~mask & no); }
// Column c out of the bytes of bfloat16.
CLIKA_INLINE vf float_of_bytes(vu high, vu low, int c) {
  const vu pair = c % 2 == 0 ? (low & 0x00ff00ffu) | (high & 0x00ff00ffu) << 8
                             : ((low >> 8) & 0x00ff00ffu) | (high & 0xff00ff00u);
  return reinterpret_cast<vf>(c < 2 ? pair << 16 : pair & 0xffff0000u);
}
// By the sign and three bits of the exponent: the upper byte, without the exponent's other bits.
constexpr int8_t kHigh4[16] = {60, 61, 62, 63, 64, 65, 66, 67, -68, -67, -66, -65, -64, -63, -62, -61};
constexpr int8_t kHigh5[16] = {56, 58, 60, 62, 64, 66, 68, 70, -72, -70, -68, -66, -64, -62, -60, -58};
// By the low half of a subnormal number: m * 2^-9 and m * 2^-16.
constexpr int8_t kSmallHigh4[16] = {0, 0x3b, 0x3b, 0x3b, 0x3c, 0x3c, 0x3c, 0x3c};
constexpr int8_t kSmallLow4[16] = {0, 0, -128, -64, 0, 0x20, 0x40, 0x60};
constexpr int8_t kSmallHigh5[16] = {0, 0x37, 0x38, 0x38};
constexpr int8_t kSmallLow5[16] = {0, -128, 0, 0x40};

struct FormatFP8_E4M3 : FormatFloat8<BlockFP8_E4M3> {
  CLIKA_INLINE explicit FormatFP8_E4M3(const uint8_t* packed) : FormatFloat8(packed) {}
  static CLIKA_INLINE vf number(vu words, int c) {
    const vu half = low_halves(words);
    const vu small = bytes_equal(words & 0x78787878u, 0);
    const vu nan = bytes_equal(words & 0x7f7f7f7fu, 0x7f) & 0x7f7f7f7fu;
    const vu high = choose(small, look_up(kSmallHigh4, half) | (words & 0x80808080u),
                           look_up(kHigh4, high_halves(words)) | nan);
    return float_of_bytes(high, choose(small, look_up(kSmallLow4, half), half << 4), c);
  }
};
struct FormatFP8_E5M2 : FormatFloat8<BlockFP8_E5M2> {
  CLIKA_INLINE explicit FormatFP8_E5M2(const uint8_t* packed) : FormatFloat8(packed) {}
  static CLIKA_INLINE vf number(vu words, int c) {
    const vu half = low_halves(words);
    const vu small = bytes_equal(words & 0x7c7c7c7cu, 0);
    const vu infinite = bytes_equal(words & 0x7c7c7c7cu, 0x7c) & 0x7f7f7f7fu;
    const vu bit = (half >> 3) & 0x01010101u;
    const vu high = choose(small, look_up(kSmallHigh5, half) | (words & 0x80808080u),
                           (look_up(kHigh5, high_halves(words)) | bit) | infinite);
    const vu low = choose(small, look_up(kSmallLow5, half), (half << 5) & 0xe0e0e0e0u);
    return float_of_bytes(high, low, c);
  }
};
#else
// Without instructions that look bytes up: by arithmetic.
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
#endif

CLIKA_LINEAR_FORMAT(FP8_E4M3, CLIKA_FP8_E4M3)
CLIKA_LINEAR_FORMAT(FP8_E5M2, CLIKA_FP8_E5M2)
CLIKA_KERNELS(linear_float8, CLIKA_LINEAR_ENTRY(FP8_E4M3, CLIKA_FP8_E4M3),
              CLIKA_LINEAR_ENTRY(FP8_E5M2, CLIKA_FP8_E5M2))
#include "level_end.hpp"
