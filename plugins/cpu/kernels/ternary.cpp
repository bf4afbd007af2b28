// Arithmetic of three operands over float32, bfloat16 and float16: computed in float32. The other dtypes
// stand in plain/ternary.cpp.
#include "level.hpp"
#include "elementwise.hpp"
#include "each.hpp"
#include "ternary.hpp"

constexpr Entry over(const char* name, clika_kernel_fn run) {
  return Entry(name, run).in(FLOATS).out(FLOATS).inplace();
}

CLIKA_KERNELS(ternary,
              over("lerp", run_each<Lerp, float, 3>),
              over("addcmul", run_each<Addcmul, float, 3>),
              over("addcdiv", run_each<Addcdiv, float, 3>))
#include "level_end.hpp"
