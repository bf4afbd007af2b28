// Reductions over float64, integers and bool; trace and dist.
#include "level.hpp"
#include "elementwise.hpp"
#include "truth.hpp"
#include "reduce.hpp"
#include "folds.hpp"

template <template <class> class Op>
int32_t run(const clika_call* call) {
  switch (compute_of(call->inputs[0].dtype)) {
    case kDouble:
      return reduce_by<double, Op<double>>(call);
    case kInt:
      return reduce_by<int64_t, Op<int64_t>>(call);
    case kUint:
      return reduce_by<uint64_t, Op<uint64_t>>(call);
    default:
      return no_compute(call);
  }
}
template <class C>
using Total = Sum<C, kSum>;
template <class C>
using Largest = Extremum<C, 1>;
template <class C>
using Smallest = Extremum<C, -1>;

// The sum of the main diagonal: a tensor of one dim, whose step is that of both.
template <class C>
int32_t trace(const clika_call* call) {
  static constexpr Fold<C> fold = fold_of<C, Total<C>>();
  const clika_value& in = call->inputs[0];
  const int64_t n = std::min(in.shape[0], in.shape[1]);
  const int64_t step = in.strides[0] + in.strides[1];
  clika_value diagonal = in;
  diagonal.rank = 1;
  diagonal.shape = &n;
  diagonal.strides = &step;
  return Reducer<C>(call, diagonal, clika_attr{}, fold, Params{}).run();
}
int32_t run_trace(const clika_call* call) {
  switch (compute_of(call->inputs[0].dtype)) {
    case kFloat:
      return trace<float>(call);
    case kDouble:
      return trace<double>(call);
    case kUint:
      return trace<uint64_t>(call);
    default:
      return trace<int64_t>(call);
  }
}

// The norm of the differences of two tensors, broadcast to one shape. Attribute p.
template <class C>
int32_t dist(const clika_call* call) {
  const clika_value& a = call->inputs[0];
  const clika_value& b = call->inputs[1];
  Params params;
  params.f = call->attrs[0].kind == CLIKA_ATTR_FLOAT ? call->attrs[0].v.f : static_cast<double>(call->attrs[0].v.i);
  const Fold<C>& fold = norm_fold<C>(params.f);
  int64_t shape[CLIKA_MAX_RANK];
  clika_value both = a;
  both.rank = std::max(a.rank, b.rank);
  both.shape = shape;
  both.strides = shape;  // not looked at
  for (int32_t d = 0; d < both.rank; ++d) {
    const int32_t i = d - (both.rank - a.rank);
    const int32_t k = d - (both.rank - b.rank);
    shape[d] = i < 0 || (k >= 0 && a.shape[i] == 1) ? b.shape[k] : a.shape[i];
  }
  const Walk<3> walk({&both, &a, &b});
  const LoadTile<C> load_a = Tiles<C>::loader(a.dtype);
  const LoadTile<C> load_b = Tiles<C>::loader(b.dtype);
  double carry[kParts] = {fold.start[0]};
  int64_t seen = 0;
  walk.run(0, walk.outer * walk.length, kTile, [&](const int64_t* at, int64_t n) {
    C x[kTile];
    C y[kTile];
    load_a(x, a.data, at[1], walk.step[1], n);
    load_b(y, b.data, at[2], walk.step[2], n);
    for (int64_t i = 0; i < n; ++i) x[i] -= y[i];
    fold.tile(carry, x, n, seen, params);
    seen += n;
  });
  C value[2];
  fold.result(carry, seen, params, value);
  Tiles<C>::storer(call->outputs[0].dtype)(value, call->outputs[0].data, 0, 1, 1);
  return CLIKA_OK;
}
int32_t run_dist(const clika_call* call) {
  return call->inputs[0].dtype == CLIKA_FLOAT64 ? dist<double>(call) : dist<float>(call);
}

constexpr Entry over(const char* name, clika_kernel_fn run, uint64_t in, uint64_t out) {
  return Entry(name, run).in(in).out(out);
}

constexpr uint64_t kWhole = INTS | BOOL;

CLIKA_KERNELS(reductions,
              over("sum", run<Total>, F64 | kWhole, F64 | kWhole),
              over("prod", run<Product>, F64 | kWhole, F64 | kWhole),
              over("nansum", run<Total>, kWhole, kWhole),
              over("nansum", reduce_by<double, Sum<double, kNanSum>>, F64, F64),
              over("mean", reduce_by<double, Sum<double, kMean>>, F64, F64),
              over("nanmean", reduce_by<double, Sum<double, kNanMean>>, F64, F64),
              over("amax", run<Largest>, F64 | kWhole, F64 | kWhole),
              over("amin", run<Smallest>, F64 | kWhole, F64 | kWhole),
              over("aminmax", run<Extremes>, F64 | kWhole, F64 | kWhole),
              over("var", reduce_spread<double, kVar>, F64, F64),
              over("std", reduce_spread<double, kStd>, F64, F64),
              over("var_mean", reduce_spread<double, kVarMean>, F64, F64),
              over("std_mean", reduce_spread<double, kStdMean>, F64, F64),
              over("logsumexp", reduce_by<double, LogSumExp<double>>, F64, F64),
              over("vector_norm", reduce_norm<double>, F64, F64),
              over("trace", run_trace, FLOATS | F64 | kWhole, FLOATS | F64 | INTS),
              over("dist", run_dist, FLOATS | F64, FLOATS | F64))
#include "level_end.hpp"
