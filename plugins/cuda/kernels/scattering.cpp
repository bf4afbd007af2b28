// scatter and its like, put; segment_reduce; embedding_bag of a dense table.
#include "general.hpp"

namespace clika_cuda {

namespace {

Program *place_items, *replace_places, *fold_places, *segment_starts, *reduce_segments, *embed_bags;

enum How { kSum, kProduct, kMean, kLargest, kSmallest, kReplace };

// out[0] begins as a copy of input 0; input 1 names places along `along`: for every element of it, or (`slices`) for
// every slice of input 2.
General pairs_of(const clika_call* call, const char* op, int64_t along, bool slices) {
  const clika_value& out = call->outputs[0];
  const clika_value& index = call->inputs[1];
  const clika_value& source = call->inputs[2];
  General g = general_of(call, op);
  const int32_t dim = out.rank == 0 ? 0 : from_front(along, out.rank), rank = std::max(out.rank, 1);
  View &at = g.in[1], &from = g.in[2], &base = g.out[1];
  base = View{};
  at.rank = base.rank = rank;
  if (from.is_number == 0) from.rank = rank;
  g.n = 1;
  for (int32_t d = 0; d < rank; ++d) {
    int64_t size = index.rank == 0 ? 1 : index.shape[slices ? 0 : d];
    int64_t step = index.rank == 0 ? 0 : index.strides[slices ? 0 : d];
    if (slices && out.rank > 0 && d != dim) {
      size = out.shape[d];
      step = 0;
    }
    at.shape[d] = base.shape[d] = from.shape[d] = size;
    at.strides[d] = step;
    from.strides[d] = source.kind == CLIKA_NUMBER || source.rank == 0 ? 0 : source.strides[std::min(d, source.rank - 1)];
    base.strides[d] = out.rank == 0 || d == dim ? 0 : out.strides[d];
    g.n *= size;
  }
  g.i[0] = out.rank == 0 ? 1 : out.shape[dim];
  g.i[1] = out.rank == 0 ? 0 : out.strides[dim];
  return g;
}

int32_t fold(const clika_call* call, const char* op, General g, How how, bool include_self = true) {
  if (const int32_t status = move(call, op, call->outputs[0], call->inputs[0])) return status;
  if (g.n == 0) return CLIKA_OK;
  Item* items = room_for<Item>(call, g.n);
  if (items == nullptr) return CLIKA_UNAVAILABLE;
  g.room[0] = items;
  if (const int32_t status = launch_each(call, op, place_items, g)) return status;
  if (const int32_t status = sort_items(call, op, &items, 1, g.n)) return status;
  g.room[0] = items;
  g.i[3] = how;
  g.i[4] = include_self;
  return launch_each(call, op, how == kReplace ? replace_places : fold_places, g);
}

// Inputs x, index, src; attributes dim, reduce (none, add, multiply).
int32_t run_scatter(const clika_call* call) {
  const int64_t reduce = attr_int(call, 1, 0);
  return fold(call, "scatter", pairs_of(call, "scatter", attr_int(call, 0, 0), false),
              reduce == 0 ? kReplace : reduce == 1 ? kSum : kProduct);
}
// Attribute dim.
int32_t run_scatter_add(const clika_call* call) {
  return fold(call, "scatter_add", pairs_of(call, "scatter_add", attr_int(call, 0, 0), false), kSum);
}
// Attributes dim, reduce, include_self.
template <bool kSlices>
int32_t run_reduce(const clika_call* call) {
  const char* op = kSlices ? "index_reduce" : "scatter_reduce";
  return fold(call, op, pairs_of(call, op, attr_int(call, 0, 0), kSlices), static_cast<How>(attr_int(call, 1, kSum)),
              attr_int(call, 2, 1) != 0);
}
// Attribute dim; scalar alpha.
int32_t run_index_add(const clika_call* call) {
  General g = pairs_of(call, "index_add", attr_int(call, 0, 0), true);
  const bool whole = (kFloats4 & bit(call->inputs[0].dtype)) == 0;
  if (whole && call->n_scalars > 0 && call->scalars[0].is_float && !call->scalars[0].is_none) {
    return refuse(call, "the factor " + std::to_string(call->scalars[0].f) + " must be a whole number for integers and bool");
  }
  g.f[0] = scalar_float(call, 0, 1.0);
  g.i[6] = scalar_int(call, 0, 1);
  g.i[5] = whole ? g.i[6] != 1 : g.f[0] != 1.0;
  return fold(call, "index_add", g, kSum);
}
int32_t run_index_copy(const clika_call* call) {
  return fold(call, "index_copy", pairs_of(call, "index_copy", attr_int(call, 0, 0), true), kReplace);
}
int32_t run_index_fill(const clika_call* call) {
  return fold(call, "index_fill", pairs_of(call, "index_fill", attr_int(call, 0, 0), true), kReplace);
}
// Inputs x, index, source; attribute accumulate. Places count in all of the tensor; the source lies in one piece.
int32_t run_put(const clika_call* call) {
  General g = general_of(call, "put");
  g.i[0] = elements(call->outputs[0]);
  g.i[1] = 1;
  g.i[2] = 1;
  g.out[1] = View{};
  g.n = elements(call->inputs[1]);
  return fold(call, "put", g, attr_int(call, 0, 0) != 0 ? kSum : kReplace);
}

// Inputs data, lengths?, offsets?; attributes reduce, axis; scalar initial. In one piece.
int32_t run_segment_reduce(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  const clika_value& out = call->outputs[0];
  General g = general_of(call, "segment_reduce");
  if (g.n == 0) return CLIKA_OK;
  const bool by_length = present(call, 1);
  const clika_value& cuts = call->inputs[by_length ? 1 : 2];
  const int32_t axis = from_front(attr_int(call, 1, 0), in.rank);
  int64_t rows = 1;
  g.i[1] = 1;
  for (int32_t d = 0; d < axis; ++d) rows *= in.shape[d];
  for (int32_t d = axis + 1; d < in.rank; ++d) g.i[1] *= in.shape[d];
  g.in[1] = view_of(cuts);
  g.i[0] = in.shape[axis];
  g.i[2] = by_length;
  g.i[3] = cuts.shape[axis];
  g.i[4] = out.shape[axis];
  g.i[5] = attr_int(call, 0, 0);
  g.i[6] = call->n_scalars > 0 && !call->scalars[0].is_none;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double starts[] = {0.0, 0.0, -infinity, infinity, 1.0};
  g.f[0] = g.i[6] ? scalar_float(call, 0, 0.0) : starts[g.i[5]];
  g.room[0] = room_for<int64_t>(call, 2 * rows * g.i[4]);
  if (g.room[0] == nullptr) return CLIKA_UNAVAILABLE;
  const auto results = g.n;
  g.n = rows;
  if (const int32_t status = launch_each(call, "segment_reduce", segment_starts, g)) return status;
  g.n = results;
  return launch_each(call, "segment_reduce", reduce_segments, g);
}

// weight, ids, offsets?, per_sample_weights?; attrs mode, include_last_offset, padding_idx. In one piece.
int32_t run_embedding_bag(const clika_call* call) {
  const clika_value& weight = call->inputs[0];
  const clika_value& ids = call->inputs[1];
  General g = general_of(call, "embedding_bag");
  g.i[0] = weight.shape[0];
  g.i[1] = weight.shape[1];
  g.i[2] = elements(ids);
  g.i[3] = present(call, 2) ? call->inputs[2].shape[0] : 0;
  g.i[4] = ids.rank == 2 ? ids.shape[1] : g.i[2];
  g.i[5] = attr_int(call, 0, 1);
  const int64_t padding = attr_int(call, 2, INT64_MAX);
  g.i[6] = padding < 0 ? padding + g.i[0] : padding;
  return launch_each(call, "embedding_bag", embed_bags, g);
}

}  // namespace

void add_scattering(Registry& registry) {
  const std::pair<Program**, const char*> programs[] = {
      {&place_items, "place_items"},       {&replace_places, "replace_places"},   {&fold_places, "fold_places"},
      {&segment_starts, "segment_starts"}, {&reduce_segments, "reduce_segments"}, {&embed_bags, "embed_bags"},
  };
  for (const auto& [program, name] : programs) *program = registry.program("scattering", "", name);
  constexpr uint64_t ordered = kEvery & ~bit(CLIKA_UINT64);  // whose order 64 signed bits keep
  const std::pair<const char*, clika_kernel_fn> all[] = {
      {"scatter", run_scatter},       {"scatter_add", run_scatter_add}, {"index_add", run_index_add},
      {"index_copy", run_index_copy}, {"index_fill", run_index_fill},
  };
  for (const auto& [name, run] : all) registry.entry(name, run, {kEvery, kIndex, kEvery}, kEvery);
  registry.entry("scatter_reduce", run_reduce<false>, {ordered, kIndex, ordered}, ordered);
  registry.entry("index_reduce", run_reduce<true>, {ordered, kIndex, ordered}, ordered);
  registry.entry("put", run_put, {kEvery, kIndex, kEvery}, kEvery, 0);
  registry.entry("segment_reduce", run_segment_reduce, {kFloats4, kIndex}, kFloats4, 0);
  registry.entry("embedding_bag", run_embedding_bag, {kFloats4, kIndex, kIndex, kFloats4}, kFloats4, 0);
}

}  // namespace clika_cuda
