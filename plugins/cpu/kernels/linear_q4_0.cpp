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
    for (int j = 0; j < 4; ++j) {
      const vu words = load_words(column + 4 * W * j);
      codes[j] = low_halves(words);
      codes[4 + j] = high_halves(words);
    }
    d = load_halves(column + 16 * W);
  }

  CLIKA_INLINE vf multiply(const int8_t* q, float scale, uint32_t offset, vf sum) const {
    const vi dot = dot_codes(codes, q, splat_int(static_cast<int32_t>(offset)));
    return fma(to_floats(dot), d * splat(scale), sum);
  }

  static CLIKA_INLINE void expand(const uint8_t* column, float* panel) {
    const vf d = load_halves(column + 16 * W);
    for (int half = 0; half < 8; half += 4) {
      for (int j = 0; j < 4; ++j) {
        const vu words = load_words(column + 4 * W * j);
        for (int c = 0; c < 4; ++c) {
          store(panel, d * to_floats(code(words, half + 8 * c) - 8));
          panel += W;
        }
      }
    }
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
