// argmax and argmin: the int64 index of the first largest or smallest element; a NaN wins, the first one.
#include "level.hpp"
#include "elementwise.hpp"
#include "lines.hpp"

// The extremum of a line of floats first (with a look for NaN), then its first place.
template <int kSign>
int64_t find_float(const float* x, int64_t n) {
  vf best = splat(-std::numeric_limits<float>::infinity());
  vi nan = splat_int(0);
  int64_t i = 0;
  for (; i + W <= n; i += W) {
    const vf y = load(x + i);
    nan |= y != y;
    best = vmax(kSign > 0 ? y : -y, best);
  }
  float top = reduce_max(best);
  bool has_nan = false;
  for (int k = 0; k < W; ++k) has_nan |= nan[k] != 0;
  for (; i < n; ++i) {
    const float y = kSign > 0 ? x[i] : -x[i];
    has_nan |= y != y;
    top = y > top ? y : top;
  }
  if (has_nan) {
    for (i = 0; i < n; ++i) {
      if (x[i] != x[i]) return i;
    }
  }
  const float wanted = kSign > 0 ? top : -top;
  const vf w = splat(wanted);
  for (i = 0; i + W <= n; i += W) {
    const vi equal = load(x + i) == w;
    int32_t any = 0;
    for (int k = 0; k < W; ++k) any |= equal[k];
    if (any) break;
  }
  for (; i < n; ++i) {
    if (x[i] == wanted) return i;
  }
  return 0;
}

template <int kSign, class C>
int64_t find_other(const C* x, int64_t n) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; ++i) {
    if (x[best] != x[best]) break;
    if (x[i] != x[i] || (kSign > 0 ? x[i] > x[best] : x[i] < x[best])) best = i;
  }
  return best;
}

template <int kSign, class C>
int64_t find(const C* x, int64_t n) {
  if constexpr (std::is_same<C, float>::value) {
    return find_float<kSign>(x, n);
  } else {
    return find_other<kSign, C>(x, n);
  }
}

template <int kSign, class C>
int32_t search(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  int64_t* out = data_of<int64_t>(call->outputs[0]);
  const LoadTile<C> loader = Tiles<C>::loader(in.dtype);
  const bool flat = call->n_attrs == 0 || call->attrs[0].kind == CLIKA_ATTR_NONE;
  if (flat) {
    const int64_t n = elements(in);
    const bool direct = Tiles<C>::direct(in.dtype) && is_contiguous(in);
    C* copy = nullptr;
    if (!direct) {
      copy = static_cast<C*>(call->core->scratch(call, static_cast<size_t>(n) * sizeof(C) + 64));
      if (copy == nullptr) return CLIKA_UNAVAILABLE;
      const Walk<1> walk({&in});
      int64_t done = 0;
      walk.run(0, n, n, [&](const int64_t* at, int64_t count) {
        loader(copy + done, in.data, at[0], walk.step[0], count);
        done += count;
      });
    }
    out[0] = find<kSign, C>(direct ? data_of<C>(in) : copy, n);
    return CLIKA_OK;
  }
  const Lines lines(in, call->attrs[0].v.i);
  const int64_t n = lines.length;
  const bool direct = Tiles<C>::direct(in.dtype) && lines.step == 1;
  C* scratch = nullptr;
  if (!direct) {
    const size_t bytes = static_cast<size_t>(n * call->core->num_threads()) * sizeof(C) + 64;
    scratch = static_cast<C*>(call->core->scratch(call, bytes));
    if (scratch == nullptr) return CLIKA_UNAVAILABLE;
  }
  const int64_t grain = std::max<int64_t>(1, 65536 / std::max<int64_t>(1, n));
  parallel(call, lines.count, grain, [&](int64_t begin, int64_t end, int32_t worker) {
    C* copy = scratch + worker * n;
    for (int64_t line = begin; line < end; ++line) {
      const int64_t at = lines.offset(line);
      if (!direct) loader(copy, in.data, at, lines.step, n);
      out[line] = find<kSign, C>(direct ? data_of<C>(in) + at : copy, n);
    }
  });
  return CLIKA_OK;
}

template <int kSign>
int32_t run(const clika_call* call) {
  switch (compute_of(call->inputs[0].dtype)) {
    case kFloat:
      return search<kSign, float>(call);
    case kDouble:
      return search<kSign, double>(call);
    case kInt:
      return search<kSign, int64_t>(call);
    case kUint:
      return search<kSign, uint64_t>(call);
    default:
      return no_compute(call);
  }
}

CLIKA_KERNELS(argmax,
              Entry("argmax", run<1>).in(FLOATS | F64 | INTS | BOOL).out(I64),
              Entry("argmin", run<-1>).in(FLOATS | F64 | INTS | BOOL).out(I64))
#include "level_end.hpp"
