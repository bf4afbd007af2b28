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
  // Where the instruction wants unsigned codes, tokens bring -128 * sum(q); elsewhere the sum is not read.
  static constexpr int kFactor = kSignedOffset == 0 ? 1 : -kSignedOffset;
  vu codes[8];
  vf d;

  CLIKA_INLINE explicit FormatQ8_0(const uint8_t* column) {
    for (int i = 0; i < 8; ++i) codes[i] = prepare_signed(step(column, i));
    d = load_halves(column + 32 * W);
  }

  CLIKA_INLINE vf multiply(const int8_t* q, float scale, uint32_t offset, vf sum) const {
    const vi start = kSignedOffset == 0 ? vi{} : splat_int(static_cast<int32_t>(offset));
    const vi dot = dot_signed(codes, q, start);
    return fma(to_floats(dot), d * splat(scale), sum);
  }

  static CLIKA_INLINE vu step(const uint8_t* column, int i) { return load_words(column + 4 * W * i); }

  struct Scale {
    vf d;
    CLIKA_INLINE explicit Scale(const uint8_t* column) : d(load_halves(column + 32 * W)) {}
  };
  static CLIKA_INLINE vf value(vu words, int c, const Scale& scale) {
    return scale.d * to_floats(signed_byte(words, c));
  }
};

CLIKA_KERNELS(linear_q8_0, Entry("linear", linear_quantized<FormatQ8_0>)
                               .in(FLOATS, CLIKA_ANY, FLOATS)
                               .schemes(0, CLIKA_BIT(CLIKA_GGUF_Q8_0), 0)
                               .out(FLOATS)
                               .rank(1, CLIKA_MAX_RANK)
                               .contiguous()
                               .parallel())
#include "level_end.hpp"
