// argmax and argmin over float64, integers and bool.
#include "level.hpp"
#include "elementwise.hpp"
#include "lines.hpp"
#include "argmax.hpp"

template <int kSign, class C>
int64_t find(const C* x, int64_t n) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; ++i) {
    if (x[best] != x[best]) break;
    if (x[i] != x[i] || (kSign > 0 ? x[i] > x[best] : x[i] < x[best])) best = i;
  }
  return best;
}

template <int kSign>
int32_t run(const clika_call* call) {
  switch (compute_of(call->inputs[0].dtype)) {
    case kDouble:
      return search<double, kSign>(call, find<kSign, double>);
    case kInt:
      return search<int64_t, kSign>(call, find<kSign, int64_t>);
    case kUint:
      return search<uint64_t, kSign>(call, find<kSign, uint64_t>);
    default:
      return no_compute(call);
  }
}

CLIKA_KERNELS(argmax,
              Entry("argmax", run<1>).in(F64 | INTS | BOOL).out(I32 | I64),
              Entry("argmin", run<-1>).in(F64 | INTS | BOOL).out(I32 | I64))
#include "level_end.hpp"
