// Activations over float32, bfloat16 and float16, computed in float32 and rounded once. The other dtypes
// stand in plain/activations.cpp.
#include "level.hpp"
#include "elementwise.hpp"
#include "each.hpp"
#include "math.hpp"
#include "activations.hpp"

constexpr Entry over(const char* name, clika_kernel_fn run) {
  return Entry(name, run).in(FLOATS).out(FLOATS).inplace();
}

CLIKA_KERNELS(activations, CLIKA_ACTIVATION_ENTRIES(over, float))
#include "level_end.hpp"
