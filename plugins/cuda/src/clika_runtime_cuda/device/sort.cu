// Items in order: tiles in shared memory, then runs of twice the length, until a line is one run. What the order of a
// line is used for: sort and its like, kthvalue, median, mode, quantiles.
#include "prelude.cuh"
#include "general.cuh"

CLIKA_INLINE bool less(const Item& a, const Item& b) { return a.key != b.key ? a.key < b.key : a.index < b.index; }

// How many of the n items of a sorted run come before x.
CLIKA_INLINE i64 rank_in(const Item* run, i64 n, const Item& x) {
  i64 low = 0, high = n;
  while (low < high) {
    const i64 middle = (low + high) / 2;
    if (less(run[middle], x)) low = middle + 1;
    else high = middle;
  }
  return low;
}
// Where item i of n goes when runs of `width` become runs of twice that.
CLIKA_INLINE i64 merged(const Item* items, i64 n, i64 width, i64 i) {
  const i64 begin = i / (2 * width) * (2 * width);
  const i64 middle = at_most(begin + width, n), end = at_most(begin + 2 * width, n);
  if (i < middle) return i + rank_in(items + middle, end - middle, items[i]);
  return begin + (i - middle) + rank_in(items + begin, middle - begin, items[i]);
}

constexpr int kTile = 1024;
extern "C" __global__ void __launch_bounds__(256) sort_tiles(const __grid_constant__ Sorting s) {
  __shared__ Item rooms[2][kTile];
  const i64 tiles = (s.n + kTile - 1) / kTile;
  const i64 line = blockIdx.x / tiles, begin = blockIdx.x % tiles * kTile;
  const int n = static_cast<int>(at_most(kTile, s.n - begin));
  const Item* from = s.from + line * s.n + begin;
  Item* to = s.to + line * s.n + begin;
  for (int i = threadIdx.x; i < n; i += blockDim.x) rooms[0][i] = from[i];
  int now = 0;
  for (int width = 1; width < n; width *= 2) {
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) rooms[1 - now][merged(rooms[now], n, width, i)] = rooms[now][i];
    now = 1 - now;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) to[i] = rooms[now][i];
}
extern "C" __global__ void merge_runs(const __grid_constant__ Sorting s) {
  for (i64 at = first_of_thread(); at < s.lines * s.n; at += threads_of_grid()) {
    const i64 line = at / s.n * s.n;
    s.to[line + merged(s.from + line, s.n, s.width, at - line)] = s.from[at];
  }
}

// ---------------------------------------------------------------- lines of a tensor: the last dim of in[0]
// i[0]: elements of a line; i[1]: falling. room[0]: the items.
extern "C" __global__ void make_items(const __grid_constant__ General g) {
  Item* items = static_cast<Item*>(g.room[0]);
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const u64 key = key_at(place_of(g.in[0], at), g.in[0].dtype);
    items[at] = {g.i[1] != 0 ? ~key : key, at % g.i[0]};
  }
}
// The first i[2] of every line: values to out[0], indices to out[1]; absent ones are null.
extern "C" __global__ void write_order(const __grid_constant__ General g) {
  const Item* items = static_cast<const Item*>(g.room[0]);
  const i64 n = g.i[0], k = g.i[2];
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const i64 line = at / k;
    const i64 index = items[line * n + at % k].index;
    if (g.out[0].data != nullptr) {
      move_element(slot_of(g.out[0], at), place_of(g.in[0], line * n + index), bytes_of(g.in[0].dtype));
    }
    if (g.out[1].data != nullptr) put<i64>(g.out[1], at, index);
  }
}

enum { kKth, kMedian, kNanMedian, kMode };
// One element of every line. i[2]: which; i[3]: k.
extern "C" __global__ void pick_items(const __grid_constant__ General g) {
  const i64 n = g.i[0];
  for (i64 line = first_of_thread(); line < g.n; line += threads_of_grid()) {
    if (n == 0) {
      put<double>(g.out[0], line, static_cast<double>(CLIKA_NAN));
      if (g.out[1].data != nullptr) put<i64>(g.out[1], line, 0);
      continue;
    }
    const Item* items = static_cast<const Item*>(g.room[0]) + line * n;
    const bool real = is_real(g.in[0].dtype);
    const i64 numbers = real ? rank_in(items, n, Item{kNanKey, -1}) : n;
    i64 at = 0;
    if (g.i[2] == kKth) {
      at = g.i[3] - 1;
    } else if (g.i[2] == kMedian) {
      at = numbers < n ? numbers : (n - 1) / 2;
    } else if (g.i[2] == kNanMedian) {
      at = numbers == 0 ? 0 : (numbers - 1) / 2;
    } else {
      i64 longest = 0;
      for (i64 begin = 0; begin < n;) {
        i64 end = begin + 1;
        while (end < numbers && items[end].key == items[begin].key) ++end;
        if (end - begin > longest) {
          longest = end - begin;
          at = end - 1;
        }
        begin = end;
      }
    }
    const i64 index = items[at].index;
    move_element(slot_of(g.out[0], line), place_of(g.in[0], line * n + index), bytes_of(g.in[0].dtype));
    if (g.out[1].data != nullptr) put<i64>(g.out[1], line, index);
  }
}

// ---------------------------------------------------------------- quantiles
enum { kLinear, kLower, kHigher, kMidpoint, kNearest };
template <class C>
CLIKA_INLINE C between(const General& g, const Item* items, i64 first, C position, i64 interpolation) {
  const auto sorted = [&](C at) { return value_of<C>(g.in[0], first + items[static_cast<i64>(at)].index); };
  const C whole = interpolation == kNearest ? rint(position) : floor(position);
  const C low = sorted(interpolation == kHigher ? ceil(position) : whole);
  if (interpolation != kLinear && interpolation != kMidpoint) return low;
  const C high = sorted(ceil(position));
  const C part = interpolation == kMidpoint ? C(0.5) : position - whole;
  return part < C(0.5) ? low + part * (high - low) : high - (high - low) * (C(1) - part);
}
template <class C>
CLIKA_INLINE void quantiles(const General& g) {
  const i64 n = g.i[0], lines = g.i[2];
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const i64 line = at % lines;
    const C q = value_of<C>(g.in[1], at / lines);
    if (!(q >= C(0) && q <= C(1))) {
      report(g.reporter.to, kRefusedValue, g.reporter.op, 0, 0);
      continue;
    }
    const Item* items = static_cast<const Item*>(g.room[0]) + line * n;
    const i64 numbers = rank_in(items, n, Item{kNanKey, -1});
    const bool none = numbers == 0 || (g.i[4] == 0 && numbers < n);
    put<C>(g.out[0], at, none ? static_cast<C>(CLIKA_NAN)
                              : between<C>(g, items, line * n, q * static_cast<C>(numbers - 1), g.i[3]));
  }
}
// i[2]: lines; i[3]: interpolation; i[4]: NaN are left out.
extern "C" __global__ void write_quantiles(const __grid_constant__ General g) {
  if (g.in[0].dtype == kFloat64) quantiles<double>(g);
  else quantiles<float>(g);
}
