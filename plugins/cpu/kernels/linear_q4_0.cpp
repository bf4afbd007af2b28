// linear over Q4_0: value = d * (q - 8) with q in 0 .. 15.
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

struct FormatQ4_0 {
  using Block = BlockQ4_0;
  static constexpr int kFactor = -8;  // tokens bring -8 * sum(q): the offset is taken off in integers
  vu codes[8];
  vf d;

  CLIKA_INLINE explicit FormatQ4_0(const uint8_t* column) {
    for (int i = 0; i < 8; ++i) codes[i] = step(column, i);
    d = load_halves(column + 16 * W);
  }

  CLIKA_INLINE vf multiply(const int8_t* q, float scale, uint32_t offset, vf sum) const {
    const vi dot = dot_codes(codes, q, splat_int(static_cast<int32_t>(offset)));
    return fma(to_floats(dot), d * splat(scale), sum);
  }

  static CLIKA_INLINE vu step(const uint8_t* column, int i) {
    const vu words = load_words(column + 4 * W * (i % 4));
    return i < 4 ? low_halves(words) : high_halves(words);
  }

  struct Scale {
    vf d;
    CLIKA_INLINE explicit Scale(const uint8_t* column) : d(load_halves(column + 16 * W)) {}
  };
  static CLIKA_INLINE vf value(vu words, int c, const Scale& scale) {
    return scale.d * to_floats(unsigned_byte(words, c) - 8);
  }
};

CLIKA_KERNELS(linear_q4_0, Entry("linear", linear_quantized<FormatQ4_0>)
                               .in(FLOATS, CLIKA_ANY, FLOATS)
                               .schemes(0, CLIKA_BIT(CLIKA_GGUF_Q4_0), 0)
                               .out(FLOATS)
                               .rank(1, CLIKA_MAX_RANK)
                               .contiguous()
                               .parallel())
#include "level_end.hpp"
