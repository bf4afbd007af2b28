// gather, index_select; index and index_put_.
#include "general.hpp"

namespace clika_cuda {

namespace {

using clika_device::Gather;
using clika_device::Picked;

Program* gather;
Program* read_picked;
Program* clear_places;
Program* claim_places;
Program* write_picked;
Program* picked_items;
Program* add_picked;

int32_t front_of(int64_t dim, const clika_value& v) { return static_cast<int32_t>(dim < 0 ? dim + v.rank : dim); }

// out[.., i, ..] = in[.., index[.., i, ..], ..]: the input seen with the result's shape, standing still along the dim. A
// scalar input counts as one dim of size 1.
int32_t run_gather(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  const clika_value& index = call->inputs[1];
  const clika_value& out = call->outputs[0];
  const int32_t dim = front_of(attr_int(call, 0, 0), in);
  int64_t strides[CLIKA_MAX_RANK] = {};
  for (int32_t d = 0; d < in.rank; ++d) strides[d] = d == dim || in.shape[d] == 1 ? 0 : in.strides[d];
  clika_value base = in;
  base.shape = out.shape;
  base.strides = strides;
  base.rank = out.rank;
  const clika_value* operands[] = {&out, &index, &base};
  const Walk walk(operands, 3);
  Gather g{};
  g.in = in.data;
  g.index = index.data;
  g.out = out.data;
  g.rank = walk.rank;
  g.n = walk.n;
  for (int d = 0; d < walk.rank; ++d) {
    g.shape[d] = walk.shape[d];
    g.out_strides[d] = walk.strides[0][d];
    g.index_strides[d] = walk.strides[1][d];
    g.in_strides[d] = walk.strides[2][d];
  }
  g.size = in.rank == 0 ? 1 : in.shape[dim];
  g.stride = in.rank == 0 ? 0 : in.strides[dim];
  g.index_dtype = index.dtype;
  g.bytes = static_cast<int>(size_of(in.dtype));
  g.reporter = reporter_of(call, "gather");
  return g.n == 0 ? CLIKA_OK : launch(call, "gather", gather, {blocks_for(call, g.n, 512)}, 256, &g);
}

// input, index [n]; attr dim. The index lies along the dim of the result.
int32_t run_index_select(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  const clika_value& index = call->inputs[1];
  const clika_value& out = call->outputs[0];
  const int32_t dim = front_of(attr_int(call, 0, 0), in);
  Gather g{};
  g.in = in.data;
  g.index = index.data;
  g.out = out.data;
  g.rank = out.rank;
  g.n = elements(out);
  for (int32_t d = 0; d < out.rank; ++d) {
    g.shape[d] = out.shape[d];
    g.out_strides[d] = out.strides[d];
    g.in_strides[d] = d == dim ? 0 : in.strides[d];
    g.index_strides[d] = d == dim && index.rank > 0 ? index.strides[0] : 0;
  }
  g.size = in.rank == 0 ? 1 : in.shape[dim];
  g.stride = in.rank == 0 ? 0 : in.strides[dim];
  g.index_dtype = index.dtype;
  g.bytes = static_cast<int>(size_of(in.dtype));
  g.reporter = reporter_of(call, "index_select");
  return g.n == 0 ? CLIKA_OK : launch(call, "index_select", gather, {blocks_for(call, g.n, 512)}, 256, &g);
}

// The walk of input[indices]: the dims of the broadcast indices stand where the indexed dims stood if those are
// neighbours, else in front.
int32_t picked_of(const clika_call* call, const char* op, const clika_value& in, const clika_value& list,
                  const clika_attr& dims, Picked* p) {
  const int32_t n = list.n_items;
  int32_t at[CLIKA_MAX_RANK];
  int32_t picked = 0;
  for (int32_t k = 0; k < n; ++k) {
    at[k] = front_of(dims.kind == CLIKA_ATTR_NONE ? k : dims.v.ints[k], in);
    picked = std::max(picked, list.items[k].rank);
  }
  int64_t sizes[CLIKA_MAX_RANK], steps[CLIKA_MAX_RANK];
  for (int32_t d = 0; d < picked; ++d) {
    sizes[d] = 1;
    for (int32_t k = 0; k < n; ++k) {
      const int32_t own = d - (picked - list.items[k].rank);
      if (own >= 0 && list.items[k].shape[own] != 1) sizes[d] = list.items[k].shape[own];
    }
  }
  int64_t step = 1;
  for (int32_t d = picked - 1; d >= 0; --d) {
    steps[d] = step;
    step *= sizes[d];
  }
  p->positions = 1;
  for (int32_t k = 0; k < n; ++k) {
    p->indices[k] = list.items[k].data;
    p->index_dtypes[k] = list.items[k].dtype;
    p->sizes[k] = in.shape[at[k]];
    p->steps[k] = in.strides[at[k]];
    p->positions *= in.shape[at[k]];
  }
  const int32_t place = at[n - 1] - at[0] == n - 1 ? at[0] : 0;
  int32_t next = 0;
  for (int32_t d = 0; d <= in.rank; ++d) {
    if (p->rank == place) {
      for (int32_t i = 0; i < picked; ++i) {
        p->shape[p->rank] = sizes[i];
        p->position_strides[p->rank] = steps[i];
        for (int32_t k = 0; k < n; ++k) {
          const int32_t own = i - (picked - list.items[k].rank);
          const bool walks = own >= 0 && list.items[k].shape[own] != 1;
          p->index_strides[k][p->rank] = walks ? list.items[k].strides[own] : 0;
        }
        ++p->rank;
      }
    }
    if (d == in.rank) break;
    if (next < n && at[next] == d) {
      ++next;
      continue;
    }
    p->shape[p->rank] = in.shape[d];
    p->picked_strides[p->rank++] = in.strides[d];
  }
  p->count = n;
  p->picked = in.data;
  p->bytes = static_cast<int>(size_of(in.dtype));
  p->dtype = in.dtype;
  p->reporter = reporter_of(call, op);
  p->n = 1;
  for (int d = 0; d < p->rank; ++d) p->n *= p->shape[d];
  return CLIKA_OK;
}

// input, indices; attr dims.
int32_t run_index(const clika_call* call) {
  const clika_value& out = call->outputs[0];
  Picked p{};
  if (const int32_t status = picked_of(call, "index", call->inputs[0], call->inputs[1], call->attrs[0], &p)) return status;
  for (int32_t d = 0; d < out.rank; ++d) p.other_strides[d] = out.strides[d];
  p.other = out.data;
  return p.n == 0 ? CLIKA_OK : launch(call, "index", read_picked, {blocks_for(call, p.n, 512)}, 256, &p);
}

// input (written in place, also output 0), indices, values; attrs dims, accumulate.
int32_t run_index_put(const clika_call* call) {
  const clika_value& values = call->inputs[2];
  Picked p{};
  if (const int32_t status = picked_of(call, "index_put_", call->outputs[0], call->inputs[1], call->attrs[0], &p)) return status;
  if (p.n == 0) return CLIKA_OK;
  for (int32_t d = 0; d < p.rank; ++d) {
    const int32_t own = d - (p.rank - values.rank);
    p.other_strides[d] = own >= 0 && values.shape[own] != 1 ? values.strides[own] : 0;
  }
  if (values.kind == CLIKA_NUMBER) {
    std::memcpy(&p.number, values.data, static_cast<size_t>(size_of(values.dtype)));
  } else {
    p.other = values.data;
  }
  const Grid grid{blocks_for(call, p.n, 512)};
  if (attr_int(call, 1, 0) != 0) {
    Item* items = room_for<Item>(call, p.n);
    if (items == nullptr) return CLIKA_UNAVAILABLE;
    p.items = items;
    if (const int32_t status = launch(call, "index_put_", picked_items, grid, 256, &p)) return status;
    if (const int32_t status = sort_items(call, "index_put_", &items, 1, p.n)) return status;
    p.items = items;
    return launch(call, "index_put_", add_picked, grid, 256, &p);
  }
  p.winners = static_cast<clika_device::i64*>(
      call->core->device_scratch(call, static_cast<size_t>(p.positions) * sizeof(clika_device::i64)));
  if (p.winners == nullptr) return CLIKA_UNAVAILABLE;
  if (const int32_t status = launch(call, "index_put_", clear_places, {blocks_for(call, p.positions, 512)}, 256, &p)) return status;
  if (const int32_t status = launch(call, "index_put_", claim_places, grid, 256, &p)) return status;
  return launch(call, "index_put_", write_picked, grid, 256, &p);
}

}  // namespace

void add_indexing(Registry& registry) {
  gather = registry.program("indexing", "", "gather_elements");
  read_picked = registry.program("indexing", "", "read_picked");
  clear_places = registry.program("indexing", "", "clear_places");
  claim_places = registry.program("indexing", "", "claim_places");
  write_picked = registry.program("indexing", "", "write_picked");
  picked_items = registry.program("indexing", "", "picked_items");
  add_picked = registry.program("indexing", "", "add_picked");
  registry.entry("gather", run_gather, {kEvery, kIndex}, kEvery);
  registry.entry("index_select", run_index_select, {kEvery, kIndex}, kEvery);
  registry.entry("index", run_index, {kEvery, kIndex}, kEvery);
  registry.entry("index_put_", run_index_put, {kEvery, kIndex, kEvery}, kEvery, CLIKA_STRIDED | CLIKA_INPLACE);
}

}  // namespace clika_cuda
