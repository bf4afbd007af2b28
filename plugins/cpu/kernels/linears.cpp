// linears: the products of one input with several weights.
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

// input, weights, biases?; attr mode.
int32_t run_linears(const clika_call* call) {
  const clika_value& list = call->inputs[1];
  if (list.n_items > kMostProducts) {
    return refuse(call, CLIKA_UNSUPPORTED, "linears: %d weights; at most %d are multiplied at once",
                  static_cast<int>(list.n_items), static_cast<int>(kMostProducts));
  }
  const clika_value* biases[kMostProducts] = {};
  if (present(call, 2)) {
    for (int32_t i = 0; i < call->inputs[2].n_items; ++i) biases[i] = &call->inputs[2].items[i];
  }
  Linear products[kMostProducts];
  const IntegerFormat* formats[kMostProducts];
  bool empty = false;
  int32_t status = read_products(call, list.items, biases, list.n_items, false, products, formats, &empty);
  if (status != CLIKA_OK || empty) return status;
  const bool fast = attr_int(call, 0, 0) != 0;
  if (fast && all_packed(formats, list.n_items)) return run_integer(call, products, formats, list.n_items, Gate::kNone);
  if (run_interleaved(call, products, list.n_items, Gate::kNone, &status)) return status;
  for (int32_t i = 0; i < list.n_items; ++i) {
    if (products[i].n == 0) continue;
    const int32_t done = run_one(call, products + i, formats + i, fast);
    if (done != CLIKA_OK) return done;
  }
  return CLIKA_OK;
}

CLIKA_KERNELS(linears, Entry("linears", run_linears)
                           .in(FLOATS, FLOATS, FLOATS)
                           .schemes(0, kSchemes | DENSE, 0)
                           .out(FLOATS)
                           .rank(1, CLIKA_MAX_RANK)
                           .contiguous()
                           .parallel())
#include "level_end.hpp"
