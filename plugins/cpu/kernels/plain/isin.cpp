// isin: which elements are among others. The others are sorted once; every element is looked up.
#include "level.hpp"
#include "elementwise.hpp"
#include "each.hpp"

template <class C, class Dtypes>
int32_t look_up(const clika_call* call) {
  const clika_value& elements_in = call->inputs[0];
  const clika_value& others = call->inputs[1];
  clika_value& out = call->outputs[0];
  const uint8_t inverted = attr_int(call, 1, 0) != 0 ? 1 : 0;
  const int64_t total = elements(others);
  C* sorted = static_cast<C*>(call->core->scratch(call, static_cast<size_t>(total + 1) * sizeof(C)));
  if (sorted == nullptr) return CLIKA_UNAVAILABLE;
  const Walk<1> over({&others});
  const LoadTile<C> load_other = Dtypes::loader(others.dtype);
  int64_t filled = 0;
  over.run(0, over.outer * over.length, kTile, [&](const int64_t* at, int64_t n) {
    load_other(sorted + filled, others.data, at[0], over.step[0], n);
    filled += n;
  });
  // A NaN equals nothing, and could not be sorted.
  C* const stop = std::remove_if(sorted, sorted + filled, [](C x) { return x != x; });
  std::sort(sorted, stop);
  const Walk<2> walk({&out, &elements_in});
  const LoadTile<C> loader = Dtypes::loader(elements_in.dtype);
  parallel(call, walk.outer * walk.length, kParallelFrom, [&](int64_t begin, int64_t end, int32_t) {
    alignas(64) C x[kTile];
    walk.run(begin, end, kTile, [&](const int64_t* at, int64_t n) {
      loader(x, elements_in.data, at[1], walk.step[1], n);
      for (int64_t i = 0; i < n; ++i) {
        const bool found = x[i] == x[i] && std::binary_search(sorted, stop, x[i]);
        data_of<uint8_t>(out)[at[0] + i * walk.step[0]] = static_cast<uint8_t>(found) ^ inverted;
      }
    });
  });
  return CLIKA_OK;
}

int32_t run(const clika_call* call) {
  switch (compute_of(call->inputs[0].dtype)) {
    case kInt:
      return look_up<int64_t, Own<int64_t>>(call);
    case kUint:
      return look_up<uint64_t, Own<uint64_t>>(call);
    default:
      return look_up<double, Doubles>(call);
  }
}

CLIKA_KERNELS(isin, Entry("isin", run).in(FLOATS | F64 | INTS | BOOL).out(BOOL))
#include "level_end.hpp"
