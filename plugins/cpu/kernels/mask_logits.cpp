// mask_logits: -inf for the tokens whose bit is 0, in place: output 0 is the memory of input 0.
#include "level.hpp"

constexpr float kNone = -std::numeric_limits<float>::infinity();

// 32 logits in one piece, one after the other.
CLIKA_INLINE void mask_word(float* x, uint32_t bits, vi lanes) {
  for (int i = 0; i < 32; i += W) {
    const vf y = load(x + i);
    // W divides 32: the bits of these lanes stand at the bottom.
    const vi allowed = (splat_int(static_cast<int32_t>(bits >> i)) & lanes) != 0;
    store(x + i, select(allowed | (y != y), y, splat(kNone)));
  }
}

// logits [R, V], mask [R, ceil(V / 32)].
int32_t run(const clika_call* call) {
  clika_value& logits = call->outputs[0];
  const clika_value& mask = call->inputs[1];
  const int64_t n = logits.shape[1];
  const int64_t step = logits.strides[1];
  const int64_t words = (n + 31) / 32;
  if (mask.shape[1] != words) {
    return refuse(call, "mask_logits: mask has %lld words of 32 bits, %lld logits need %lld",
                  static_cast<long long>(mask.shape[1]), static_cast<long long>(n), static_cast<long long>(words));
  }
  vi lanes;
  for (int k = 0; k < W; ++k) lanes[k] = static_cast<int32_t>(uint32_t{1} << k);
  const int64_t grain = std::max<int64_t>(1, 65536 / std::max<int64_t>(1, n));
  parallel(call, logits.shape[0], grain, [&](int64_t first, int64_t last, int32_t) {
    for (int64_t r = first; r < last; ++r) {
      float* x = data_of<float>(logits) + r * logits.strides[0];
      const int32_t* row = data_of<int32_t>(mask) + r * mask.strides[0];
      for (int64_t w = 0; w < words; ++w) {
        const uint32_t bits = static_cast<uint32_t>(row[w * mask.strides[1]]);
        if (bits == 0xFFFFFFFFu) continue;
        if (step == 1 && 32 * w + 32 <= n) {
          mask_word(x + 32 * w, bits, lanes);
          continue;
        }
        for (int64_t i = 32 * w; i < std::min(n, 32 * w + 32); ++i) {
          float& y = x[i * step];
          if (((bits >> (i % 32)) & 1u) == 0 && y == y) y = kNone;
        }
      }
    }
  });
  return CLIKA_OK;
}

CLIKA_KERNELS(mask_logits, Entry("mask_logits", run).in(F32, I32).out(F32).inplace())
#include "level_end.hpp"
