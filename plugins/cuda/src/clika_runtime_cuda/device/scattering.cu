// Writing elements to places that indices name, in the order of the places: equal ones are folded in the order of the
// elements, so results repeat to the bit. Segments and bags of rows.
#include "prelude.cuh"
#include "general.cuh"

// ---------------------------------------------------------------- places
// in[1]: indices along a dim of out[0], which lies in one piece; out[1]: strides of the other dims over the indices' shape.
// i[0]: the dim's size, i[1]: its stride, i[2]: an index below 0 counts from the end. room[0]: items, by places.
extern "C" __global__ void place_items(const __grid_constant__ General g) {
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const i64 given = value_of<i64>(g.in[1], at);
    const i64 index = g.i[2] != 0 && given < 0 ? given + g.i[0] : given;
    u64 place = kNanKey;
    if (index < 0 || index >= g.i[0]) {
      report(g.reporter.to, kIndexOutside, g.reporter.op, given, g.i[0]);
    } else {
      place = static_cast<u64>(index * g.i[1] + offset_of<i64>(at, g.out[1].rank, g.out[1].shape, g.out[1].strides));
    }
    static_cast<Item*>(g.room[0])[at] = {place, at};
  }
}
// The last element of each place stays. in[2]: elements over the indices' shape, or one number.
extern "C" __global__ void replace_places(const __grid_constant__ General g) {
  const Item* items = static_cast<const Item*>(g.room[0]);
  const int bytes = bytes_of(g.out[0].dtype);
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const Item item = items[at];
    if (item.key == kNanKey || (at + 1 < g.n && items[at + 1].key == item.key)) continue;
    move_element(static_cast<char*>(g.out[0].data) + static_cast<i64>(item.key) * bytes, place_of(g.in[2], item.index), bytes);
  }
}

enum { kSum, kProduct, kMean, kLargest, kSmallest };
template <class C>
constexpr bool kWhole = C(0.5) == C(0);

template <class C>
CLIKA_INLINE C combined(i64 how, C a, C b) {
  if (how == kLargest) return a != a || a > b ? a : b;
  if (how == kSmallest) return a != a || a < b ? a : b;
  if constexpr (kWhole<C>) {
    return static_cast<C>(how == kProduct ? static_cast<u64>(a) * static_cast<u64>(b) : static_cast<u64>(a) + static_cast<u64>(b));
  } else {
    return how == kProduct ? a * b : a + b;
  }
}
template <class C>
CLIKA_INLINE C divided(C sum, i64 n) {
  if constexpr (kWhole<C>) return sum / n - (sum % n != 0 && (sum < 0) != (n < 0) ? 1 : 0);  // rounded down
  else return sum / static_cast<C>(n);
}
// i[3]: how; i[4]: what is at the place takes part; i[5]: elements are multiplied by f[0] or i[6].
template <class C>
CLIKA_INLINE void fold(const General& g) {
  const Item* items = static_cast<const Item*>(g.room[0]);
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const u64 key = items[at].key;
    if (key == kNanKey || (at > 0 && items[at - 1].key == key)) continue;
    const i64 place = static_cast<i64>(key);
    C total = item_of<C>(g.out[0], place);
    i64 count = 0;
    for (i64 k = at; k < g.n && items[k].key == key; ++k, ++count) {
      C x = value_of<C>(g.in[2], items[k].index);
      if (g.i[5] != 0) {
        if constexpr (kWhole<C>) x = combined<C>(kProduct, x, static_cast<C>(g.i[6]));
        else x *= static_cast<C>(g.f[0]);
      }
      total = count == 0 && g.i[4] == 0 ? x : combined<C>(g.i[3], total, x);
    }
    const i64 parts = count + (g.i[4] != 0 ? 1 : 0);
    if (g.i[3] == kMean && parts > 1) total = divided(total, parts);
    put_item<C>(g.out[0], place, total);
  }
}
extern "C" __global__ void fold_places(const __grid_constant__ General g) {
  if (g.out[0].dtype == kFloat64) fold<double>(g);
  else if (is_real(g.out[0].dtype)) fold<float>(g);
  else fold<i64>(g);
}

// ---------------------------------------------------------------- segments
// in[0]: [rows, i[0], i[1]]; in[1]: lengths (i[2]) or offsets, i[3] for a row; i[4] segments; i[5]: how, f[0]: the start;
// i[6]: it is given. room[0]: where segments of lengths begin.
enum { kSegmentSum, kSegmentMean, kSegmentMax, kSegmentMin, kSegmentProduct };
extern "C" __global__ void segment_starts(const __grid_constant__ General g) {
  i64* starts = static_cast<i64*>(g.room[0]);
  for (i64 row = first_of_thread(); row < g.n; row += threads_of_grid()) {
    i64 begin = 0;
    for (i64 s = 0; s < g.i[4]; ++s) {
      i64 length = 0;
      if (g.i[2] != 0) {
        length = item_of<i64>(g.in[1], row * g.i[3] + s);
        if (length < 0 || length > g.i[0] - begin) {
          report(g.reporter.to, kIndexOutside, g.reporter.op, length, g.i[0] - begin + 1);
          length = 0;
        }
      } else {
        begin = item_of<i64>(g.in[1], row * g.i[3] + s);
        length = item_of<i64>(g.in[1], row * g.i[3] + s + 1) - begin;
        if (begin < 0 || length < 0 || begin + length > g.i[0]) {
          report(g.reporter.to, kIndexOutside, g.reporter.op, begin + length, g.i[0] + 1);
          begin = length = 0;
        }
      }
      starts[2 * (row * g.i[4] + s)] = begin;
      starts[2 * (row * g.i[4] + s) + 1] = begin + length;
      begin += length;
    }
  }
}
extern "C" __global__ void reduce_segments(const __grid_constant__ General g) {
  const i64* starts = static_cast<const i64*>(g.room[0]);
  const i64 inner = g.i[1], how = g.i[5];
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const i64 segment = at / inner, row = segment / g.i[4];
    const i64 begin = starts[2 * segment], end = starts[2 * segment + 1];
    double total = g.f[0];
    for (i64 i = begin; i < end; ++i) {
      const double x = item_of<double>(g.in[0], (row * g.i[0] + i) * inner + at % inner);
      if (how == kSegmentMax) total = total != total || total > x ? total : x;
      else if (how == kSegmentMin) total = total != total || total < x ? total : x;
      else total = how == kSegmentProduct ? total * x : total + x;
    }
    if (how == kSegmentMean && end > begin) total /= static_cast<double>(end - begin);
    if (how == kSegmentMean && end == begin && g.i[6] == 0) total = static_cast<double>(CLIKA_NAN);
    put_item<double>(g.out[0], at, total);
  }
}

// ---------------------------------------------------------------- bags
// in[0]: a table of i[0] rows and i[1] columns; in[1]: ids, i[2] of them; in[2]: i[3] offsets, or bags of i[4] ids;
// in[3]: scales or none; i[5]: mode; i[6]: the id that is left out.
template <class C>
CLIKA_INLINE void bags(const General& g) {
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const i64 bag = at / g.i[1], column = at % g.i[1];
    i64 begin = bag * g.i[4], end = begin + g.i[4];
    if (g.in[2].dtype != 0) {
      begin = item_of<i64>(g.in[2], bag);
      end = bag + 1 < g.i[3] ? item_of<i64>(g.in[2], bag + 1) : g.i[2];
      if (begin < 0 || end < begin || end > g.i[2] || (bag == 0 && begin != 0)) {
        report(g.reporter.to, kIndexOutside, g.reporter.op, begin, g.i[2] + 1);
        continue;
      }
    }
    C sum = C(0);
    i64 seen = 0;
    for (i64 k = begin; k < end; ++k) {
      const i64 id = item_of<i64>(g.in[1], k);
      if (id < 0 || id >= g.i[0]) {
        report(g.reporter.to, kIndexOutside, g.reporter.op, id, g.i[0]);
        continue;
      }
      if (id == g.i[6]) continue;
      const C x = item_of<C>(g.in[0], id * g.i[1] + column);
      if (g.i[5] != 2) sum += g.in[3].dtype != 0 ? x * item_of<C>(g.in[3], k) : x;
      else if (seen == 0 || x > sum || x != x) sum = x;
      ++seen;
    }
    if (g.i[5] == 1 && seen > 0) sum = sum / static_cast<C>(seen);
    put_item<C>(g.out[0], at, sum);
  }
}
extern "C" __global__ void embed_bags(const __grid_constant__ General g) {
  if (g.in[0].dtype == kFloat64) bags<double>(g);
  else bags<float>(g);
}
