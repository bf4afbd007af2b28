// sum, mean, prod, amax, amin over float32, bfloat16 and float16. The other dtypes stand in
// plain/reductions.cpp.
#include "level.hpp"
#include "elementwise.hpp"
#include "reduce.hpp"

template <class Op>
int32_t run(const clika_call* call) {
  static constexpr Fold<float> fold = fold_of<float, Op>();
  return reduce(call, fold);
}

constexpr Entry over(const char* name, clika_kernel_fn run) {
  return Entry(name, run).in(FLOATS).out(FLOATS);
}

CLIKA_KERNELS(reductions,
              over("sum", run<Sum<float, false>>),
              over("mean", run<Sum<float, true>>),
              over("prod", run<Product<float>>),
              over("amax", run<Extremum<float, 1>>),
              over("amin", run<Extremum<float, -1>>))
#include "level_end.hpp"
