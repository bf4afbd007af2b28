// linear over IQ1_M: value = d / 8 * (2 scale + 1) * (8 q - 8 + shift) with q in 0 .. 2, in sub-blocks of 16.
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

#if CLIKA_X86 && CLIKA_LEVEL >= 1
// The points of the grid, and before them with bit 2 of each coordinate set: their shift is 1 / 8, not -1 / 8.
constexpr Points<4096> both_shifts() {
  constexpr Points<2048> points = in_halves(kGridIQ1);
  Points<4096> both = {};
  for (int i = 0; i < 4096; ++i) both.word[i] = points.word[i % 2048] | (i < 2048 ? 0x44444444u : 0u);
  return both;
}
constexpr auto kPoints = both_shifts();
constexpr int8_t kCodeOfIndex[16] = {0, 8, 16, 0, 2, 10, 18, 0};
#else
constexpr auto kPoints = in_halves(kGridIQ1);
#endif

struct FormatIQ1_M {
  using Block = BlockIQ1_M;
  static constexpr Codes kCodes = Codes::kFiveBits;
  static constexpr int kHalves = 2;
  static constexpr int kOffset = 9;
  static constexpr bool kMinimum = false;
  static constexpr float kNumbers[8] = {-9, -1, 7, 0, -7, 1, 9, 0};
  const uint8_t* column;
  vf d;

  CLIKA_INLINE explicit FormatIQ1_M(const uint8_t* packed)
      : column(packed), d(block_scale(packed) * 0.125f) {}
#if CLIKA_X86 && CLIKA_LEVEL >= 1
  CLIKA_INLINE Words codes(int part, int j) const {
    const Words words = indices(part, j);
    return {look_up(kCodeOfIndex, words.first), look_up(kCodeOfIndex, words.second)};
  }
  // A coordinate 0 .. 2, and 4 for the larger shift.
  CLIKA_INLINE Words indices(int part, int j) const {
    const vu low = (word_of_run(column, 0, part) >> (j / 2 * 8)) & 255u;
    const vu high = shift_right(word_of_run(column, 32, part / 2), part % 2 * 16) >> (j / 2 * 4);
    const vu point = gather(kPoints.word, low | (high & 15u) << 8);
    return {low_halves(point), high_halves(point)};
  }
#else
  CLIKA_INLINE Words codes(int part, int j) const {
    const vu low = (word_of_run(column, 0, part) >> (j / 2 * 8)) & 255u;
    const vu high = word_of_run(column, 32, part / 2) >> (part % 2 * 16 + j / 2 * 4);
    const vu point = gather(kPoints.word, low | (high & 7u) << 8);
    const vu shift = (high & 8u) == 0u ? vu{} + 0x02020202u : vu{};
    return {(low_halves(point) << 3) + shift, (high_halves(point) << 3) + shift};
  }
#endif
  CLIKA_INLINE vf scale(int part, int half) const {
    const int at = part / 2 % 2 * 16 + part % 2 * 6 + half * 3;
    const vu number = shift_right(word_of_run(column, 48, part / 4), at);
    return d * whole(2u * (number & 7u) + 1u);
  }

  // The float16 of the block is the top four bits of four numbers.
  static CLIKA_INLINE vf block_scale(const uint8_t* packed) {
    const vu first = word_of_run(packed, 48, 0);
    const vu second = word_of_run(packed, 48, 1);
    const vh bits = __builtin_convertvector((first >> 12 & 0xfu) | (first >> 24 & 0xf0u) |
                                                (second >> 4 & 0xf00u) | (second >> 16 & 0xf000u),
                                            vh);
    return load_halves(reinterpret_cast<const uint8_t*>(&bits));
  }
};

CLIKA_LINEAR(iq1_m, IQ1_M)
#include "level_end.hpp"
