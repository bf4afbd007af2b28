// Tensors made from sizes and numbers: eye, linspace, logspace, tril_indices, triu_indices.
#include "level.hpp"
#include "elementwise.hpp"
#include "copying.hpp"

double real_of(const clika_attr& a) {
  return a.kind == CLIKA_ATTR_FLOAT ? a.v.f : static_cast<double>(a.v.i);
}

// Towards zero; what does not fit gives the smallest integer, as the processor's own conversion does.
int64_t truncated(double x) {
  return std::fabs(x) < 9.2233720368547758e18 ? static_cast<int64_t>(x) : std::numeric_limits<int64_t>::min();
}

// Stores value(i) for all i, in the result's dtype.
template <class Value>
void fill_by(clika_value& out, const Value& value) {
  const int64_t n = elements(out);
  const Compute compute = compute_of(out.dtype);
  for (int64_t begin = 0; begin < n; begin += kTile) {
    const int64_t count = std::min(kTile, n - begin);
    if (compute == kFloat) {
      float x[kTile];
      for (int64_t i = 0; i < count; ++i) x[i] = static_cast<float>(value(begin + i));
      Tiles<float>::storer(out.dtype)(x, out.data, begin, 1, count);
    } else if (compute == kDouble) {
      for (int64_t i = 0; i < count; ++i) data_of<double>(out)[begin + i] = value(begin + i);
    } else {
      int64_t x[kTile];
      for (int64_t i = 0; i < count; ++i) x[i] = truncated(value(begin + i));
      Tiles<int64_t>::storer(out.dtype)(x, out.data, begin, 1, count);
    }
  }
}

// attrs n, m.
int32_t run_eye(const clika_call* call) {
  clika_value& out = call->outputs[0];
  if (elements(out) == 0) return CLIKA_OK;
  std::memset(out.data, 0, static_cast<size_t>(elements(out) * bytes_of(out.dtype)));
  uint64_t bits = 0;
  const int64_t scalar_shape[1] = {1};
  const int64_t still[1] = {0};
  clika_value one = out;
  one.data = &bits;
  one.rank = 1;
  one.shape = scalar_shape;
  one.strides = still;
  fill_by(one, [](int64_t) { return 1.0; });
  const int64_t length[1] = {std::min(out.shape[0], out.shape[1])};
  const int64_t step[1] = {out.shape[1] + 1};
  clika_value diagonal = out;
  diagonal.rank = 1;
  diagonal.shape = length;
  diagonal.strides = step;
  copy_tensor(call, diagonal, one);
  return CLIKA_OK;
}

// Evenly spaced numbers, the second half counted from the end.
struct Spaced {
  double start;
  double end;
  double step;
  int64_t n;

  Spaced(const clika_call* call, const clika_value& out) {
    start = real_of(call->attrs[0]);
    end = real_of(call->attrs[1]);
    if (compute_of(out.dtype) == kInt || compute_of(out.dtype) == kUint) {
      start = static_cast<double>(truncated(start));
      end = static_cast<double>(truncated(end));
    }
    n = elements(out);
    step = n > 1 ? (end - start) / static_cast<double>(n - 1) : 0;
  }
  double operator()(int64_t i) const {
    if (i < n / 2 || n == 1) return start + step * static_cast<double>(i);
    return end - step * static_cast<double>(n - 1 - i);
  }
};

// attrs start, end, steps.
int32_t run_linspace(const clika_call* call) {
  clika_value& out = call->outputs[0];
  fill_by(out, Spaced(call, out));
  return CLIKA_OK;
}

// attrs start, end, steps, base.
int32_t run_logspace(const clika_call* call) {
  clika_value& out = call->outputs[0];
  const Spaced exponent(call, out);
  const double base = real_of(call->attrs[3]);
  fill_by(out, [&](int64_t i) { return std::pow(base, exponent(i)); });
  return CLIKA_OK;
}

// attrs row, col, offset. `kLower`: columns up to i + offset, else from there on.
template <bool kLower>
int32_t run_triangle_indices(const clika_call* call) {
  clika_value& out = call->outputs[0];
  const int64_t count = out.shape[1];
  const int64_t rows = attr_int(call, 0, 0);
  const int64_t columns = attr_int(call, 1, 0);
  const int64_t offset = std::max(-rows, std::min(columns, attr_int(call, 2, 0)));
  const auto put = [&](int64_t at, int64_t value) {
    if (out.dtype == CLIKA_INT64) {
      data_of<int64_t>(out)[at] = value;
    } else {
      data_of<int32_t>(out)[at] = static_cast<int32_t>(value);
    }
  };
  int64_t k = 0;
  // From the first row that has places; the rows after the last one are not visited.
  for (int64_t i = kLower ? std::max<int64_t>(0, -offset) : 0; k < count; ++i) {
    const int64_t cut = std::max<int64_t>(0, std::min(columns, i + offset + (kLower ? 1 : 0)));
    const int64_t last = kLower ? cut : columns;
    for (int64_t j = kLower ? 0 : cut; j < last; ++j, ++k) {
      put(k, i);
      put(count + k, j);
    }
  }
  return CLIKA_OK;
}

CLIKA_KERNELS(creation,
              Entry("eye", run_eye).out(FLOATS | F64 | INTS | BOOL),
              Entry("linspace", run_linspace).out(FLOATS | F64 | INTS),
              Entry("logspace", run_logspace).out(FLOATS | F64 | INTS),
              Entry("tril_indices", run_triangle_indices<true>).out(I32 | I64),
              Entry("triu_indices", run_triangle_indices<false>).out(I32 | I64))
#include "level_end.hpp"
