// Arithmetic of three operands over float64 and integers.
#include "level.hpp"
#include "elementwise.hpp"
#include "each.hpp"
#include "ternary.hpp"

int32_t run_addcmul(const clika_call* call) {
  return call->inputs[0].dtype == CLIKA_FLOAT64 ? run_each<Addcmul, double, 3>(call)
                                                : run_integers<Addcmul, 3>(call);
}

constexpr Entry over(const char* name, clika_kernel_fn run, uint64_t dtypes) {
  return Entry(name, run).in(dtypes).out(dtypes).inplace();
}

CLIKA_KERNELS(ternary,
              over("lerp", run_each<Lerp, double, 3>, F64),
              over("addcmul", run_addcmul, F64 | INTS),
              over("addcdiv", run_each<Addcdiv, double, 3>, F64))
#include "level_end.hpp"
