// linear over TQ1_0: value = d * (q - 1) with q in 0 .. 2, five digits of base 3 to a byte.
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

typedef uint16_t vshorts __attribute__((vector_size(4 * W)));

struct FormatTQ1_0 {
  using Block = BlockTQ1_0;
  static constexpr Codes kCodes = Codes::kNibbles;
  static constexpr int kHalves = 1;
  static constexpr int kOffset = 1;
  static constexpr bool kMinimum = false;
  static constexpr float kNumbers[8] = {-1, 0, 1};
  const uint8_t* column;

  CLIKA_INLINE explicit FormatTQ1_0(const uint8_t* packed) : column(packed) {}
  // Words 0 .. 7 hold the digits of parts 0 .. 4, words 8 .. 11 those of parts 5, 6 and of half of part 7,
  // word 12 the rest.
  CLIKA_INLINE vu codes(int part, int j) const {
    if (part < 5) return digits(word_of_run(column, 0, j), part);
    if (part < 7 || j < 4) return digits(word_of_run(column, 32, j % 4), 2 * (part - 5) + j / 4);
    return digits(word_of_run(column, 48, 0), j - 4);
  }
  CLIKA_INLINE vf scale(int, int) const { return half_of_run(column, 52, 0); }

  // Digit n of every byte, see digit(): a byte on top of 16 bits overflows as it does in 8.
  static CLIKA_INLINE vu digits(vu words, int n) {
    constexpr uint16_t kPower[5] = {1, 3, 9, 27, 81};
    const vshorts bytes = reinterpret_cast<vshorts>(words);
    const vshorts even = ((bytes << 8) * kPower[n]) >> 8;
    const vshorts odd = ((bytes & uint16_t{0xff00}) * kPower[n]) >> 8;
    return reinterpret_cast<vu>(((even * uint16_t{3}) >> 8) | ((odd * uint16_t{3}) & uint16_t{0xff00}));
  }
};

CLIKA_LINEAR(tq1_0, TQ1_0)
#include "level_end.hpp"
