// linear over Q4_1: value = d * q + m with q in 0 .. 15.
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

struct FormatQ4_1 {
  using Block = BlockQ4_1;
  static constexpr int kFactor = 0;  // tokens bring d * sum(q) for the minimum
  vu codes[8];
  vf d;
  vf m;

  CLIKA_INLINE explicit FormatQ4_1(const uint8_t* column) {
    for (int j = 0; j < 4; ++j) {
      const vu words = load_words(column + 4 * W * j);
      codes[j] = low_halves(words);
      codes[4 + j] = high_halves(words);
    }
    d = load_halves(column + 16 * W);
    m = load_halves(column + 18 * W);
  }

  CLIKA_INLINE vf multiply(const int8_t* q, float scale, uint32_t scaled_sum, vf sum) const {
    const vi dot = dot_codes(codes, q, vi{});
    sum = fma(to_floats(dot), d * splat(scale), sum);
    return fma(m, splat(float_of(scaled_sum)), sum);
  }

  static CLIKA_INLINE void expand(const uint8_t* column, float* panel) {
    const vf d = load_halves(column + 16 * W);
    const vf m = load_halves(column + 18 * W);
    for (int half = 0; half < 8; half += 4) {
      for (int j = 0; j < 4; ++j) {
        const vu words = load_words(column + 4 * W * j);
        for (int c = 0; c < 4; ++c) {
          // The product is exact (11 + 4 bits), so the fused form rounds as a product and a sum do.
          store(panel, fma(d, to_floats(code(words, half + 8 * c)), m));
          panel += W;
        }
      }
    }
  }
};

CLIKA_KERNELS(linear_q4_1, Entry("linear", linear_quantized<FormatQ4_1>)
                               .in(FLOATS, CLIKA_ANY, FLOATS)
                               .schemes(0, CLIKA_BIT(CLIKA_GGUF_Q4_1), 0)
                               .out(FLOATS)
                               .rank(1, CLIKA_MAX_RANK)
                               .contiguous()
                               .parallel())
#include "level_end.hpp"
