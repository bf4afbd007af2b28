// geglu: gelu(gate) * up, in float32 with one rounding. Attribute approximate: 0 none, 1 tanh.
#include "level.hpp"
#include "elementwise.hpp"
#include "math.hpp"

template <bool kTanh>
CLIKA_INLINE vf gated(vf gate, vf up) {
  return (kTanh ? vgelu_tanh(gate) : vgelu(gate)) * up;
}

template <bool kTanh>
void tile(const float* gate, const float* up, float* out, int64_t n, const Params&) {
  int64_t i = 0;
  for (; i + W <= n; i += W) store(out + i, gated<kTanh>(load(gate + i), load(up + i)));
  if (i < n) {
    const vf y = gated<kTanh>(load_partial(gate + i, n - i), load_partial(up + i, n - i));
    store_partial(out + i, y, n - i);
  }
}

int32_t run(const clika_call* call) {
  return drive_binary<float>(call, attr_int(call, 0, 0) == 1 ? tile<true> : tile<false>, Params());
}

CLIKA_KERNELS(geglu, Entry("geglu", run).in(FLOATS).out(FLOATS).inplace())
#include "level_end.hpp"
