// sum, mean, prod, amax, amin over float64, integers and bool; any and all.
#include "level.hpp"
#include "elementwise.hpp"
#include "reduce.hpp"

template <class C, class Op>
int32_t run_as(const clika_call* call) {
  static constexpr Fold<C> fold = fold_of<C, Op>();
  return reduce(call, fold);
}
template <template <class> class Op>
int32_t run(const clika_call* call) {
  switch (compute_of(call->inputs[0].dtype)) {
    case kDouble:
      return run_as<double, Op<double>>(call);
    case kInt:
      return run_as<int64_t, Op<int64_t>>(call);
    case kUint:
      return run_as<uint64_t, Op<uint64_t>>(call);
    default:
      return no_compute(call);
  }
}
template <class C>
using Total = Sum<C, false>;
template <class C>
using Largest = Extremum<C, 1>;
template <class C>
using Smallest = Extremum<C, -1>;

int32_t run_mean(const clika_call* call) { return run_as<double, Sum<double, true>>(call); }
int32_t run_any(const clika_call* call) { return run_as<int64_t, Truth<false>>(call); }
int32_t run_all(const clika_call* call) { return run_as<int64_t, Truth<true>>(call); }

constexpr Entry over(const char* name, clika_kernel_fn run, uint64_t dtypes) {
  return Entry(name, run).in(dtypes).out(dtypes);
}

CLIKA_KERNELS(reductions,
              over("sum", run<Total>, F64 | INTS),
              over("mean", run_mean, F64),
              over("prod", run<Product>, F64 | INTS),
              over("amax", run<Largest>, F64 | INTS | BOOL),
              over("amin", run<Smallest>, F64 | INTS | BOOL),
              over("any", run_any, BOOL),
              over("all", run_all, BOOL))
#include "level_end.hpp"
