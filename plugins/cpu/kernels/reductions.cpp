// Reductions over float32, bfloat16 and float16, and those that look at truth values. The other dtypes stand in
// plain/reductions.cpp.
#include "level.hpp"
#include "elementwise.hpp"
#include "truth.hpp"
#include "reduce.hpp"
#include "folds.hpp"

template <int64_t kResult>
int32_t run_truth(const clika_call* call) {
  static constexpr Fold<uint8_t> fold = fold_of<uint8_t, Truths>();
  Params params;
  params.i = kResult;
  return reduce(call, fold, params);
}

constexpr Entry over(const char* name, clika_kernel_fn run) {
  return Entry(name, run).in(FLOATS).out(FLOATS);
}
constexpr Entry truth(const char* name, clika_kernel_fn run, uint64_t out) {
  return Entry(name, run).in(FLOATS | F64 | INTS | BOOL).out(out);
}

CLIKA_KERNELS(reductions,
              over("sum", reduce_by<float, Sum<float, kSum>>),
              over("mean", reduce_by<float, Sum<float, kMean>>),
              over("nansum", reduce_by<float, Sum<float, kNanSum>>),
              over("nanmean", reduce_by<float, Sum<float, kNanMean>>),
              over("prod", reduce_by<float, Product<float>>),
              over("amax", reduce_by<float, Extremum<float, 1>>),
              over("amin", reduce_by<float, Extremum<float, -1>>),
              over("aminmax", reduce_by<float, Extremes<float>>),
              over("var", reduce_spread<float, kVar>),
              over("std", reduce_spread<float, kStd>),
              over("var_mean", reduce_spread<float, kVarMean>),
              over("std_mean", reduce_spread<float, kStdMean>),
              over("logsumexp", reduce_by<float, LogSumExp<float>>),
              over("vector_norm", reduce_norm<float>),
              truth("count_nonzero", run_truth<0>, I64),
              truth("any", run_truth<1>, BOOL),
              truth("all", run_truth<2>, BOOL))
#include "level_end.hpp"
