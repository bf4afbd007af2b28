// gated_linear: f(input . gate) * (input . up).
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
#include "interleaved.hpp"
#include "linear_formats.hpp"
#include "math.hpp"
#include "linear_gate.hpp"

constexpr Gate kGates[] = {Gate::kSwiglu, Gate::kGeglu, Gate::kGegluTanh};  // by the attribute

// Both products one after the other, then one times the other.
int32_t run_apart(const clika_call* call, Linear* products, const IntegerFormat* const* formats, Gate gate, bool fast) {
  const int64_t n = products[0].m * products[0].n;
  const clika_value& out = call->outputs[0];
  const int64_t bytes = n * (out.dtype == CLIKA_FLOAT32 ? 4 : 2);
  products[1].out = call->core->scratch(call, static_cast<size_t>(std::max<int64_t>(64, bytes)));
  if (products[1].out == nullptr) return CLIKA_UNAVAILABLE;
  for (int i = 0; i < 2; ++i) {
    const int32_t status = run_one(call, products + i, formats + i, fast);
    if (status != CLIKA_OK) return status;
  }
  visit_float(out.dtype, [&](auto tag) {
    using T = decltype(tag);
    T* const to = static_cast<T*>(products[0].out);
    const T* const other = static_cast<const T*>(products[1].out);
    parallel(call, n, 1 << 14, [&](int64_t begin, int64_t end, int32_t) {
      int64_t i = begin;
      for (; i + W <= end; i += W) store(to + i, gated(gate, load(to + i), load(other + i)));
      if (i < end) {
        store_partial(to + i, gated(gate, load_partial(to + i, end - i), load_partial(other + i, end - i)), end - i);
      }
    });
  });
  return CLIKA_OK;
}

// input, gate, up, gate_bias?, up_bias?; attrs activation, mode.
int32_t run(const clika_call* call) {
  const clika_value* biases[2] = {};
  for (uint32_t i = 0; i < 2; ++i) {
    if (present(call, 3 + i)) biases[i] = &call->inputs[3 + i];
  }
  Linear products[2];
  const IntegerFormat* formats[2];
  bool empty = false;
  int32_t status = read_products(call, call->inputs + 1, biases, 2, true, products, formats, &empty);
  if (status != CLIKA_OK || empty) return status;
  if (products[0].n != products[1].n) {
    return refuse(call, CLIKA_INVALID_ARGUMENT,
                  "gated_linear: gate and up must have the same rows, got %" PRId64 " and %" PRId64, products[0].n,
                  products[1].n);
  }
  const Gate gate = kGates[attr_int(call, 0, 0)];
  const bool fast = attr_int(call, 1, 0) != 0;
  if (fast && all_packed(formats, 2)) return run_integer(call, products, formats, 2, gate);
  if (run_interleaved(call, products, 2, gate, &status)) return status;
  return run_apart(call, products, formats, gate, fast);
}

CLIKA_KERNELS(gated_linear, Entry("gated_linear", run)
                                .in(FLOATS, FLOATS, FLOATS, FLOATS)
                                .schemes(0, kSchemes | DENSE, kSchemes | DENSE, 0)
                                .out(FLOATS)
                                .rank(1, CLIKA_MAX_RANK)
                                .contiguous()
                                .parallel())
#include "level_end.hpp"
