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
    for (int i = 0; i < 8; ++i) codes[i] = step(column, i);
    d = load_halves(column + 16 * W);
    m = load_halves(column + 18 * W);
  }

  CLIKA_INLINE vf multiply(const int8_t* q, float scale, uint32_t scaled_sum, vf sum) const {
    const vi dot = dot_codes(codes, q, vi{});
    sum = fma(to_floats(dot), d * splat(scale), sum);
    return fma(m, splat(float_of(scaled_sum)), sum);
  }

  static CLIKA_INLINE vu step(const uint8_t* column, int i) {
    const vu words = load_words(column + 4 * W * (i % 4));
    return i < 4 ? low_halves(words) : high_halves(words);
  }

  struct Scale {
    vf d;
    vf m;
    CLIKA_INLINE explicit Scale(const uint8_t* column)
        : d(load_halves(column + 16 * W)), m(load_halves(column + 18 * W)) {}
  };
  // The product is exact (11 + 4 bits), so the fused form rounds as a product and a sum do.
  static CLIKA_INLINE vf value(vu words, int c, const Scale& scale) {
    return fma(scale.d, to_floats(unsigned_byte(words, c)), scale.m);
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
