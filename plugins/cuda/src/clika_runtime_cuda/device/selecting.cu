// Elements that are picked: where something is true, by flat positions, distinct ones; and what is looked up in an order.
#include "prelude.cuh"
#include "general.cuh"

// ---------------------------------------------------------------- what is true, by chunks of a block
// in[0]: i[0] elements. room[0]: of each chunk how many are true, then how many are before it; the sum behind the last.
constexpr int kChunk = 2048;

CLIKA_INLINE bool is_true(const View& v, i64 at) {
  const void* p = place_of(v, at);
  if (is_real(v.dtype)) return load<double>(p, v.dtype) != 0.0;
  return load<u64>(p, v.dtype) != 0;
}
extern "C" __global__ void __launch_bounds__(256) count_true(const __grid_constant__ General g) {
  const i64 begin = blockIdx.x * static_cast<i64>(kChunk), end = at_most(begin + kChunk, g.i[0]);
  i64 count = 0;
  for (i64 at = begin + threadIdx.x; at < end; at += blockDim.x) count += is_true(g.in[0], at);
  count = over_block(count, i64{0}, [](i64 a, i64 b) { return a + b; });
  if (threadIdx.x == 0) static_cast<i64*>(g.room[0])[blockIdx.x] = count;
}
// i[1]: chunks.
extern "C" __global__ void __launch_bounds__(256) sum_chunks(const __grid_constant__ General g) {
  i64* counts = static_cast<i64*>(g.room[0]);
  const auto add = [](i64 a, i64 b) { return a + b; };
  i64 carry = 0;
  for (i64 begin = 0; begin < g.i[1]; begin += blockDim.x) {
    const i64 at = begin + threadIdx.x;
    const i64 own = at < g.i[1] ? counts[at] : 0;
    i64 all;
    const i64 up_to = scan_block(own, i64{0}, add, &all);
    if (at < g.i[1]) counts[at] = carry + up_to - own;
    carry += all;
  }
  if (threadIdx.x == 0) counts[g.i[1]] = carry;
}

enum { kCoordinates, kElements, kReplace, kRuns };
// i[2]: what is done with the number of a true element; i[3]: how many are wanted at most.
CLIKA_INLINE void take_true(const General& g, i64 at, i64 number) {
  if (g.i[2] == kCoordinates) {
    i64 rest = at;
    for (int d = g.in[0].rank - 1; d >= 0; --d) {
      put<i64>(g.out[0], number * g.in[0].rank + d, rest % g.in[0].shape[d]);
      rest /= g.in[0].shape[d];
    }
  } else if (g.i[2] == kElements) {
    move_element(slot_of(g.out[0], number), place_of(g.in[1], at), bytes_of(g.out[0].dtype));
  } else if (g.i[2] == kReplace) {
    move_element(slot_of(g.out[0], at), place_of(g.in[1], number), bytes_of(g.out[0].dtype));
  } else {
    static_cast<i64*>(g.room[2])[number] = at;
  }
}
extern "C" __global__ void __launch_bounds__(256) write_true(const __grid_constant__ General g) {
  const i64 first = blockIdx.x * static_cast<i64>(kChunk), end = at_most(first + kChunk, g.i[0]);
  const auto add = [](i64 a, i64 b) { return a + b; };
  i64 carry = static_cast<const i64*>(g.room[0])[blockIdx.x];
  for (i64 begin = first; begin < end; begin += blockDim.x) {
    const i64 at = begin + threadIdx.x;
    const bool truth = at < end && is_true(g.in[0], at);
    i64 all;
    const i64 number = carry + scan_block(truth ? i64{1} : i64{0}, i64{0}, add, &all) - 1;
    if (truth && number < g.i[3]) take_true(g, at, number);
    else if (truth && g.i[2] == kReplace) report(g.reporter.to, kRefusedValue, g.reporter.op, 0, 0);
    if (g.i[2] == kRuns && at < end) static_cast<i64*>(g.room[3])[at] = number;
    carry += all;
  }
}
// Rows behind the last one that was found; i[4]: what fills them, i[3]: rows in all, i[1]: chunks.
extern "C" __global__ void fill_rest(const __grid_constant__ General g) {
  const i64 found = static_cast<const i64*>(g.room[0])[g.i[1]] * g.in[0].rank;
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    if (at >= found) put<i64>(g.out[0], at, g.i[4]);
  }
}

// ---------------------------------------------------------------- flat positions, one hot
// i[0]: elements of in[0]; an index below 0 counts from the end.
extern "C" __global__ void take_items(const __grid_constant__ General g) {
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const i64 given = value_of<i64>(g.in[1], at);
    const i64 index = given < 0 ? given + g.i[0] : given;
    if (index < 0 || index >= g.i[0]) {
      report(g.reporter.to, kIndexOutside, g.reporter.op, given, g.i[0]);
      continue;
    }
    move_element(slot_of(g.out[0], at), place_of(g.in[0], index), bytes_of(g.in[0].dtype));
  }
}
// Along a dim: in[0] stands still there; i[0]: its size, i[1]: its stride.
extern "C" __global__ void take_along(const __grid_constant__ General g) {
  const int bytes = bytes_of(g.in[0].dtype);
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const i64 given = value_of<i64>(g.in[1], at);
    const i64 index = given < 0 ? given + g.i[0] : given;
    if (index < 0 || index >= g.i[0]) {
      report(g.reporter.to, kIndexOutside, g.reporter.op, given, g.i[0]);
      continue;
    }
    move_element(slot_of(g.out[0], at), static_cast<const char*>(place_of(g.in[0], at)) + index * g.i[1] * bytes, bytes);
  }
}
// i[0]: classes.
extern "C" __global__ void one_hot(const __grid_constant__ General g) {
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const i64 given = value_of<i64>(g.in[0], at / g.i[0]);
    if (given < 0 || given >= g.i[0]) report(g.reporter.to, kIndexOutside, g.reporter.op, given, g.i[0]);
    put<i64>(g.out[0], at, static_cast<i64>(given == at % g.i[0]));
  }
}
// The smallest and the largest of i[0] elements to room[0], as double or i64; a NaN is both.
template <class C>
CLIKA_INLINE void find_ends(const General& g) {
  struct Ends {
    C low, high;
    int any, pad;
  };
  const auto join = [](Ends a, Ends b) {
    if (a.any == 0) return b;
    if (b.any == 0) return a;
    Ends both = a;
    if (b.low < a.low || b.low != b.low) both.low = b.low;
    if (b.high > a.high || b.high != b.high) both.high = b.high;
    return both;
  };
  Ends ends{};
  for (i64 at = threadIdx.x; at < g.i[0]; at += blockDim.x) {
    const C x = value_of<C>(g.in[0], at);
    ends = join(ends, Ends{x, x, 1, 0});
  }
  ends = over_block(ends, Ends{}, join);
  if (threadIdx.x == 0) {
    static_cast<C*>(g.room[0])[0] = ends.low;
    static_cast<C*>(g.room[0])[1] = ends.high;
  }
}
extern "C" __global__ void __launch_bounds__(512) ends_of_reals(const __grid_constant__ General g) { find_ends<double>(g); }
extern "C" __global__ void __launch_bounds__(512) ends_of_wholes(const __grid_constant__ General g) { find_ends<i64>(g); }

// ---------------------------------------------------------------- in an order
// How many of n sorted elements are smaller than x, or not larger. A NaN comes after all numbers.
template <class C>
CLIKA_INLINE i64 place_in(const View& sorted, i64 first, const i64* sorter, i64 n, C x, bool right) {
  i64 low = 0, high = n;
  while (low < high) {
    const i64 middle = low + (high - low) / 2;
    const C y = value_of<C>(sorted, first + (sorter == nullptr ? middle : sorter[middle]));
    if (right ? !(y > x) : !(y >= x)) low = middle + 1;
    else high = middle;
  }
  return low;
}
// in[0]: sorted lines of i[0] elements, in[1]: values, i[1] of them for a line; in[2]: a sorter in one piece; i[2]: right.
template <class C>
CLIKA_INLINE void search(const General& g) {
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const i64 first = at / g.i[1] * g.i[0];
    const i64* sorter = static_cast<const i64*>(g.in[2].data);
    put<i64>(g.out[0], at, place_in<C>(g.in[0], first, sorter == nullptr ? nullptr : sorter + first, g.i[0],
                                       value_of<C>(g.in[1], at), g.i[2] != 0));
  }
}
extern "C" __global__ void search_sorted(const __grid_constant__ General g) {
  const int dtype = g.i[3] != 0 ? g.in[1].dtype : g.in[0].dtype;
  if (is_real(dtype)) search<double>(g);
  else if (dtype == kUint64) search<u64>(g);
  else search<i64>(g);
}
// The places of a sorter, n of them, are within i[0].
extern "C" __global__ void check_sorter(const __grid_constant__ General g) {
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const i64 given = value_of<i64>(g.in[2], at);
    if (given >= 0 && given < g.i[0]) continue;
    report(g.reporter.to, kIndexOutside, g.reporter.op, given, g.i[0]);
    put<i64>(g.in[2], at, 0);  // a copy of the operator's own
  }
}
// Whether an element is among i[0] sorted items; i[1]: inverted.
extern "C" __global__ void look_up(const __grid_constant__ General g) {
  const Item* items = static_cast<const Item*>(g.room[0]);
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const u64 key = key_at(place_of(g.in[0], at), g.in[0].dtype);
    i64 low = 0, high = g.i[0];
    while (low < high) {
      const i64 middle = (low + high) / 2;
      if (items[middle].key < key) low = middle + 1;
      else high = middle;
    }
    const bool nan = key == kNanKey && is_real(g.in[0].dtype);
    const bool found = !nan && low < g.i[0] && items[low].key == key;
    put<i64>(g.out[0], at, static_cast<i64>(found != (g.i[1] != 0)));
  }
}

// ---------------------------------------------------------------- histograms
// i[0] elements into i[1] bins from f[0] to f[1], or between the ends in room[1]; room[0]: counts, from 0.
template <class C>
CLIKA_INLINE void count_even(const General& g) {
  const double* ends = static_cast<const double*>(g.room[1]);
  C low = static_cast<C>(ends != nullptr ? ends[0] : g.f[0]), high = static_cast<C>(ends != nullptr ? ends[1] : g.f[1]);
  const C bins = static_cast<C>(g.i[1]);
  if (low == high) {
    low -= C(1);
    high += C(1);
  }
  if (!(low <= high) || isinf(low) || isinf(high)) {
    report(g.reporter.to, kRefusedValue, g.reporter.op, 0, 0);
    return;
  }
  for (i64 at = first_of_thread(); at < g.i[0]; at += threads_of_grid()) {
    const C x = value_of<C>(g.in[0], at);
    if (!(x >= low && x <= high)) continue;
    const C position = (x - low) * bins / (high - low);  // NaN where the range overflows
    const i64 bin = position < bins ? at_most(static_cast<i64>(position), g.i[1] - 1) : g.i[1] - 1;
    atomicAdd(static_cast<u64*>(g.room[0]) + bin, u64{1});
  }
}
extern "C" __global__ void histc_counts(const __grid_constant__ General g) {
  if (g.in[0].dtype == kFloat64) count_even<double>(g);
  else count_even<float>(g);
}
extern "C" __global__ void write_counts(const __grid_constant__ General g) {
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const u64 count = static_cast<const u64*>(g.room[0])[at];
    if (is_real(g.out[0].dtype)) put<double>(g.out[0], at, static_cast<double>(count));
    else put<i64>(g.out[0], at, static_cast<i64>(count));
  }
}
// Edges of i[0] bins from f[0] to f[1], from both ends so that both are exact.
template <class C>
CLIKA_INLINE void even_edges(const General& g) {
  const C low = static_cast<C>(g.f[0]), high = static_cast<C>(g.f[1]);
  const C step = (high - low) / static_cast<C>(g.i[0]);
  for (i64 at = first_of_thread(); at <= g.i[0]; at += threads_of_grid()) {
    put<C>(g.out[1], at, 2 * at < g.i[0] + 1 ? low + step * static_cast<C>(at) : high - step * static_cast<C>(g.i[0] - at));
  }
}
extern "C" __global__ void write_edges(const __grid_constant__ General g) {
  if (g.out[1].dtype == kFloat64) even_edges<double>(g);
  else even_edges<float>(g);
}
extern "C" __global__ void check_edges(const __grid_constant__ General g) {
  for (i64 at = first_of_thread(); at < g.i[0]; at += threads_of_grid()) {
    if (value_of<double>(g.out[1], at) <= value_of<double>(g.out[1], at + 1)) continue;
    report(g.reporter.to, kRefusedValue, g.reporter.op, 0, 0);
  }
}
// The bin of each of n elements as an item, so that weights are added in one order; those outside come last.
extern "C" __global__ void bin_items(const __grid_constant__ General g) {
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const double x = value_of<double>(g.in[0], at);
    const bool inside = x >= value_of<double>(g.out[1], 0) && x <= value_of<double>(g.out[1], g.i[0]);
    const i64 bin = inside ? at_most(place_in<double>(g.out[1], 0, nullptr, g.i[0] + 1, x, true) - 1, g.i[0] - 1) : 0;
    static_cast<Item*>(g.room[0])[at] = {inside ? static_cast<u64>(bin) : kNanKey, at};
  }
}
// Numbers of in[0] as items, n of them, from 0 to i[0].
extern "C" __global__ void number_items(const __grid_constant__ General g) {
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const i64 x = value_of<i64>(g.in[0], at);
    static_cast<Item*>(g.room[0])[at] = {x < 0 || x >= g.i[0] ? kNanKey : static_cast<u64>(x), at};
  }
}
// room[1]: the sum of the weights in[2] (1 where absent) of each bin's items, of i[1] sorted ones. A thread per bin.
extern "C" __global__ void sum_items(const __grid_constant__ General g) {
  const Item* items = static_cast<const Item*>(g.room[0]);
  for (i64 bin = first_of_thread(); bin < g.n; bin += threads_of_grid()) {
    i64 low = 0, high = g.i[1];
    while (low < high) {
      const i64 middle = (low + high) / 2;
      if (items[middle].key < static_cast<u64>(bin)) low = middle + 1;
      else high = middle;
    }
    double sum = 0.0;
    float narrow = 0.0f;
    i64 count = 0;
    for (; low < g.i[1] && items[low].key == static_cast<u64>(bin); ++low, ++count) {
      if (g.in[2].dtype == 0) continue;
      sum += value_of<double>(g.in[2], items[low].index);
      narrow += value_of<float>(g.in[2], items[low].index);
    }
    if (g.in[2].dtype == 0) sum = static_cast<double>(count);
    if (g.i[2] != 0) sum = narrow;  // bincount adds in the weights' dtype
    if (g.room[1] != nullptr) static_cast<double*>(g.room[1])[bin] = sum;
    else if (is_real(g.out[0].dtype)) put<double>(g.out[0], bin, sum);
    else put<i64>(g.out[0], bin, count);
  }
}
// Counts of room[1] as they are, or as densities over out[1]; i[2]: which.
extern "C" __global__ void write_density(const __grid_constant__ General g) {
  const double* counts = static_cast<const double*>(g.room[1]);
  double sum = 0.0;
  for (i64 k = 0; g.i[2] != 0 && k < g.n; ++k) sum += counts[k];
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const double width = value_of<double>(g.out[1], at + 1) - value_of<double>(g.out[1], at);
    put<double>(g.out[0], at, g.i[2] != 0 ? counts[at] / (sum * width) : counts[at]);
  }
}

// ---------------------------------------------------------------- distinct values
// Slices of in[0], the first dim of which is that of the slices: i[0] of them, i[1] elements each. room[1]: the items.
CLIKA_INLINE int compare(const General& g, i64 a, i64 b) {
  for (i64 k = 0; k < g.i[1]; ++k) {
    const u64 x = key_at(place_of(g.in[0], a * g.i[1] + k), g.in[0].dtype);
    const u64 y = key_at(place_of(g.in[0], b * g.i[1] + k), g.in[0].dtype);
    if (x != y) return x < y ? -1 : 1;
  }
  return 0;
}
CLIKA_INLINE bool has_nan(const General& g, i64 a) {
  for (i64 k = 0; k < g.i[1] && is_real(g.in[0].dtype); ++k) {
    if (key_at(place_of(g.in[0], a * g.i[1] + k), g.in[0].dtype) == kNanKey) return true;
  }
  return false;
}
extern "C" __global__ void slice_items(const __grid_constant__ General g) {
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const u64 key = g.i[1] == 1 ? key_at(place_of(g.in[0], at), g.in[0].dtype) : 0;
    static_cast<Item*>(g.room[1])[at] = {key, at};
  }
}
// Slices of several elements: each counts those before it.
extern "C" __global__ void rank_slices(const __grid_constant__ General g) {
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    i64 rank = 0;
    for (i64 k = 0; k < g.n; ++k) {
      const int order = k == at ? 0 : compare(g, k, at);
      rank += order < 0 || (order == 0 && k < at);
    }
    static_cast<Item*>(g.room[1])[rank] = {0, at};
  }
}
// room[2]: 1 where a run of equal slices begins.
extern "C" __global__ void mark_runs(const __grid_constant__ General g) {
  const Item* items = static_cast<const Item*>(g.room[1]);
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const bool equal = at > 0 && compare(g, items[at - 1].index, items[at].index) == 0 && !has_nan(g, items[at].index);
    static_cast<u8*>(g.room[2])[at] = equal ? 0 : 1;
  }
}
// room[2]: where the runs begin, g.i[2] of them; out[0]: their slices; out[2]: how long they are. n: elements of out[0].
extern "C" __global__ void write_runs(const __grid_constant__ General g) {
  const Item* items = static_cast<const Item*>(g.room[1]);
  const i64* first = static_cast<const i64*>(g.room[2]);
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const i64 run = at / g.i[1];
    const i64 from = items[first[run]].index * g.i[1] + at % g.i[1];
    move_element(slot_of(g.out[0], at), place_of(g.in[0], from), bytes_of(g.in[0].dtype));
  }
}
extern "C" __global__ void write_lengths(const __grid_constant__ General g) {
  const i64* first = static_cast<const i64*>(g.room[2]);
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    put<i64>(g.out[2], at, (at + 1 < g.n ? first[at + 1] : g.i[0]) - first[at]);
  }
}
extern "C" __global__ void write_inverse(const __grid_constant__ General g) {
  const Item* items = static_cast<const Item*>(g.room[1]);
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    put<i64>(g.out[1], items[at].index, static_cast<const i64*>(g.room[3])[at]);
  }
}
