// swiglu: silu(gate) * up, in float32 with one rounding.
#include "level.hpp"
#include "elementwise.hpp"

void tile(const float* gate, const float* up, float* out, int64_t n, const Params&) {
  int64_t i = 0;
  for (; i + W <= n; i += W) store(out + i, vsilu(load(gate + i)) * load(up + i));
  if (i < n)
    store_partial(out + i, vsilu(load_partial(gate + i, n - i)) * load_partial(up + i, n - i), n - i);
}

int32_t run(const clika_call* call) { return drive_binary<float>(call, tile, Params()); }

CLIKA_KERNELS(swiglu, Entry("swiglu", run).in(FLOATS).out(FLOATS).inplace())
#include "level_end.hpp"
