// Search in sorted numbers, distinct values, bins and histograms. Inputs lie in one piece.
#include "level.hpp"
#include "elementwise.hpp"

// Reads a whole tensor, which lies in one piece, as compute type C: its own memory, or a copy in scratch. Null
// when scratch could not be had.
template <class C>
const C* whole(const clika_call* call, const clika_value& in) {
  if (Tiles<C>::direct(in.dtype)) return data_of<C>(in);
  const int64_t n = elements(in);
  C* copy = static_cast<C*>(call->core->scratch(call, static_cast<size_t>(n) * sizeof(C) + 64));
  if (copy != nullptr && n > 0) Tiles<C>::loader(in.dtype)(copy, in.data, 0, 1, n);
  return copy;
}

// Calls Kernel<C>::run(call) in the compute type of input 0.
template <template <class> class Kernel>
int32_t run(const clika_call* call) {
  switch (compute_of(call->inputs[0].dtype)) {
    case kFloat:
      return Kernel<float>::run(call);
    case kDouble:
      return Kernel<double>::run(call);
    case kInt:
      return Kernel<int64_t>::run(call);
    case kUint:
      return Kernel<uint64_t>::run(call);
    default:
      return no_compute(call);
  }
}

// ------------------------------------------------------------------ search
// How many of the n sorted elements are smaller than x, or not larger; `sorter` puts them in order. A NaN comes
// after all numbers.
template <class C>
int64_t place(const C* sorted, const int64_t* sorter, int64_t n, C x, bool right) {
  int64_t low = 0;
  int64_t high = n;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    const C y = sorted[sorter == nullptr ? middle : sorter[middle]];
    if (right ? !(y > x) : !(y >= x)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

template <class C>
int32_t search(const clika_call* call, const clika_value& sorted, const clika_value& values,
               const clika_value* sorter, bool right) {
  clika_value& out = call->outputs[0];
  const int64_t count = elements(values);
  const int64_t n = sorted.shape[sorted.rank - 1];
  const int64_t per_row = sorted.rank > 1 ? values.shape[values.rank - 1] : std::max<int64_t>(count, 1);
  const C* rows = whole<C>(call, sorted);
  const C* wanted = whole<C>(call, values);
  if (rows == nullptr || wanted == nullptr) return CLIKA_UNAVAILABLE;
  const int64_t* order = sorter == nullptr ? nullptr : data_of<int64_t>(*sorter);
  for (int64_t i = 0; order != nullptr && i < elements(*sorter); ++i) {
    if (order[i] < 0 || order[i] >= n) {
      return refuse(call, "searchsorted: sorter holds %lld, which is outside 0 .. %lld",
                    static_cast<long long>(order[i]), static_cast<long long>(n - 1));
    }
  }
  parallel(call, count, 4096, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t at = sorted.rank > 1 ? i / per_row * n : 0;
      const int64_t found = place(rows + at, order == nullptr ? nullptr : order + at, n, wanted[i], right);
      if (out.dtype == CLIKA_INT64) {
        data_of<int64_t>(out)[i] = found;
      } else {
        data_of<int32_t>(out)[i] = static_cast<int32_t>(found);
      }
    }
  });
  return CLIKA_OK;
}

// Inputs sorted_sequence, values, sorter?; attributes out_int32, right, side.
template <class C>
struct SearchSorted {
  static int32_t run(const clika_call* call) {
    const bool right = attr_int(call, 1, 0) != 0 || attr_int(call, 2, 0) == 1;
    return search<C>(call, call->inputs[0], call->inputs[1], present(call, 2) ? &call->inputs[2] : nullptr, right);
  }
};
// Inputs x, boundaries; attributes out_int32, right.
template <class C>
struct Bucketize {
  static int32_t run(const clika_call* call) {
    return search<C>(call, call->inputs[1], call->inputs[0], nullptr, attr_int(call, 1, 0) != 0);
  }
};

// ------------------------------------------------------------------ distinct values
// What unique and unique_consecutive look at: elements, or slices along a dimension, all side by side.
template <class C>
struct Slices {
  const C* data;
  int64_t count;
  int64_t size;  // elements of a slice

  // True where a comes before b: element by element, NaN after all numbers.
  bool before(int64_t a, int64_t b) const {
    const C* x = data + a * size;
    const C* y = data + b * size;
    for (int64_t i = 0; i < size; ++i) {
      if (x[i] < y[i]) return true;
      if (y[i] < x[i]) return false;
      const bool x_nan = x[i] != x[i];
      const bool y_nan = y[i] != y[i];
      if (x_nan != y_nan) return y_nan;
    }
    return a < b;
  }
  bool equal(int64_t a, int64_t b) const {
    return std::equal(data + a * size, data + (a + 1) * size, data + b * size);
  }
};

// The slice number k of a tensor along dimension `at`: what is left when the others are left out.
inline clika_value slice_of(const clika_value& v, int32_t at, int64_t k, int64_t* shape) {
  clika_value slice = v;
  for (int32_t d = 0; d < v.rank; ++d) shape[d] = d == at ? 1 : v.shape[d];
  slice.shape = shape;
  slice.data = static_cast<char*>(v.data) + k * v.strides[at] * bytes_of(v.dtype);
  return slice;
}

template <class C>
int32_t distinct(const clika_call* call, bool sort, bool with_inverse, bool with_counts, const clika_attr& dim) {
  const clika_value& in = call->inputs[0];
  const bool sliced = dim.kind != CLIKA_ATTR_NONE;
  const int32_t at = sliced ? static_cast<int32_t>(dim.v.i < 0 ? dim.v.i + in.rank : dim.v.i) : 0;
  int64_t shape[CLIKA_MAX_RANK];
  Slices<C> slices{nullptr, elements(in), 1};
  if (sliced) {
    slices.count = in.shape[at];
    slices.size = elements(in) / std::max<int64_t>(1, slices.count);
    C* copy = static_cast<C*>(call->core->scratch(call, static_cast<size_t>(elements(in)) * sizeof(C) + 64));
    if (copy == nullptr) return CLIKA_UNAVAILABLE;
    const LoadTile<C> loader = Tiles<C>::loader(in.dtype);
    for (int64_t k = 0; k < slices.count; ++k) {
      const clika_value slice = slice_of(in, at, k, shape);
      const Walk<1> walk({&slice});
      C* to = copy + k * slices.size;
      walk.run(0, slices.size, slices.size, [&](const int64_t* offset, int64_t n) {
        loader(to, slice.data, offset[0], walk.step[0], n);
        to += n;
      });
    }
    slices.data = copy;
  } else {
    slices.data = whole<C>(call, in);
    if (slices.data == nullptr) return CLIKA_UNAVAILABLE;
  }
  const int64_t n = slices.count;
  // order: the slices as they are compared; first: where runs of equal ones begin in it.
  int64_t* order = static_cast<int64_t*>(call->core->scratch(call, static_cast<size_t>(2 * n + 1) * 8));
  if (order == nullptr) return CLIKA_UNAVAILABLE;
  int64_t* first = order + n;
  for (int64_t i = 0; i < n; ++i) order[i] = i;
  if (sort) std::sort(order, order + n, [&](int64_t a, int64_t b) { return slices.before(a, b); });
  int64_t m = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (i == 0 || !slices.equal(order[i - 1], order[i])) first[m++] = i;
  }
  first[m] = n;

  int64_t sizes[CLIKA_MAX_RANK] = {m};
  for (int32_t d = 0; sliced && d < in.rank; ++d) sizes[d] = d == at ? m : in.shape[d];
  int32_t status = call->core->allocate_output(call, 0, sliced ? in.rank : 1, sizes);
  if (status != CLIKA_OK) return status;
  const clika_value& values = call->outputs[0];
  const StoreTile<C> storer = Tiles<C>::storer(values.dtype);
  for (int64_t k = 0; k < m; ++k) {
    const C* from = slices.data + order[first[k]] * slices.size;
    if (!sliced) {
      storer(from, values.data, k, 1, 1);
      continue;
    }
    const clika_value slice = slice_of(values, at, k, shape);
    const Walk<1> walk({&slice});
    walk.run(0, slices.size, slices.size, [&](const int64_t* offset, int64_t count) {
      storer(from, slice.data, offset[0], walk.step[0], count);
      from += count;
    });
  }
  if (with_inverse) {
    int64_t* inverse = data_of<int64_t>(call->outputs[1]);
    for (int64_t k = 0; k < m; ++k) {
      for (int64_t i = first[k]; i < first[k + 1]; ++i) inverse[order[i]] = k;
    }
  }
  if (with_counts) {
    const uint32_t which = with_inverse ? 2 : 1;
    status = call->core->allocate_output(call, which, 1, &m);
    if (status != CLIKA_OK) return status;
    for (int64_t k = 0; k < m; ++k) data_of<int64_t>(call->outputs[which])[k] = first[k + 1] - first[k];
  }
  return CLIKA_OK;
}

// Attributes: sorted (it is), return_inverse, return_counts, dim.
template <class C>
struct Unique {
  static int32_t run(const clika_call* call) {
    return distinct<C>(call, true, attr_int(call, 1, 0) != 0, attr_int(call, 2, 0) != 0, call->attrs[3]);
  }
};
// Attributes: return_inverse, return_counts, dim.
template <class C>
struct UniqueConsecutive {
  static int32_t run(const clika_call* call) {
    return distinct<C>(call, false, attr_int(call, 0, 0) != 0, attr_int(call, 1, 0) != 0, call->attrs[2]);
  }
};

// ------------------------------------------------------------------ counts
template <class T>
void add_weights(const int64_t* x, const T* weights, int64_t n, T* out) {
  for (int64_t i = 0; i < n; ++i) out[x[i]] += weights == nullptr ? T{1} : weights[i];
}
// Inputs x (int64), weights?; attribute minlength.
int32_t run_bincount(const clika_call* call) {
  const int64_t* x = data_of<int64_t>(call->inputs[0]);
  const int64_t n = elements(call->inputs[0]);
  int64_t size = attr_int(call, 0, 0);
  for (int64_t i = 0; i < n; ++i) {
    if (x[i] < 0 || x[i] == std::numeric_limits<int64_t>::max()) {
      return refuse(call, "bincount: input holds %lld; it counts numbers from 0 up", static_cast<long long>(x[i]));
    }
    size = std::max(size, x[i] + 1);
  }
  const int32_t status = call->core->allocate_output(call, 0, 1, &size);
  if (status != CLIKA_OK) return status;
  clika_value& out = call->outputs[0];
  std::memset(out.data, 0, static_cast<size_t>(size * bytes_of(out.dtype)));
  if (!present(call, 1)) {
    add_weights<int64_t>(x, nullptr, n, data_of<int64_t>(out));
  } else if (out.dtype == CLIKA_FLOAT32) {
    add_weights(x, data_of<float>(call->inputs[1]), n, data_of<float>(out));
  } else {
    add_weights(x, data_of<double>(call->inputs[1]), n, data_of<double>(out));
  }
  return CLIKA_OK;
}

// The smallest and the largest element; both are `low` where there is none.
template <class C>
void ends_of(const C* x, int64_t n, C* low, C* high) {
  if (n == 0) return;
  *low = x[0];
  *high = x[0];
  for (int64_t i = 1; i < n && *low == *low; ++i) {
    *low = x[i] < *low || x[i] != x[i] ? x[i] : *low;
    *high = x[i] > *high || x[i] != x[i] ? x[i] : *high;
  }
}
template <class C>
int32_t check_ends(const clika_call* call, const char* op, C low, C high) {
  if (std::isfinite(low) && std::isfinite(high) && low <= high) return CLIKA_OK;
  return refuse(call, "%s: the range from %g to %g must be finite and ascending", op, static_cast<double>(low),
                static_cast<double>(high));
}

// Attribute bins; scalars min, max.
template <class C>
int32_t histc(const clika_call* call) {
  clika_value& out = call->outputs[0];
  const int64_t n = elements(call->inputs[0]);
  const int64_t bins = elements(out);
  const C* x = whole<C>(call, call->inputs[0]);
  double* counts = static_cast<double*>(call->core->scratch(call, static_cast<size_t>(bins) * 8));
  if (x == nullptr || counts == nullptr) return CLIKA_UNAVAILABLE;
  C low = static_cast<C>(scalar_float(call, 0, 0.0));
  C high = static_cast<C>(scalar_float(call, 1, 0.0));
  if (low == high) ends_of(x, n, &low, &high);
  if (low == high) {
    low -= 1;
    high += 1;
  }
  if (const int32_t status = check_ends(call, "histc", low, high)) return status;
  std::fill(counts, counts + bins, 0.0);
  for (int64_t i = 0; i < n; ++i) {
    if (!(x[i] >= low && x[i] <= high)) continue;
    const C position = (x[i] - low) * static_cast<C>(bins) / (high - low);  // NaN where the range overflows
    counts[position < static_cast<C>(bins) ? std::min(static_cast<int64_t>(position), bins - 1) : bins - 1] += 1;
  }
  const StoreTile<C> storer = Tiles<C>::storer(out.dtype);
  for (int64_t i = 0; i < bins; ++i) {
    const C count = static_cast<C>(counts[i]);
    storer(&count, out.data, i, 1, 1);
  }
  return CLIKA_OK;
}
int32_t run_histc(const clika_call* call) {
  return call->inputs[0].dtype == CLIKA_FLOAT64 ? histc<double>(call) : histc<float>(call);
}

// Inputs x, bins (a number, or edges), weight?; attributes range, density.
template <class C>
int32_t histogram(const clika_call* call) {
  const C* x = data_of<C>(call->inputs[0]);
  const int64_t n = elements(call->inputs[0]);
  const clika_value& asked = call->inputs[1];
  const C* weights = present(call, 2) ? data_of<C>(call->inputs[2]) : nullptr;
  int64_t bins = 0;
  if (asked.rank == 0) {
    bins = data_of<int64_t>(asked)[0];
    if (bins < 1) return refuse(call, "histogram: bins %lld must be 1 or more", static_cast<long long>(bins));
    C low = 0;
    C high = n == 0 ? 1 : 0;
    const clika_attr& range = call->attrs[0];
    if (range.kind == CLIKA_ATTR_FLOATS) {
      low = static_cast<C>(range.v.floats[0]);
      high = static_cast<C>(range.v.floats[1]);
    } else {
      ends_of(x, n, &low, &high);
    }
    if (const int32_t status = check_ends(call, "histogram", low, high)) return status;
    if (low == high) {
      low -= C(0.5);
      high += C(0.5);
    }
    const int64_t edges = bins == std::numeric_limits<int64_t>::max() ? bins : bins + 1;
    int32_t status = call->core->allocate_output(call, 0, 1, &bins);
    if (status == CLIKA_OK) status = call->core->allocate_output(call, 1, 1, &edges);
    if (status != CLIKA_OK) return status;
    C* edge = data_of<C>(call->outputs[1]);
    const C step = (high - low) / static_cast<C>(bins);
    for (int64_t i = 0; i <= bins; ++i) {  // from both ends, so that both are exact
      edge[i] = 2 * i < bins + 1 ? low + step * static_cast<C>(i) : high - step * static_cast<C>(bins - i);
    }
  } else {
    bins = asked.shape[0] - 1;
    C* edge = data_of<C>(call->outputs[1]);
    std::copy_n(data_of<C>(asked), bins + 1, edge);
    for (int64_t i = 0; i < bins; ++i) {
      if (!(edge[i] <= edge[i + 1])) return refuse(call, "histogram: the edges in bins must ascend");
    }
  }
  const C* edge = data_of<C>(call->outputs[1]);
  C* out = data_of<C>(call->outputs[0]);
  double* counts = static_cast<double*>(call->core->scratch(call, static_cast<size_t>(bins) * 8));
  if (counts == nullptr) return CLIKA_UNAVAILABLE;
  std::fill(counts, counts + bins, 0.0);
  for (int64_t i = 0; i < n; ++i) {
    if (!(x[i] >= edge[0] && x[i] <= edge[bins])) continue;
    const int64_t bin = place<C>(edge, nullptr, bins + 1, x[i], true) - 1;
    counts[std::min(bin, bins - 1)] += weights == nullptr ? 1.0 : static_cast<double>(weights[i]);
  }
  double sum = 0;
  for (int64_t i = 0; i < bins; ++i) sum += counts[i];
  for (int64_t i = 0; i < bins; ++i) {
    if (attr_int(call, 1, 0) != 0) counts[i] /= sum * (static_cast<double>(edge[i + 1]) - edge[i]);
    out[i] = static_cast<C>(counts[i]);
  }
  return CLIKA_OK;
}
int32_t run_histogram(const clika_call* call) {
  return call->inputs[0].dtype == CLIKA_FLOAT64 ? histogram<double>(call) : histogram<float>(call);
}

constexpr uint64_t kAll = FLOATS | F64 | INTS | BOOL;

CLIKA_KERNELS(searching,
              Entry("searchsorted", run<SearchSorted>).in(kAll, kAll, I64).out(I32 | I64).contiguous(),
              Entry("bucketize", run<Bucketize>).in(kAll).out(I32 | I64).contiguous(),
              Entry("unique", run<Unique>).in(kAll).out(kAll).contiguous(),
              Entry("unique_consecutive", run<UniqueConsecutive>).in(kAll).out(kAll).contiguous(),
              Entry("bincount", run_bincount).in(I64, I64 | F32 | F64).out(I64 | F32 | F64).contiguous(),
              Entry("histc", run_histc).in(FLOATS | F64).out(FLOATS | F64).contiguous(),
              Entry("histogram", run_histogram).in(F32 | F64, F32 | F64 | I64, F32 | F64).out(F32 | F64).contiguous())
#include "level_end.hpp"
