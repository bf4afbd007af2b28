// sort and topk along a dimension: values and int64 indices. NaN counts as larger than every number; among
// equals the lower index comes first.
#include "level.hpp"
#include "elementwise.hpp"
#include "lines.hpp"

template <class C>
struct Item {
  C value;
  int64_t index;
};

// A total order, so that every method gives the same result.
template <class C>
struct Before {
  bool descending;
  bool operator()(const Item<C>& a, const Item<C>& b) const {
    const bool a_nan = a.value != a.value;
    const bool b_nan = b.value != b.value;
    if (a_nan != b_nan) return descending ? a_nan : b_nan;
    if (!a_nan && a.value != b.value) return descending ? a.value > b.value : a.value < b.value;
    return a.index < b.index;
  }
};

// The first k of every line, in order.
template <class C>
int32_t order(const clika_call* call, int64_t dim, int64_t k, bool descending) {
  const clika_value& in = call->inputs[0];
  clika_value& values = call->outputs[0];
  clika_value& indices = call->outputs[1];
  const Lines from(in, dim);
  const Lines to(values, dim);
  const Lines to_index(indices, dim);
  const int64_t n = from.length;
  if (from.count == 0 || k == 0 || n == 0) return CLIKA_OK;
  const LoadTile<C> loader = Tiles<C>::loader(in.dtype);
  const StoreTile<C> storer = Tiles<C>::storer(values.dtype);
  const int64_t room = n * static_cast<int64_t>(sizeof(Item<C>) + sizeof(C));
  char* scratch =
      static_cast<char*>(call->core->scratch(call, static_cast<size_t>(room * call->core->num_threads())));
  if (scratch == nullptr) return CLIKA_UNAVAILABLE;
  const Before<C> before{descending};
  parallel(call, from.count, std::max<int64_t>(1, 2048 / n), [&](int64_t begin, int64_t end, int32_t worker) {
    Item<C>* items = reinterpret_cast<Item<C>*>(scratch + worker * room);
    C* line_values = reinterpret_cast<C*>(items + n);
    for (int64_t line = begin; line < end; ++line) {
      loader(line_values, in.data, from.offset(line), from.step, n);
      for (int64_t i = 0; i < n; ++i) items[i] = {line_values[i], i};
      if (k < n) std::nth_element(items, items + k, items + n, before);
      std::sort(items, items + k, before);
      for (int64_t i = 0; i < k; ++i) line_values[i] = items[i].value;
      storer(line_values, values.data, to.offset(line), to.step, k);
      int64_t* index = data_of<int64_t>(indices) + to_index.offset(line);
      for (int64_t i = 0; i < k; ++i) index[i * to_index.step] = items[i].index;
    }
  });
  return CLIKA_OK;
}

int32_t dispatch(const clika_call* call, int64_t dim, int64_t k, bool descending) {
  switch (compute_of(call->inputs[0].dtype)) {
    case kFloat:
      return order<float>(call, dim, k, descending);
    case kDouble:
      return order<double>(call, dim, k, descending);
    case kInt:
      return order<int64_t>(call, dim, k, descending);
    case kUint:
      return order<uint64_t>(call, dim, k, descending);
    default:
      return no_compute(call);
  }
}

// attrs dim, descending.
int32_t run_sort(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  const int64_t dim = attr_int(call, 0, -1);
  return dispatch(call, dim, Lines(in, dim).length, attr_int(call, 1, 0) != 0);
}

// attrs k, dim, largest, sorted (the result is sorted either way).
int32_t run_topk(const clika_call* call) {
  return dispatch(call, attr_int(call, 1, -1), attr_int(call, 0, 1), attr_int(call, 2, 1) != 0);
}

constexpr uint64_t kAll = FLOATS | F64 | INTS | BOOL;

CLIKA_KERNELS(sort,
              Entry("sort", run_sort).in(kAll).out(kAll),
              Entry("topk", run_topk).in(kAll).out(kAll))
#include "level_end.hpp"
