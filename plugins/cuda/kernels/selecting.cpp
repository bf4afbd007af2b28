// nonzero, masked_select, masked_scatter, take, one_hot; searches in sorted numbers, histograms, distinct values.
#include <cmath>

#include "general.hpp"

namespace clika_cuda {

namespace {

Program *count_true, *sum_chunks, *write_true, *fill_rest, *take_items, *take_along, *one_hot, *ends_of_reals,
    *ends_of_wholes, *search_sorted, *check_sorter, *look_up, *histc_counts, *write_counts, *write_edges, *check_edges,
    *bin_items, *number_items, *sum_items, *write_density, *slice_items, *rank_slices, *mark_runs, *write_runs,
    *write_lengths, *write_inverse, *make_items;

constexpr int64_t kChunk = 2048;  // of selecting.cu
enum Taken { kCoordinates, kElements, kReplace, kRuns };

// ---------------------------------------------------------------- what is true
// Counts the true elements of in[0], i[0] of them; room[0] has the counts, i[1] says of how many chunks.
int32_t count(const clika_call* call, const char* op, General* g) {
  g->i[1] = (g->i[0] + kChunk - 1) / kChunk;
  g->i[3] = INT64_MAX;
  g->room[0] = room_for<int64_t>(call, g->i[1] + 1);
  if (g->room[0] == nullptr) return CLIKA_UNAVAILABLE;
  if (g->i[1] > 0) {
    const int32_t status = launch(call, op, count_true, {static_cast<unsigned>(g->i[1])}, 256, g);
    if (status != CLIKA_OK) return status;
  }
  return launch(call, op, sum_chunks, {1}, 256, g);
}
int32_t total(const clika_call* call, const General& g, int64_t* found) {
  return read_back(call, static_cast<const int64_t*>(g.room[0]) + g.i[1], found, 8);
}
int32_t write(const clika_call* call, const char* op, General* g, Taken what) {
  g->i[2] = what;
  return g->i[1] == 0 ? static_cast<int32_t>(CLIKA_OK)
                      : launch(call, op, write_true, {static_cast<unsigned>(g->i[1])}, 256, g);
}

int32_t run_nonzero(const clika_call* call) {
  General g = general_of(call, "nonzero");
  const clika_value& in = call->inputs[0];
  g.i[0] = elements(in);
  if (const int32_t status = count(call, "nonzero", &g)) return status;
  int64_t shape[2] = {0, in.rank};
  if (const int32_t status = total(call, g, &shape[0])) return status;
  if (const int32_t status = call->core->allocate_output(call, 0, 2, shape)) return status;
  g.out[0] = view_of(call->outputs[0]);
  return shape[0] == 0 ? static_cast<int32_t>(CLIKA_OK) : write(call, "nonzero", &g, kCoordinates);
}

// Attribute size; scalar fill_value.
int32_t run_nonzero_static(const clika_call* call) {
  General g = general_of(call, "nonzero_static");
  g.i[0] = elements(call->inputs[0]);
  if (const int32_t status = count(call, "nonzero_static", &g)) return status;
  g.i[3] = call->outputs[0].shape[0];
  if (g.n == 0) return CLIKA_OK;
  if (const int32_t status = write(call, "nonzero_static", &g, kCoordinates)) return status;
  g.i[4] = scalar_int(call, 0, -1);
  return launch_each(call, "nonzero_static", fill_rest, g);
}

View broadcast(const clika_value& v, int32_t rank, const int64_t* shape) {
  View view = view_of(v);
  if (v.kind == CLIKA_NUMBER) return view;
  view.rank = rank;
  for (int32_t d = 0; d < rank; ++d) {
    const int32_t own = d - (rank - v.rank);
    view.shape[d] = shape[d];
    view.strides[d] = own >= 0 && v.shape[own] != 1 ? v.strides[own] : 0;
  }
  return view;
}

int32_t run_masked_select(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  const clika_value& mask = call->inputs[1];
  int64_t shape[CLIKA_MAX_RANK];
  const int32_t rank = std::max(in.rank, mask.rank);
  General g = general_of(call, "masked_select");
  g.i[0] = 1;
  for (int32_t d = 0; d < rank; ++d) {
    const int32_t a = d - (rank - in.rank), b = d - (rank - mask.rank);
    shape[d] = a < 0 || (b >= 0 && in.shape[a] == 1) ? mask.shape[b] : in.shape[a];
    g.i[0] *= shape[d];
  }
  g.in[0] = broadcast(mask, rank, shape);
  g.in[1] = broadcast(in, rank, shape);
  if (const int32_t status = count(call, "masked_select", &g)) return status;
  int64_t found = 0;
  if (const int32_t status = total(call, g, &found)) return status;
  if (const int32_t status = call->core->allocate_output(call, 0, 1, &found)) return status;
  g.out[0] = view_of(call->outputs[0]);
  return found == 0 ? static_cast<int32_t>(CLIKA_OK) : write(call, "masked_select", &g, kElements);
}

// Inputs x, mask, source.
int32_t run_masked_scatter(const clika_call* call) {
  const clika_value& out = call->outputs[0];
  if (const int32_t status = move(call, "masked_scatter", out, call->inputs[0])) return status;
  General g = general_of(call, "masked_scatter");
  g.i[0] = g.n;
  g.in[0] = broadcast(call->inputs[1], out.rank, out.shape);
  g.in[1] = view_of(call->inputs[2]);
  if (const int32_t status = count(call, "masked_scatter", &g)) return status;
  g.i[3] = elements(call->inputs[2]);
  return write(call, "masked_scatter", &g, kReplace);
}

// ---------------------------------------------------------------- positions
int32_t take(const clika_call* call, const char* op) {
  General g = general_of(call, op);
  g.i[0] = elements(call->inputs[0]);
  return launch_each(call, op, take_items, g);
}
int32_t run_take(const clika_call* call) { return take(call, "take"); }
// Attribute dim.
int32_t run_take_along_dim(const clika_call* call) {
  if (call->attrs[0].kind == CLIKA_ATTR_NONE) return take(call, "take_along_dim");
  const clika_value& in = call->inputs[0];
  const clika_value& out = call->outputs[0];
  General g = general_of(call, "take_along_dim");
  const int32_t dim = in.rank == 0 ? 0 : from_front(call->attrs[0].v.i, in.rank);
  g.in[0] = broadcast(in, out.rank, out.shape);
  g.in[1] = broadcast(call->inputs[1], out.rank, out.shape);
  if (out.rank > 0) g.in[0].strides[dim] = 0;
  g.i[0] = in.rank == 0 ? 1 : in.shape[dim];
  g.i[1] = in.rank == 0 ? 0 : in.strides[dim];
  return launch_each(call, "take_along_dim", take_along, g);
}

int32_t find_ends(const clika_call* call, const char* op, Program* program, General* g, void* to) {
  g->i[0] = elements(call->inputs[0]);
  g->room[0] = room_for<int64_t>(call, 2);
  if (g->room[0] == nullptr) return CLIKA_UNAVAILABLE;
  const int32_t status = launch(call, op, program, {1}, g->i[0] <= 1024 ? 64 : 512, g);
  return status == CLIKA_OK ? read_back(call, g->room[0], to, 16) : status;
}

// Attribute num_classes, -1 for as many as the input needs.
int32_t run_one_hot(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  General g = general_of(call, "one_hot");
  int64_t classes = attr_int(call, 0, -1);
  if (classes < 0) {
    if (elements(in) == 0) return refuse(call, "one_hot: num_classes must be given where input has no elements");
    int64_t ends[2];
    if (const int32_t status = find_ends(call, "one_hot", ends_of_wholes, &g, ends)) return status;
    if (ends[0] < 0 || ends[1] == INT64_MAX) {
      return refuse(call, "one_hot: index " + std::to_string(ends[0] < 0 ? ends[0] : ends[1]) + " is not from 0 up");
    }
    classes = ends[1] + 1;
    int64_t shape[CLIKA_MAX_RANK];
    std::copy_n(in.shape, in.rank, shape);
    shape[in.rank] = classes;
    if (const int32_t status = call->core->allocate_output(call, 0, in.rank + 1, shape)) return status;
    g.out[0] = view_of(call->outputs[0]);
  }
  g.n = elements(call->outputs[0]);
  g.i[0] = classes;
  return launch_each(call, "one_hot", one_hot, g);
}

// ---------------------------------------------------------------- searches
// Inputs sorted_sequence, values, sorter?; attributes out_int32, right, side. In one piece.
int32_t run_searchsorted(const clika_call* call) {
  General g = general_of(call, "searchsorted");
  const clika_value& sorted = call->inputs[0];
  const clika_value& values = call->inputs[1];
  g.i[0] = sorted.shape[sorted.rank - 1];
  g.i[1] = sorted.rank > 1 ? values.shape[values.rank - 1] : std::max<int64_t>(1, g.n);
  g.i[2] = attr_int(call, 1, 0) != 0 || attr_int(call, 2, 0) == 1;
  if (present(call, 2)) {
    const clika_value& sorter = call->inputs[2];
    clika_value copy = sorter;
    copy.data = room_for<int64_t>(call, elements(sorter));
    if (copy.data == nullptr) return CLIKA_UNAVAILABLE;
    if (const int32_t status = move(call, "searchsorted", copy, sorter)) return status;
    General check = g;
    check.in[2] = view_of(copy);
    check.n = elements(sorter);
    if (const int32_t status = launch_each(call, "searchsorted", check_sorter, check)) return status;
    g.in[2] = check.in[2];
  }
  return launch_each(call, "searchsorted", search_sorted, g);
}
// Inputs x, boundaries; attributes out_int32, right.
int32_t run_bucketize(const clika_call* call) {
  General g = general_of(call, "bucketize");
  std::swap(g.in[0], g.in[1]);
  g.i[0] = elements(call->inputs[1]);
  g.i[1] = std::max<int64_t>(1, g.n);
  g.i[2] = attr_int(call, 1, 0) != 0;
  g.i[3] = 1;
  return launch_each(call, "bucketize", search_sorted, g);
}
// Inputs elements, test_elements; attributes assume_unique, invert.
int32_t run_isin(const clika_call* call) {
  General g = general_of(call, "isin");
  const int64_t n = elements(call->inputs[1]);
  Item* items = room_for<Item>(call, n);
  if (items == nullptr) return CLIKA_UNAVAILABLE;
  General others = g;
  others.in[0] = g.in[1];
  others.room[0] = items;
  others.n = n;
  others.i[0] = std::max<int64_t>(1, n);
  if (const int32_t status = launch_each(call, "isin", make_items, others)) return status;
  if (const int32_t status = sort_items(call, "isin", &items, 1, n)) return status;
  g.room[0] = items;
  g.i[0] = n;
  g.i[1] = attr_int(call, 1, 0) != 0;
  return launch_each(call, "isin", look_up, g);
}

// ---------------------------------------------------------------- histograms
// Sums of the items' weights by bin, each in the order of the elements.
int32_t sum_bins(const clika_call* call, const char* op, Program* program, General* g, int64_t n, int64_t bins) {
  Item* items = room_for<Item>(call, n);
  if (items == nullptr) return CLIKA_UNAVAILABLE;
  g->room[0] = items;
  g->n = n;
  if (const int32_t status = launch_each(call, op, program, *g)) return status;
  if (const int32_t status = sort_items(call, op, &items, 1, n)) return status;
  g->room[0] = items;
  g->i[1] = n;
  g->n = bins;
  return launch_each(call, op, sum_items, *g);
}

// Inputs x (int64), weights?; attribute minlength.
int32_t run_bincount(const clika_call* call) {
  General g = general_of(call, "bincount");
  const int64_t n = elements(call->inputs[0]);
  int64_t size = attr_int(call, 0, 0);
  if (n > 0) {
    int64_t ends[2];
    if (const int32_t status = find_ends(call, "bincount", ends_of_wholes, &g, ends)) return status;
    if (ends[0] < 0 || ends[1] == INT64_MAX) {
      return refuse(call, "bincount: input holds " + std::to_string(ends[0] < 0 ? ends[0] : ends[1]) +
                              "; it counts numbers from 0 up");
    }
    size = std::max(size, ends[1] + 1);
  }
  if (const int32_t status = call->core->allocate_output(call, 0, 1, &size)) return status;
  g.out[0] = view_of(call->outputs[0]);
  g.in[2] = present(call, 1) ? view_of(call->inputs[1]) : View{};
  g.i[0] = size;
  g.i[2] = call->outputs[0].dtype == CLIKA_FLOAT32;
  return sum_bins(call, "bincount", number_items, &g, n, size);
}

int32_t check_ends(const clika_call* call, const char* op, double low, double high) {
  if (std::isfinite(low) && std::isfinite(high) && low <= high) return CLIKA_OK;
  return refuse(call, std::string(op) + ": the range from " + std::to_string(low) + " to " + std::to_string(high) +
                          " must be finite and ascending");
}

// Attribute bins; scalars min, max.
int32_t run_histc(const clika_call* call) {
  General g = general_of(call, "histc");
  const bool wide = call->inputs[0].dtype == CLIKA_FLOAT64;
  for (uint32_t k = 0; k < 2; ++k) g.f[k] = wide ? scalar_float(call, k, 0.0) : static_cast<float>(scalar_float(call, k, 0.0));
  if (!(g.f[0] <= g.f[1]) || std::isinf(g.f[0]) || std::isinf(g.f[1])) return check_ends(call, "histc", g.f[0], g.f[1]);
  g.i[0] = elements(call->inputs[0]);
  g.i[1] = g.n;
  if (g.n == 0) return CLIKA_OK;
  g.room[0] = room_for<int64_t>(call, g.n);
  if (g.room[0] == nullptr) return CLIKA_UNAVAILABLE;
  if (const int32_t status = clear(call, "histc", g.room[0], g.n * 8)) return status;
  if (g.f[0] == g.f[1] && g.i[0] > 0) {  // the ends of what is there, found on the device
    General ends = g;
    ends.room[0] = g.room[1] = room_for<double>(call, 2);
    if (g.room[1] == nullptr) return CLIKA_UNAVAILABLE;
    const int32_t status = launch(call, "histc", ends_of_reals, {1}, g.i[0] <= 1024 ? 64 : 512, &ends);
    if (status != CLIKA_OK) return status;
  }
  if (g.i[0] > 0) {
    const int32_t status = launch(call, "histc", histc_counts, {blocks_for(call, g.i[0], 256)}, 256, &g);
    if (status != CLIKA_OK) return status;
  }
  return launch_each(call, "histc", write_counts, g);
}

// Inputs x, bins (a number, or edges), weight?; attributes range, density.
int32_t run_histogram(const clika_call* call) {
  const clika_value& asked = call->inputs[1];
  const int64_t n = elements(call->inputs[0]);
  General g = general_of(call, "histogram");
  int64_t bins = 0;
  if (asked.rank == 0) {
    if (asked.kind == CLIKA_NUMBER) std::memcpy(&bins, asked.data, 8);
    else if (const int32_t status = read_back(call, asked.data, &bins, 8)) return status;
    if (bins < 1) return refuse(call, "histogram: bins " + std::to_string(bins) + " must be 1 or more");
    double ends[2] = {0.0, n == 0 ? 1.0 : 0.0};
    const clika_attr& range = call->attrs[0];
    if (range.kind == CLIKA_ATTR_FLOATS) {
      const bool wide = call->inputs[0].dtype == CLIKA_FLOAT64;
      for (int k = 0; k < 2; ++k) ends[k] = wide ? range.v.floats[k] : static_cast<float>(range.v.floats[k]);
    } else if (n > 0) {
      if (const int32_t status = find_ends(call, "histogram", ends_of_reals, &g, ends)) return status;
    }
    if (const int32_t status = check_ends(call, "histogram", ends[0], ends[1])) return status;
    if (ends[0] == ends[1]) {
      ends[0] -= 0.5;
      ends[1] += 0.5;
    }
    const int64_t edges = bins == INT64_MAX ? bins : bins + 1;
    int32_t status = call->core->allocate_output(call, 0, 1, &bins);
    if (status == CLIKA_OK) status = call->core->allocate_output(call, 1, 1, &edges);
    if (status != CLIKA_OK) return status;
    for (int k = 0; k < 2; ++k) {
      g.out[k] = view_of(call->outputs[k]);
      g.f[k] = ends[k];
    }
    g.i[0] = bins;
    status = launch(call, "histogram", write_edges, {blocks_for(call, bins + 1, 256)}, 256, &g);
    if (status != CLIKA_OK) return status;
  } else {
    bins = asked.shape[0] - 1;
    if (const int32_t status = move(call, "histogram", call->outputs[1], asked)) return status;
    g.i[0] = bins;
    if (bins > 0) {
      const int32_t status = launch(call, "histogram", check_edges, {blocks_for(call, bins, 256)}, 256, &g);
      if (status != CLIKA_OK) return status;
    }
  }
  g.in[2] = present(call, 2) ? view_of(call->inputs[2]) : View{};
  g.room[1] = room_for<double>(call, bins);
  if (g.room[1] == nullptr) return CLIKA_UNAVAILABLE;
  g.i[2] = 0;
  if (const int32_t status = sum_bins(call, "histogram", bin_items, &g, n, bins)) return status;
  g.i[2] = attr_int(call, 1, 0) != 0;
  return launch_each(call, "histogram", write_density, g);
}

// ---------------------------------------------------------------- distinct values
int32_t distinct(const clika_call* call, const char* op, bool sort, bool with_inverse, bool with_counts,
                 const clika_attr& dim) {
  const clika_value& in = call->inputs[0];
  const bool sliced = dim.kind != CLIKA_ATTR_NONE;
  const int32_t at = sliced ? from_front(dim.v.i, in.rank) : 0;
  General g{};
  g.reporter = reporter_of(call, op);
  const auto slices_first = [&](const clika_value& v) {
    View view = view_of(v);
    for (int32_t d = at; d > 0; --d) {
      view.shape[d] = v.shape[d - 1];
      view.strides[d] = v.strides[d - 1];
    }
    view.shape[0] = v.shape[at];
    view.strides[0] = v.strides[at];
    return view;
  };
  g.in[0] = sliced && in.rank > 0 ? slices_first(in) : view_of(in);
  const int64_t all = elements(in), n = sliced ? in.shape[at] : all;
  g.i[0] = g.n = n;
  g.i[1] = sliced ? all / std::max<int64_t>(1, n) : 1;
  Item* items = room_for<Item>(call, n);
  g.room[1] = items;
  g.room[2] = room_for<uint8_t>(call, n);
  g.room[3] = room_for<int64_t>(call, n);
  if (items == nullptr || g.room[2] == nullptr || g.room[3] == nullptr) return CLIKA_UNAVAILABLE;
  const bool ranked = sort && g.i[1] != 1;
  if (const int32_t status = launch_each(call, op, ranked ? rank_slices : slice_items, g)) return status;
  if (sort && !ranked) {
    if (const int32_t status = sort_items(call, op, &items, 1, n)) return status;
    g.room[1] = items;
  }
  if (const int32_t status = launch_each(call, op, mark_runs, g)) return status;
  // The places where runs begin, and the number of each place's run.
  General runs{};
  runs.reporter = g.reporter;
  runs.in[0].data = g.room[2];
  runs.in[0].dtype = CLIKA_UINT8;
  runs.in[0].rank = 1;
  runs.in[0].shape[0] = n;
  runs.in[0].strides[0] = 1;
  runs.i[0] = n;
  runs.room[2] = room_for<int64_t>(call, n);
  runs.room[3] = g.room[3];
  if (runs.room[2] == nullptr) return CLIKA_UNAVAILABLE;
  if (const int32_t status = count(call, op, &runs)) return status;
  int64_t m = 0;
  if (const int32_t status = total(call, runs, &m)) return status;
  if (const int32_t status = write(call, op, &runs, kRuns)) return status;
  g.room[2] = runs.room[2];

  int64_t sizes[CLIKA_MAX_RANK] = {m};
  for (int32_t d = 0; sliced && d < in.rank; ++d) sizes[d] = d == at ? m : in.shape[d];
  if (const int32_t status = call->core->allocate_output(call, 0, sliced ? in.rank : 1, sizes)) return status;
  const clika_value& values = call->outputs[0];
  g.out[0] = sliced && in.rank > 0 ? slices_first(values) : view_of(values);
  g.n = elements(values);
  if (const int32_t status = launch_each(call, op, write_runs, g)) return status;
  if (with_inverse) {
    g.out[1] = view_of(call->outputs[1]);
    g.n = n;
    if (const int32_t status = launch_each(call, op, write_inverse, g)) return status;
  }
  if (with_counts) {
    const uint32_t which = with_inverse ? 2 : 1;
    if (const int32_t status = call->core->allocate_output(call, which, 1, &m)) return status;
    g.out[2] = view_of(call->outputs[which]);
    g.n = m;
    return launch_each(call, op, write_lengths, g);
  }
  return CLIKA_OK;
}
// Attributes: sorted (it is), return_inverse, return_counts, dim.
int32_t run_unique(const clika_call* call) {
  return distinct(call, "unique", true, attr_int(call, 1, 0) != 0, attr_int(call, 2, 0) != 0, call->attrs[3]);
}
// Attributes: return_inverse, return_counts, dim.
int32_t run_unique_consecutive(const clika_call* call) {
  return distinct(call, "unique_consecutive", false, attr_int(call, 0, 0) != 0, attr_int(call, 1, 0) != 0, call->attrs[2]);
}

}  // namespace

void add_selecting(Registry& registry) {
  const std::pair<Program**, const char*> programs[] = {
#define CLIKA_X(name) {&name, #name}
      CLIKA_X(count_true),    CLIKA_X(sum_chunks),   CLIKA_X(write_true),    CLIKA_X(fill_rest),
      CLIKA_X(take_items),    CLIKA_X(take_along),   CLIKA_X(one_hot),       CLIKA_X(ends_of_reals),
      CLIKA_X(ends_of_wholes), CLIKA_X(search_sorted), CLIKA_X(check_sorter), CLIKA_X(look_up),
      CLIKA_X(histc_counts),  CLIKA_X(write_counts), CLIKA_X(write_edges),   CLIKA_X(check_edges),
      CLIKA_X(bin_items),     CLIKA_X(number_items), CLIKA_X(sum_items),     CLIKA_X(write_density),
      CLIKA_X(slice_items),   CLIKA_X(rank_slices),  CLIKA_X(mark_runs),     CLIKA_X(write_runs),
      CLIKA_X(write_lengths), CLIKA_X(write_inverse),
#undef CLIKA_X
  };
  for (const auto& [program, name] : programs) *program = registry.program("selecting", "", name);
  make_items = registry.program("sort", "", "make_items");
  constexpr uint64_t i64 = bit(CLIKA_INT64), wide = bit(CLIKA_FLOAT32) | bit(CLIKA_FLOAT64);
  registry.entry("nonzero", run_nonzero, {kEvery}, i64);
  registry.entry("nonzero_static", run_nonzero_static, {kEvery}, i64);
  registry.entry("masked_select", run_masked_select, {kEvery, kBools}, kEvery);
  registry.entry("masked_scatter", run_masked_scatter, {kEvery, kBools, kEvery}, kEvery);
  registry.entry("take", run_take, {kEvery, kIndex}, kEvery);
  registry.entry("take_along_dim", run_take_along_dim, {kEvery, kIndex}, kEvery);
  registry.entry("one_hot", run_one_hot, {i64}, i64);
  registry.entry("searchsorted", run_searchsorted, {kEvery, kEvery, i64}, kIndex, 0);
  registry.entry("bucketize", run_bucketize, {kEvery}, kIndex);
  registry.entry("isin", run_isin, {kEvery}, kBools);
  registry.entry("bincount", run_bincount, {i64, i64 | wide}, i64 | wide);
  registry.entry("histc", run_histc, {kFloats4}, kFloats4);
  registry.entry("histogram", run_histogram, {wide, wide | i64, wide}, wide);
  registry.entry("unique", run_unique, {kEvery}, kEvery);
  registry.entry("unique_consecutive", run_unique_consecutive, {kEvery}, kEvery);
}

}  // namespace clika_cuda
