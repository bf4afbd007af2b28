// Reductions over any dims, and argmax and argmin; trace and dist.
#include <string_view>
#include <utility>

#include "general.hpp"

namespace clika_cuda {

namespace {

using clika_device::Reduction;

struct Declared {
  const char* name;
  uint64_t in, out;
};
constexpr Declared kOperators[] = {
    {"sum", kEvery, kFloats4 | kInts},      {"nansum", kEvery, kFloats4 | kInts}, {"mean", kFloats4, kFloats4},
    {"nanmean", kFloats4, kFloats4},        {"prod", kEvery, kFloats4 | kInts},   {"amax", kEvery, kEvery},
    {"amin", kEvery, kEvery},               {"aminmax", kEvery, kEvery},          {"argmax", kEvery, kIndex},
    {"argmin", kEvery, kIndex},             {"any", kEvery, kBools},              {"all", kEvery, kBools},
    {"count_nonzero", kEvery, bit(CLIKA_INT64)}, {"var", kFloats4, kFloats4},     {"std", kFloats4, kFloats4},
    {"var_mean", kFloats4, kFloats4},       {"std_mean", kFloats4, kFloats4},     {"logsumexp", kFloats4, kFloats4},
    {"vector_norm", kFloats4, kFloats4},
};
constexpr size_t kCount = sizeof(kOperators) / sizeof(kOperators[0]);
constexpr int64_t kStateBytes = 32;  // of the largest state on the device

struct Programs {
  Program* block[4] = {};
  Program* thread[4] = {};
  Program* join[4] = {};
};
Programs all_programs[kCount];

// Dims of size 1 left out, neighbours that lie as one merged.
int merge(const int64_t* shape, const int64_t* strides, int n, int64_t* to_shape, int64_t* to_strides) {
  int rank = 0;
  for (int d = 0; d < n; ++d) {
    if (shape[d] == 1) continue;
    if (rank > 0 && to_strides[rank - 1] == strides[d] * shape[d]) {
      to_shape[rank - 1] *= shape[d];
      to_strides[rank - 1] = strides[d];
    } else {
      to_shape[rank] = shape[d];
      to_strides[rank++] = strides[d];
    }
  }
  return rank;
}

Reduction reduction_of(const clika_call* call, const clika_value& in, const clika_attr& dims) {
  Reduction r{};
  r.in = in.data;
  r.in_dtype = in.dtype;
  r.out = call->outputs[0].data;
  r.out_dtype = call->outputs[0].dtype;
  if (call->n_outputs > 1) r.out2 = call->outputs[1].data;
  bool over[CLIKA_MAX_RANK] = {};
  const bool all = dims.kind == CLIKA_ATTR_NONE || (dims.kind == CLIKA_ATTR_INTS && dims.n == 0);
  for (int32_t d = 0; d < in.rank; ++d) over[d] = all;
  if (!all && in.rank > 0) {
    const int64_t* listed = dims.kind == CLIKA_ATTR_INTS ? dims.v.ints : &dims.v.i;
    for (int32_t i = 0; i < dims.n; ++i) over[listed[i] < 0 ? listed[i] + in.rank : listed[i]] = true;
  }
  int64_t shape[2][CLIKA_MAX_RANK], strides[2][CLIKA_MAX_RANK];
  int n[2] = {};
  r.results = 1;
  r.n = 1;
  for (int32_t d = 0; d < in.rank; ++d) {
    const int side = over[d] ? 1 : 0;
    shape[side][n[side]] = in.shape[d];
    strides[side][n[side]++] = in.strides[d];
    (over[d] ? r.n : r.results) *= in.shape[d];
  }
  r.kept_rank = merge(shape[0], strides[0], n[0], reinterpret_cast<int64_t*>(r.kept_shape), reinterpret_cast<int64_t*>(r.kept_strides));
  r.gone_rank = merge(shape[1], strides[1], n[1], reinterpret_cast<int64_t*>(r.gone_shape), reinterpret_cast<int64_t*>(r.gone_strides));
  return r;
}

// Runs a fold of the table.
int32_t fold(const clika_call* call, size_t index, Reduction r) {
  if (r.results == 0) return CLIKA_OK;
  const bool side_by_side = r.gone_rank == 0 || r.gone_strides[r.gone_rank - 1] == 1;
  const bool results_beside = r.kept_rank > 0 && r.kept_strides[r.kept_rank - 1] == 1;
  const bool by_thread = r.n <= 32 || (!side_by_side && results_beside && r.results >= 32);
  // Enough blocks to keep the device busy, and enough elements for each. The number of splits is part of the result's
  // rounding: it depends on the shape alone, not on the device.
  const int64_t blocks = by_thread ? (r.results + 127) / 128 : r.results;
  const int64_t least = by_thread ? 64 : 8192;
  r.splits = std::max<int64_t>(1, std::min<int64_t>({512 / std::max<int64_t>(blocks, 1), r.n / least, 512}));
  if (r.splits > 1) {
    r.parts = call->core->device_scratch(call, static_cast<size_t>(r.results * r.splits * kStateBytes));
    if (r.parts == nullptr) return CLIKA_UNAVAILABLE;
  }
  const Compute compute = compute_of(r.in_dtype);
  const Programs& programs = all_programs[index];
  const Grid grid{static_cast<unsigned>(blocks), static_cast<unsigned>(r.splits)};
  const unsigned threads = by_thread ? 128 : r.n / r.splits >= 1024 ? 256 : 64;
  const char* op = kOperators[index].name;
  const int32_t status = launch(call, op, (by_thread ? programs.thread : programs.block)[compute], grid, threads, &r);
  if (status != CLIKA_OK || r.splits == 1) return status;
  return launch(call, op, programs.join[compute], {static_cast<unsigned>((r.results + 127) / 128)}, 128, &r);
}

template <size_t I>
int32_t run(const clika_call* call) {
  constexpr std::string_view name = kOperators[I].name;
  constexpr bool norm = name == "vector_norm";
  Reduction r = reduction_of(call, call->inputs[0], call->attrs[norm ? 1 : 0]);
  if constexpr (norm) r.f = real_of(call->attrs[0]);
  if constexpr (name == "var" || name == "std" || name == "var_mean" || name == "std_mean") {
    r.f = attr_int(call, 1, 1) != 0 ? 1.0 : 0.0;  // unbiased
    const clika_attr& correction = call->attrs[3];
    if (correction.kind == CLIKA_ATTR_INT) r.f = static_cast<double>(correction.v.i);
    if (correction.kind == CLIKA_ATTR_FLOAT) r.f = correction.v.f;
  }
  return fold(call, I, r);
}

constexpr size_t index_of(std::string_view name) {
  for (size_t i = 0; i < kCount; ++i) {
    if (kOperators[i].name == name) return i;
  }
  return kCount;
}

// The sum of the main diagonal: a tensor of one dim, whose step is that of both.
int32_t run_trace(const clika_call* call) {
  clika_value diagonal = call->inputs[0];
  const int64_t n = std::min(diagonal.shape[0], diagonal.shape[1]), step = diagonal.strides[0] + diagonal.strides[1];
  diagonal.rank = 1;
  diagonal.shape = &n;
  diagonal.strides = &step;
  return fold(call, index_of("sum"), reduction_of(call, diagonal, clika_attr{}));
}

Program* differences;
// The norm of the differences of two tensors, broadcast to one shape. Attribute p.
int32_t run_dist(const clika_call* call) {
  const clika_value& a = call->inputs[0];
  const clika_value& b = call->inputs[1];
  int64_t shape[CLIKA_MAX_RANK], strides[CLIKA_MAX_RANK];
  clika_value both = a;
  both.kind = CLIKA_TENSOR;
  both.rank = std::max(a.rank, b.rank);
  both.shape = shape;
  both.strides = strides;
  both.dtype = a.dtype == CLIKA_FLOAT64 ? CLIKA_FLOAT64 : CLIKA_FLOAT32;
  int64_t n = 1;
  for (int32_t d = both.rank - 1; d >= 0; --d) {
    const int32_t i = d - (both.rank - a.rank), k = d - (both.rank - b.rank);
    shape[d] = i < 0 || (k >= 0 && a.shape[i] == 1) ? b.shape[k] : a.shape[i];
    strides[d] = n;
    n *= shape[d];
  }
  both.data = room_for<char>(call, n * size_of(both.dtype));
  if (both.data == nullptr) return CLIKA_UNAVAILABLE;
  const clika_value* operands[] = {&a, &b};
  const clika_device::Elementwise e = elementwise_of(operands, 2, both);
  if (n > 0) {
    const int32_t status = launch(call, "dist", differences, {blocks_for(call, n, 256)}, 256, &e);
    if (status != CLIKA_OK) return status;
  }
  Reduction r = reduction_of(call, both, clika_attr{});
  r.f = real_of(call->attrs[0]);
  return fold(call, index_of("vector_norm"), r);
}

template <size_t I>
void add_one(Registry& registry) {
  constexpr Declared op = kOperators[I];
  const uint64_t groups[4] = {kFloats3, bit(CLIKA_FLOAT64), (kInts | kBools) & ~bit(CLIKA_UINT64), bit(CLIKA_UINT64)};
  for (int c = 0; c < 4; ++c) {
    if ((op.in & groups[c]) == 0) continue;
    const std::string defines = std::string("CLIKA_OP=fold_") + op.name + " CLIKA_C=" + kComputeNames[c];
    all_programs[I].block[c] = registry.program("reductions", defines, "by_block");
    all_programs[I].thread[c] = registry.program("reductions", defines, "by_thread");
    all_programs[I].join[c] = registry.program("reductions", defines, "join_parts");
  }
  registry.entry(op.name, run<I>, {op.in}, op.out);
}
template <size_t... I>
void add_all(Registry& registry, std::index_sequence<I...>) {
  (add_one<I>(registry), ...);
}

}  // namespace

void add_reductions(Registry& registry) {
  add_all(registry, std::make_index_sequence<kCount>());
  differences = registry.program("float_parts", "", "differences");
  registry.entry("trace", run_trace, {kEvery}, kFloats4 | kInts);
  registry.entry("dist", run_dist, {kFloats4}, kFloats4);
}

}  // namespace clika_cuda
