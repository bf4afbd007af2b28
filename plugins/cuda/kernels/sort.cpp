// sort, argsort, msort, topk, kthvalue, median, nanmedian, mode, quantile, nanquantile.
#include "general.hpp"

namespace clika_cuda {

namespace {

using clika_device::Sorting;

Program* tiles;
Program* merge;
Program* make_items;
Program* write_order;
Program* pick_items;
Program* write_quantiles;

constexpr int64_t kTile = 1024;  // of sort.cu

// Lines of input 0 along a dim (or all of it), in order: room[0], with their length in i[0].
int32_t order(const clika_call* call, const char* op, const clika_attr& dim, bool descending, General* g) {
  const clika_value& in = call->inputs[0];
  const bool flat = dim.kind == CLIKA_ATTR_NONE;
  const int32_t d = flat ? 0 : from_front(dim.v.i, in.rank);
  *g = general_of(call, op);
  g->in[0] = flat ? view_of(in) : lines_of(in, d);
  g->i[0] = flat ? elements(in) : in.rank == 0 ? 1 : in.shape[d];
  g->i[1] = descending;
  g->n = elements(in);
  if (g->n == 0) return CLIKA_OK;
  Item* items = room_for<Item>(call, g->n);
  if (items == nullptr) return CLIKA_UNAVAILABLE;
  g->room[0] = items;
  if (const int32_t status = launch_each(call, op, make_items, *g)) return status;
  if (const int32_t status = sort_items(call, op, &items, g->n / g->i[0], g->i[0])) return status;
  g->room[0] = items;
  return CLIKA_OK;
}

// The first k of every line (-1: all); values, indices or both.
int32_t write(const clika_call* call, const char* op, const clika_attr& dim, int64_t k, bool descending,
              const clika_value* values, const clika_value* indices) {
  General g;
  if (const int32_t status = order(call, op, dim, descending, &g)) return status;
  const clika_value& out = values != nullptr ? *values : *indices;
  const int32_t d = from_front(dim.v.i, out.rank);
  g.i[2] = k < 0 ? g.i[0] : k;
  g.n = elements(out);
  g.out[0] = values != nullptr ? lines_of(*values, d) : View{};
  g.out[1] = indices != nullptr ? lines_of(*indices, d) : View{};
  return launch_each(call, op, write_order, g);
}

// Attributes: dim, descending, stable (it is).
int32_t run_sort(const clika_call* call) {
  return write(call, "sort", call->attrs[0], -1, attr_int(call, 1, 0) != 0, &call->outputs[0], &call->outputs[1]);
}
int32_t run_argsort(const clika_call* call) {
  return write(call, "argsort", call->attrs[0], -1, attr_int(call, 1, 0) != 0, nullptr, &call->outputs[0]);
}
int32_t run_msort(const clika_call* call) {
  const clika_attr first{CLIKA_ATTR_INT, 1, {0}};
  return write(call, "msort", first, -1, false, &call->outputs[0], nullptr);
}
// Attributes: k, dim, largest, sorted (the result is sorted either way).
int32_t run_topk(const clika_call* call) {
  return write(call, "topk", call->attrs[1], attr_int(call, 0, 1), attr_int(call, 2, 1) != 0, &call->outputs[0],
               &call->outputs[1]);
}

enum Which { kKth, kMedian, kNanMedian, kMode };
// One element of every line. Results are in one piece, in the order of the lines.
int32_t pick(const clika_call* call, const char* op, const clika_attr& dim, Which which, int64_t k) {
  General g;
  if (const int32_t status = order(call, op, dim, false, &g)) return status;
  g.n = elements(call->outputs[0]);
  g.i[2] = which;
  g.i[3] = k;
  return launch_each(call, op, pick_items, g);
}
// Attributes: k, dim, keepdim.
int32_t run_kthvalue(const clika_call* call) {
  return pick(call, "kthvalue", call->attrs[1], kKth, attr_int(call, 0, 1));
}
// Attributes: dim, keepdim.
int32_t run_median(const clika_call* call) { return pick(call, "median", call->attrs[0], kMedian, 0); }
int32_t run_nanmedian(const clika_call* call) { return pick(call, "nanmedian", call->attrs[0], kNanMedian, 0); }
int32_t run_mode(const clika_call* call) { return pick(call, "mode", call->attrs[0], kMode, 0); }

// Inputs x, q; attributes dim, keepdim, interpolation.
template <bool kSkipNan>
int32_t run_quantile(const clika_call* call) {
  const char* op = kSkipNan ? "nanquantile" : "quantile";
  General g;
  if (const int32_t status = order(call, op, call->attrs[0], false, &g)) return status;
  g.n = elements(call->outputs[0]);
  g.i[2] = g.n / std::max<int64_t>(1, elements(call->inputs[1]));
  g.i[3] = attr_int(call, 2, 0);
  g.i[4] = kSkipNan;
  return launch_each(call, op, write_quantiles, g);
}

}  // namespace

int32_t sort_items(const clika_call* call, const char* op, Item** items, int64_t lines, int64_t n) {
  if (lines == 0 || n < 2) return CLIKA_OK;
  Sorting s{*items, *items, lines, n, kTile};
  const Grid grid{static_cast<unsigned>(lines * ((n + kTile - 1) / kTile))};
  if (const int32_t status = launch(call, op, tiles, grid, n <= 128 ? 64 : 256, &s)) return status;
  if (n <= kTile) return CLIKA_OK;
  Item* other = room_for<Item>(call, lines * n);
  if (other == nullptr) return CLIKA_UNAVAILABLE;
  for (; s.width < n; s.width *= 2) {
    s.to = other;
    if (const int32_t status = launch(call, op, merge, {blocks_for(call, lines * n, 256)}, 256, &s)) return status;
    other = s.from;
    s.from = s.to;
  }
  *items = s.from;
  return CLIKA_OK;
}

void add_sort(Registry& registry) {
  tiles = registry.program("sort", "", "sort_tiles");
  merge = registry.program("sort", "", "merge_runs");
  make_items = registry.program("sort", "", "make_items");
  write_order = registry.program("sort", "", "write_order");
  pick_items = registry.program("sort", "", "pick_items");
  write_quantiles = registry.program("sort", "", "write_quantiles");
  const std::pair<const char*, clika_kernel_fn> entries[] = {
      {"sort", run_sort},     {"argsort", run_argsort},     {"msort", run_msort}, {"topk", run_topk},
      {"kthvalue", run_kthvalue}, {"median", run_median}, {"nanmedian", run_nanmedian}, {"mode", run_mode},
  };
  for (const auto& [name, run] : entries) registry.entry(name, run, {kEvery}, kEvery);
  constexpr uint64_t wide = bit(CLIKA_FLOAT32) | bit(CLIKA_FLOAT64);
  registry.entry("quantile", run_quantile<false>, {wide}, wide);
  registry.entry("nanquantile", run_quantile<true>, {wide}, wide);
}

}  // namespace clika_cuda
