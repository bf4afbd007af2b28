// bilinear: result[r][o] = bias[o] + sum over a and b of x[r][a] * weight[o][a][b] * y[r][b].
#include "level.hpp"
#include "elementwise.hpp"

template <class C>
const C* whole(const clika_call* call, const clika_value& v) {
  if (Tiles<C>::direct(v.dtype)) return data_of<C>(v);
  const int64_t n = elements(v);
  C* copy = static_cast<C*>(call->core->scratch(call, static_cast<size_t>(n) * sizeof(C) + 64));
  if (copy != nullptr) Tiles<C>::loader(v.dtype)(copy, v.data, 0, 1, n);
  return copy;
}

// C is the compute type, U the type in which it is summed.
template <class C, class U>
int32_t multiply(const clika_call* call) {
  clika_value& out = call->outputs[0];
  if (elements(out) == 0) return CLIKA_OK;
  const C* x = whole<C>(call, call->inputs[0]);
  const C* y = whole<C>(call, call->inputs[1]);
  const C* weight = whole<C>(call, call->inputs[2]);
  const C* bias = present(call, 3) ? whole<C>(call, call->inputs[3]) : nullptr;
  if (x == nullptr || y == nullptr || weight == nullptr) return CLIKA_UNAVAILABLE;
  if (present(call, 3) && bias == nullptr) return CLIKA_UNAVAILABLE;
  const int64_t made = call->inputs[2].shape[0];
  const int64_t a_size = call->inputs[2].shape[1];
  const int64_t b_size = call->inputs[2].shape[2];
  const StoreTile<C> store = Tiles<C>::storer(out.dtype);
  const int64_t grain = std::max<int64_t>(1, 32768 / std::max<int64_t>(1, a_size * b_size));
  parallel(call, elements(out), grain, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / made;
      const int64_t o = i % made;
      U sum = bias == nullptr ? U{0} : static_cast<U>(bias[o]);
      for (int64_t a = 0; a < a_size; ++a) {
        const C* w = weight + (o * a_size + a) * b_size;
        U part = U{0};
        const C* other = y + row * b_size;
        for (int64_t b = 0; b < b_size; ++b) part += static_cast<U>(w[b]) * static_cast<U>(other[b]);
        sum += static_cast<U>(x[row * a_size + a]) * part;
      }
      const C value = static_cast<C>(sum);
      store(&value, out.data, i, 1, 1);
    }
  });
  return CLIKA_OK;
}

int32_t run(const clika_call* call) {
  switch (compute_of(call->inputs[0].dtype)) {
    case kFloat:
      return multiply<float, float>(call);
    case kDouble:
      return multiply<double, double>(call);
    default:
      return multiply<int64_t, uint64_t>(call);
  }
}

CLIKA_KERNELS(bilinear, Entry("bilinear", run).in(FLOATS | F64 | INTS).out(FLOATS | F64 | INTS).contiguous())
#include "level_end.hpp"
