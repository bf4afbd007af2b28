// Order along a dimension: sort, topk, argsort, msort; and what one element of it is: kthvalue, median, nanmedian,
// mode, quantile, nanquantile. NaN counts as larger than every number; among equals the lower index comes first.
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

// The lines of a tensor along a dimension, or all of it as one line.
template <class C>
struct Reader {
  const clika_value& in;
  const LoadTile<C> loader;
  const Lines lines;
  const Walk<1> walk;
  const bool flat;
  const int64_t count;
  const int64_t length;

  Reader(const clika_value& input, const clika_attr& dim)
      : in(input),
        loader(Tiles<C>::loader(input.dtype)),
        lines(input, dim.kind == CLIKA_ATTR_NONE ? 0 : dim.v.i),
        walk({&input}),
        flat(dim.kind == CLIKA_ATTR_NONE),
        count(flat ? 1 : lines.count),
        length(flat ? walk.outer * walk.length : lines.length) {}

  void read(int64_t line, C* to) const {
    if (!flat) return loader(to, in.data, lines.offset(line), lines.step, length);
    walk.run(0, length, length, [&](const int64_t* at, int64_t n) {
      loader(to, in.data, at[0], walk.step[0], n);
      to += n;
    });
  }
};

// Calls body(line, values, items) for every line, with its values read and room for as many items.
template <class C, class Body>
int32_t each_line(const clika_call* call, const Reader<C>& from, const Body& body) {
  const int64_t n = from.length;
  if (from.count == 0) return CLIKA_OK;
  const int64_t room = n * static_cast<int64_t>(sizeof(Item<C>) + sizeof(C)) + 64;
  const int64_t grain = std::max<int64_t>(1, 2048 / std::max<int64_t>(1, n));
  const int64_t workers = from.count <= grain ? 1 : call->core->num_threads();
  char* scratch = static_cast<char*>(call->core->scratch(call, static_cast<size_t>(room * workers)));
  if (scratch == nullptr) return CLIKA_UNAVAILABLE;
  parallel(call, from.count, grain, [&](int64_t begin, int64_t end, int32_t worker) {
    Item<C>* items = reinterpret_cast<Item<C>*>(scratch + worker * room);
    C* values = reinterpret_cast<C*>(items + n);
    for (int64_t line = begin; line < end; ++line) {
      from.read(line, values);
      body(line, values, items);
    }
  });
  return CLIKA_OK;
}
template <class C>
void number_items(const C* values, int64_t n, Item<C>* items) {
  for (int64_t i = 0; i < n; ++i) items[i] = {values[i], i};
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

// ------------------------------------------------------------------ sorting
// The first k of every line, in order: their values, their indices, or both. Null: not wanted.
template <class C>
int32_t order(const clika_call* call, const clika_attr& dim, int64_t k, bool descending, clika_value* values,
              clika_value* indices) {
  const Reader<C> from(call->inputs[0], dim);
  const int64_t n = from.length;
  const Lines to(values != nullptr ? *values : *indices, dim.v.i);
  if (k < 0) k = n;
  const StoreTile<C> storer = values != nullptr ? Tiles<C>::storer(values->dtype) : nullptr;
  if (k == 0) return CLIKA_OK;
  const Before<C> before{descending};
  return each_line<C>(call, from, [&](int64_t line, C* line_values, Item<C>* items) {
    number_items(line_values, n, items);
    if (k < n) std::nth_element(items, items + k, items + n, before);
    std::sort(items, items + k, before);
    const int64_t at = to.offset(line);
    if (values != nullptr) {
      for (int64_t i = 0; i < k; ++i) line_values[i] = items[i].value;
      storer(line_values, values->data, at, to.step, k);
    }
    if (indices != nullptr) {
      int64_t* index = data_of<int64_t>(*indices) + at;
      for (int64_t i = 0; i < k; ++i) index[i * to.step] = items[i].index;
    }
  });
}

// Attributes: dim, descending, stable (it is).
template <class C>
struct Sort {
  static int32_t run(const clika_call* call) {
    return order<C>(call, call->attrs[0], -1, attr_int(call, 1, 0) != 0, &call->outputs[0], &call->outputs[1]);
  }
};
template <class C>
struct ArgSort {
  static int32_t run(const clika_call* call) {
    return order<C>(call, call->attrs[0], -1, attr_int(call, 1, 0) != 0, nullptr, &call->outputs[0]);
  }
};
template <class C>
struct MSort {
  static int32_t run(const clika_call* call) {
    const clika_attr first{CLIKA_ATTR_INT, 1, {0}};
    return order<C>(call, first, -1, false, &call->outputs[0], nullptr);
  }
};
// Attributes: k, dim, largest, sorted (the result is sorted either way).
template <class C>
struct TopK {
  static int32_t run(const clika_call* call) {
    return order<C>(call, call->attrs[1], attr_int(call, 0, 1), attr_int(call, 2, 1) != 0, &call->outputs[0],
                    &call->outputs[1]);
  }
};

// ------------------------------------------------------------------ one element
// Value, and index where the call wants it, of what `pick(values, items)` finds in each line.
template <class C, class Pick>
int32_t pick_one(const clika_call* call, const clika_attr& dim, const Pick& pick) {
  const Reader<C> from(call->inputs[0], dim);
  const StoreTile<C> storer = Tiles<C>::storer(call->outputs[0].dtype);
  return each_line<C>(call, from, [&](int64_t line, const C* values, Item<C>* items) {
    const Item<C> found = pick(values, items, from.length);
    storer(&found.value, call->outputs[0].data, line, 1, 1);
    if (call->n_outputs > 1) data_of<int64_t>(call->outputs[1])[line] = found.index;
  });
}
// The element of that rank: by values alone, in a copy, and then its place among its equals.
template <class C>
Item<C> ranked(const C* values, Item<C>* items, int64_t n, int64_t rank) {
  C* copy = reinterpret_cast<C*>(items);
  int64_t missing = 0;
  for (int64_t i = 0; i < n; ++i) missing += values[i] != values[i];
  C* end = missing == 0 ? std::copy_n(values, n, copy)
                        : std::copy_if(values, values + n, copy, [](C x) { return x == x; });
  const bool is_number = rank < end - copy;
  int64_t place = rank - (end - copy);  // among the NaNs
  C value = std::numeric_limits<C>::quiet_NaN();
  if (is_number) {
    std::nth_element(copy, copy + rank, end);
    value = copy[rank];
    place = rank - std::count_if(copy, copy + rank, [value](C x) { return x < value; });
  }
  for (int64_t i = 0;; ++i) {
    if ((is_number ? values[i] == value : values[i] != values[i]) && place-- == 0) return {values[i], i};
  }
}

// Attributes: k, dim, keepdim.
template <class C>
struct KthValue {
  static int32_t run(const clika_call* call) {
    const int64_t k = attr_int(call, 0, 1);
    return pick_one<C>(call, call->attrs[1], [k](const C* values, Item<C>* items, int64_t n) {
      return ranked(values, items, n, k - 1);
    });
  }
};

// Attributes: dim, keepdim.
template <class C, bool kSkipNan>
struct MedianOf {
  static int32_t run(const clika_call* call) {
    return pick_one<C>(call, call->attrs[0], [](const C* values, Item<C>* items, int64_t n) {
      if (n == 0) return Item<C>{std::numeric_limits<C>::quiet_NaN(), 0};
      int64_t numbers = 0;
      for (int64_t i = 0; i < n; ++i) {
        if (values[i] == values[i]) {
          ++numbers;
        } else if (!kSkipNan) {
          return Item<C>{values[i], i};
        }
      }
      return ranked(values, items, n, numbers == 0 ? 0 : (numbers - 1) / 2);
    });
  }
};
template <class C>
using Median = MedianOf<C, false>;
template <class C>
using NanMedian = MedianOf<C, true>;

template <class C>
struct Mode {
  static int32_t run(const clika_call* call) {
    return pick_one<C>(call, call->attrs[0], [](const C* values, Item<C>* items, int64_t n) {
      number_items(values, n, items);
      std::sort(items, items + n, Before<C>{false});
      int64_t best = 0;
      int64_t longest = 0;
      for (int64_t begin = 0; begin < n;) {
        int64_t end = begin + 1;
        while (end < n && items[end].value == items[begin].value) ++end;
        if (end - begin > longest) {
          longest = end - begin;
          best = end - 1;
        }
        begin = end;
      }
      return items[best];
    });
  }
};

// ------------------------------------------------------------------ quantiles
enum Interpolation { kLinear, kLower, kHigher, kMidpoint, kNearest };

// The element at a position between sorted ones.
template <class C>
C between(const C* sorted, C position, int64_t interpolation) {
  const C whole = interpolation == kNearest ? std::nearbyint(position) : std::floor(position);
  const C low = sorted[static_cast<int64_t>(interpolation == kHigher ? std::ceil(position) : whole)];
  if (interpolation != kLinear && interpolation != kMidpoint) return low;
  const C high = sorted[static_cast<int64_t>(std::ceil(position))];
  const C part = interpolation == kMidpoint ? C(0.5) : position - whole;
  return part < C(0.5) ? low + part * (high - low) : high - (high - low) * (1 - part);
}

// Inputs x, q; attributes dim, keepdim, interpolation.
template <class C, bool kSkipNan>
int32_t quantile(const clika_call* call) {
  const clika_value& q = call->inputs[1];
  const Reader<C> from(call->inputs[0], call->attrs[0]);
  const int64_t n_q = elements(q);
  const int64_t q_step = q.rank == 0 ? 0 : q.strides[0];
  const C* at = data_of<C>(q);
  for (int64_t k = 0; k < n_q; ++k) {
    if (!(at[k * q_step] >= 0 && at[k * q_step] <= 1)) {
      return refuse(call, "%s: q must be between 0 and 1, got %g", kSkipNan ? "nanquantile" : "quantile",
                    static_cast<double>(at[k * q_step]));
    }
  }
  const int64_t interpolation = attr_int(call, 2, kLinear);
  C* out = data_of<C>(call->outputs[0]);
  return each_line<C>(call, from, [&](int64_t line, C* values, Item<C>*) {
    C* end = std::partition(values, values + from.length, [](C x) { return x == x; });
    const bool none = end == values || (!kSkipNan && end != values + from.length);
    std::sort(values, end);
    const C last = static_cast<C>(end - values - 1);
    for (int64_t k = 0; k < n_q; ++k) {
      out[k * from.count + line] = none ? std::numeric_limits<C>::quiet_NaN()
                                        : between(values, at[k * q_step] * last, interpolation);
    }
  });
}
template <bool kSkipNan>
int32_t run_quantile(const clika_call* call) {
  return call->inputs[0].dtype == CLIKA_FLOAT64 ? quantile<double, kSkipNan>(call)
                                                : quantile<float, kSkipNan>(call);
}

constexpr Entry over(const char* name, clika_kernel_fn run) {
  constexpr uint64_t kAll = FLOATS | F64 | INTS | BOOL;
  return Entry(name, run).in(kAll).out(kAll);
}

CLIKA_KERNELS(sort,
              over("sort", run<Sort>),
              over("topk", run<TopK>),
              over("argsort", run<ArgSort>),
              over("msort", run<MSort>),
              over("kthvalue", run<KthValue>),
              over("median", run<Median>),
              over("nanmedian", run<NanMedian>),
              over("mode", run<Mode>),
              Entry("quantile", run_quantile<false>).in(F32 | F64).out(F32 | F64),
              Entry("nanquantile", run_quantile<true>).in(F32 | F64).out(F32 | F64))
#include "level_end.hpp"
