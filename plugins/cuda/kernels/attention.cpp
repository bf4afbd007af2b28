// paged_attention and scaled_dot_product_attention. Which kernel runs and its grid depend on shapes, strides and dtypes
// alone, so that a launch can be repeated over other contents of the same tensors.
#include <cmath>

#include "attention_arguments.cuh"
#include "launch.hpp"

namespace clika_cuda {

namespace {

using clika_device::Attention;
using clika_device::Scores;

constexpr int kSizes[] = {64, 128, 256};  // elements of a row that there are programs for
constexpr int kSplitLog2 = 7;             // of the positions of a split
constexpr int kPlainShared = 1024;        // of a block of attention_plain, besides its tiles
constexpr int64_t kMostInY = 65535;      // blocks of a grid
constexpr int64_t kMostParts = int64_t{256} << 20;

Program* decode[2][3][2];
Program* prefill[2][3];
Program* plain;
Program* join;
Program* rows[2];

int64_t over(int64_t n, int64_t each) { return (n + each - 1) / each; }
int stride_of(int size) { return (2 * size + 127) / 128 * 128; }
int variant_of(const Attention& a) {
  const int size = std::max(a.size, a.value_size);
  return size <= 64 ? 0 : size <= 128 ? 1 : 2;
}
bool on_16(const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }

// Whether rows can be read 16 bytes at a time and multiplied on tensor cores.
bool fits_tensor_cores(const Attention& a) {
  if (a.query_dtype != CLIKA_BFLOAT16 && a.query_dtype != CLIKA_FLOAT16) return false;
  if (a.key_dtype != a.query_dtype || a.value_dtype != a.query_dtype) return false;
  if (a.size > 256 || a.value_size > 256 || a.size % 8 != 0 || a.value_size % 8 != 0) return false;
  if (!on_16(a.query) || !on_16(a.keys) || !on_16(a.values) || !on_16(a.out)) return false;
  if (a.query_step != 1 || a.key_step != 1 || a.value_step != 1 || a.out_step != 1) return false;
  for (const int64_t stride : {a.query_sequence, a.query_token, a.query_head, a.key_block, a.key_position, a.key_head,
                               a.value_block, a.value_position, a.value_head, a.out_sequence, a.out_token, a.out_head}) {
    if (stride % 8 != 0) return false;
  }
  return true;
}
void set_scale(Attention& a, double scale, double softcap) {
  a.scale = static_cast<float>(softcap == 0.0 ? scale : scale / softcap);
  a.softcap = static_cast<float>(softcap);
}
void group_rows(Attention& a, int most) {
  a.row_groups = static_cast<int>(over(a.group, most));
  a.rows = static_cast<int>(over(a.group, a.row_groups));
}

int32_t run_prefill(const clika_call* call, const char* op, Attention& a, int64_t tokens, int64_t sequences) {
  const int variant = variant_of(a), size = kSizes[variant];
  const int block_rows = clika_device::prefill_rows(size), tile = clika_device::prefill_positions(size);
  group_rows(a, block_rows);
  const int64_t each = block_rows / a.rows;
  const int64_t tiles = a.cu_seqlens != nullptr ? tokens / each + sequences + 1 : sequences * over(a.length, each);
  const unsigned shared = static_cast<unsigned>((4 * tile + block_rows) * stride_of(size));
  return launch(call, op, prefill[a.query_dtype == CLIKA_BFLOAT16 ? 0 : 1][variant],
                {static_cast<unsigned>(tiles), static_cast<unsigned>(a.kv_heads * a.row_groups)},
                static_cast<unsigned>(2 * block_rows), &a, shared);
}

// Items of work, token by token: `split` positions each, or all that a token sees.
int32_t run_items(const clika_call* call, Attention& a, bool tensor_cores, bool split) {
  Device& device = device_of(call);
  group_rows(a, 16);
  const int64_t units = a.kv_heads * a.row_groups;
  const int64_t positions = static_cast<int64_t>(a.pages) * a.page;
  a.part_row = static_cast<int>(over(a.value_size, 8) * 8);
  // Longer ones where a wide table would take too much memory for the results of splits.
  a.span_log2 = kSplitLog2;
  while (!split && (int64_t{1} << a.span_log2) < positions) ++a.span_log2;
  int64_t parts = 0;
  for (;; ++a.span_log2) {
    const int64_t span = int64_t{1} << a.span_log2;
    int64_t most = std::max<int64_t>(1, over(positions, span));
    if (a.window > 0 && a.causal != 0) most = std::min<int64_t>(most, a.window / span + 2);
    a.most_splits = static_cast<int>(most);
    parts = most == 1 ? 0 : a.tokens * units * most * a.rows;
    if (parts * (a.part_row + 2) * 4 <= kMostParts) break;
  }
  if (parts != 0) {
    a.parts = static_cast<float*>(call->core->device_scratch(call, static_cast<size_t>(parts * (a.part_row + 2)) * 4));
    if (a.parts == nullptr) return CLIKA_UNAVAILABLE;
    a.part_states = a.parts + parts * a.part_row;
  }
  // Launches of another stream would count in between.
  a.joins = static_cast<Queue*>(call->stream)->in_order() && a.tokens * units <= clika_device::kMostUnits;

  Program* program = plain;
  unsigned threads = 128, shared = 0;
  if (tensor_cores) {
    const int variant = variant_of(a), warps = clika_device::decode_warps(kSizes[variant]);
    program = decode[a.query_dtype == CLIKA_BFLOAT16 ? 0 : 1][variant][a.rows > 8 ? 1 : 0];
    threads = static_cast<unsigned>(32 * warps);
    shared = static_cast<unsigned>(warps * 2 * clika_device::kDecodePositions * stride_of(kSizes[variant]));
  } else {
    const auto words = [&](int tile) {
      const int key = static_cast<int>(over(a.size, 4) * 4 + 4), value = static_cast<int>(over(a.value_size, 4) * 4);
      return (a.rows + tile) * key + (tile + a.rows) * value + a.rows * tile + 16;
    };
    a.tile = 64;
    while (a.tile > 4 && words(a.tile) * 4 > 80 << 10) a.tile /= 2;
    shared = static_cast<unsigned>(words(a.tile)) * 4;
    if (static_cast<int>(shared) + kPlainShared > device.shared_memory()) {
      return refuse(call, "paged_attention: heads of " + std::to_string(a.size) + " and " +
                              std::to_string(a.value_size) + " elements are more than shared memory holds");
    }
  }
  const int64_t tokens = std::min<int64_t>(a.tokens, kMostInY);
  const int64_t layers = std::max<int64_t>(1, 2 * device.multiprocessors() / (units * tokens));
  const Grid grid = {static_cast<unsigned>(units), static_cast<unsigned>(tokens),
                     static_cast<unsigned>(std::min<int64_t>(a.most_splits, layers))};
  if (const int32_t status = launch(call, "paged_attention", program, grid, threads, &a, shared)) return status;
  if (a.most_splits == 1 || a.joins != 0) return CLIKA_OK;
  return launch(call, "paged_attention", join, {static_cast<unsigned>(a.tokens), static_cast<unsigned>(units)}, 128, &a);
}

// query [T, Hq, D], key_pool, value_pool [blocks, block_size, H, D], block_table [B, M], cu_seqlens [B + 1], kv_lens [B],
// sinks [Hq]?; attrs causal, window, mode, which changes nothing here; scalars scale, softcap.
int32_t run_paged(const clika_call* call) {
  const clika_value& query = call->inputs[0];
  const clika_value& keys = call->inputs[1];
  const clika_value& values = call->inputs[2];
  const clika_value& table = call->inputs[3];
  const clika_value& out = call->outputs[0];
  Attention a{};
  a.query = query.data;
  a.keys = keys.data;
  a.values = values.data;
  a.out = out.data;
  a.table = static_cast<const int*>(table.data);
  a.cu_seqlens = static_cast<const int*>(call->inputs[4].data);
  a.kv_lens = static_cast<const int*>(call->inputs[5].data);
  if (present(call, 6)) {
    a.sinks = call->inputs[6].data;
    a.sink_dtype = call->inputs[6].dtype;
    a.sink_step = call->inputs[6].strides[0];
  }
  a.query_token = query.strides[0];
  a.query_head = query.strides[1];
  a.query_step = query.strides[2];
  a.out_token = out.strides[0];
  a.out_head = out.strides[1];
  a.out_step = out.strides[2];
  a.key_block = keys.strides[0];
  a.key_position = keys.strides[1];
  a.key_head = keys.strides[2];
  a.key_step = keys.strides[3];
  a.value_block = values.strides[0];
  a.value_position = values.strides[1];
  a.value_head = values.strides[2];
  a.value_step = values.strides[3];
  a.table_row = table.strides[0];
  a.table_step = table.strides[1];
  a.cu_step = call->inputs[4].strides[0];
  a.length_step = call->inputs[5].strides[0];
  a.blocks = keys.shape[0];
  a.tokens = query.shape[0];
  a.page = static_cast<int>(keys.shape[1]);
  a.pages = static_cast<int>(table.shape[1]);
  a.sequences = static_cast<int>(call->inputs[5].shape[0]);
  a.kv_heads = static_cast<int>(keys.shape[2]);
  a.group = static_cast<int>(query.shape[1] / keys.shape[2]);
  a.size = static_cast<int>(query.shape[2]);
  a.value_size = static_cast<int>(out.shape[2]);
  a.causal = attr_int(call, 0, 1) != 0;
  a.window = static_cast<int>(std::min<int64_t>(attr_int(call, 1, 0), 1 << 30));
  a.aligned_ends = 1;
  a.query_dtype = query.dtype;
  a.key_dtype = keys.dtype;
  a.value_dtype = values.dtype;
  set_scale(a, scalar_float(call, 0, 1.0), scalar_float(call, 1, 0.0));
  a.reporter = reporter_of(call, "paged_attention");
  if (elements(out) == 0) return CLIKA_OK;
  for (const clika_value* pool : {&keys, &values}) {
    if (pool->dtype == CLIKA_UINT8 && pool->strides[3] != 1) {
      return refuse(call, "paged_attention: the bytes of a row of a Q8_0 pool must lie side by side, found a stride of " +
                              std::to_string(pool->strides[3]));
    }
  }
  const bool tensor_cores = fits_tensor_cores(a);
  const bool one_each = a.tokens == a.sequences;
  if (tensor_cores && !one_each) return run_prefill(call, "paged_attention", a, a.tokens, a.sequences);
  return run_items(call, a, tensor_cores, one_each);
}

// ---------------------------------------------------------------- scaled_dot_product_attention
// The stride of dim `from_end`, 0 where the operand is broadcast along it.
int64_t stride_at(const clika_value& v, int32_t from_end) {
  const int32_t d = v.rank - from_end;
  return d >= 0 && v.shape[d] != 1 ? v.strides[d] : 0;
}

// [B, H, L, E] or less, no mask: the sequences are blocks of one pool.
bool as_blocks(const clika_call* call, Attention& a) {
  const clika_value& query = call->inputs[0];
  const clika_value& key = call->inputs[1];
  const clika_value& value = call->inputs[2];
  const clika_value& out = call->outputs[0];
  if (present(call, 3) || out.rank > 4 || !in_one_piece(out)) return false;
  const auto size_at = [&](const clika_value& v, int32_t from_end) {
    return v.rank >= from_end ? v.shape[v.rank - from_end] : 1;
  };
  const int64_t heads = size_at(out, 3), sequences = size_at(out, 4);
  if (heads > kMostInY) return false;
  const bool grouped = attr_int(call, 1, 0) != 0 && out.rank > 2;
  a.kv_heads = static_cast<int>(grouped ? size_at(key, 3) : heads);
  a.group = static_cast<int>(heads / a.kv_heads);
  a.query = query.data;
  a.keys = key.data;
  a.values = value.data;
  a.out = out.data;
  a.sequences = static_cast<int>(sequences);
  a.length = static_cast<int>(size_at(query, 2));
  a.page = static_cast<int>(size_at(key, 2));
  a.blocks = sequences;
  a.tokens = sequences * a.length;
  a.size = static_cast<int>(size_at(query, 1));
  a.value_size = static_cast<int>(size_at(value, 1));
  a.query_sequence = stride_at(query, 4);
  a.query_head = stride_at(query, 3);
  a.query_token = stride_at(query, 2);
  a.query_step = query.strides[query.rank - 1];
  a.key_block = stride_at(key, 4);
  a.key_head = stride_at(key, 3);
  a.key_position = stride_at(key, 2);
  a.key_step = key.strides[key.rank - 1];
  a.value_block = stride_at(value, 4);
  a.value_head = stride_at(value, 3);
  a.value_position = stride_at(value, 2);
  a.value_step = value.strides[value.rank - 1];
  a.out_token = a.value_size;
  a.out_head = a.length * a.out_token;
  a.out_sequence = heads * a.out_head;
  a.out_step = 1;
  a.causal = attr_int(call, 0, 0) != 0;
  a.query_dtype = query.dtype;
  a.key_dtype = key.dtype;
  a.value_dtype = value.dtype;
  return fits_tensor_cores(a);
}

Scores scores_of(const clika_call* call) {
  const clika_value& query = call->inputs[0];
  const clika_value& key = call->inputs[1];
  const clika_value& value = call->inputs[2];
  const clika_value& out = call->outputs[0];
  Scores s{};
  s.query = query.data;
  s.key = key.data;
  s.value = value.data;
  s.out = out.data;
  s.dtype = query.dtype;
  s.rank = out.rank - 2;
  for (int32_t d = 0; d < s.rank; ++d) {
    const int32_t from_end = out.rank - d;
    s.shape[d] = out.shape[d];
    s.query_strides[d] = stride_at(query, from_end);
    s.key_strides[d] = stride_at(key, from_end);
    s.value_strides[d] = stride_at(value, from_end);
  }
  s.query_row = stride_at(query, 2);
  s.key_row = stride_at(key, 2);
  s.value_row = stride_at(value, 2);
  s.query_step = stride_at(query, 1);
  s.key_step = stride_at(key, 1);
  s.value_step = stride_at(value, 1);
  s.length = query.shape[query.rank - 2];
  s.size = query.shape[query.rank - 1];
  s.positions = key.shape[key.rank - 2];
  s.value_size = value.shape[value.rank - 1];
  s.causal = attr_int(call, 0, 0) != 0;
  s.group = 1;
  if (attr_int(call, 1, 0) != 0 && s.rank > 0) {
    s.group = static_cast<int>(query.shape[query.rank - 3] / key.shape[key.rank - 3]);
  }
  if (present(call, 3)) {
    const clika_value& mask = call->inputs[3];
    s.mask = mask.data;
    s.mask_dtype = mask.dtype;
    s.mask_step = stride_at(mask, 1);
    s.mask_row = stride_at(mask, 2);
    for (int32_t d = 0; d < s.rank; ++d) s.mask_strides[d] = stride_at(mask, out.rank - d);
  }
  return s;
}

// query, key, value, mask?; attrs is_causal, enable_gqa; scalars dropout_p, scale, softcap.
int32_t run_scaled(const clika_call* call) {
  const char* op = "scaled_dot_product_attention";
  if (scalar_float(call, 0, 0.0) != 0.0) {
    return refuse(call, std::string(op) + ": dropout_p " + std::to_string(scalar_float(call, 0, 0.0)) +
                            " must be 0: nothing is dropped in inference");
  }
  const clika_value& out = call->outputs[0];
  if (elements(out) == 0) return CLIKA_OK;
  const int64_t size = call->inputs[0].shape[call->inputs[0].rank - 1];
  const double scale = scalar_float(call, 1, 1.0 / std::sqrt(static_cast<double>(std::max<int64_t>(1, size))));
  const double softcap = scalar_float(call, 2, 0.0);
  Attention a{};
  if (as_blocks(call, a)) {
    set_scale(a, scale, softcap);
    return run_prefill(call, op, a, a.tokens, a.sequences);
  }
  Scores s = scores_of(call);
  s.scale = scale;
  s.softcap = softcap;
  const bool wide = s.dtype == CLIKA_FLOAT64;
  const int64_t shared = (s.size + s.value_size) * (wide ? 8 : 4);
  const int64_t count = elements(out) / s.value_size;
  if (shared + 4096 > device_of(call).shared_memory() || count > INT32_MAX) {
    return refuse(call, std::string(op) + ": rows of " + std::to_string(s.size) + " and " +
                            std::to_string(s.value_size) + " elements, " + std::to_string(count) +
                            " of them, are more than a launch takes");
  }
  return launch(call, op, rows[wide ? 1 : 0], {static_cast<unsigned>(count)}, 128, &s, static_cast<unsigned>(shared));
}

}  // namespace

void add_attention(Registry& registry) {
  const char* types[] = {"bf16", "f16"};
  for (int t = 0; t < 2; ++t) {
    for (int v = 0; v < 3; ++v) {
      const std::string defines = std::string("CLIKA_T=") + types[t] + " CLIKA_D=" + std::to_string(kSizes[v]);
      for (int r = 0; r < 2; ++r) {
        const std::string rows_of = " CLIKA_ROWS=" + std::to_string(8 * (r + 1));
        decode[t][v][r] = registry.program("attention_decode", defines + rows_of, "attention_decode")->begins_early();
      }
      prefill[t][v] = registry.program("attention_prefill", defines, "attention_prefill");
    }
    rows[t] = registry.program("scaled_dot_product_attention", std::string("CLIKA_C=") + (t == 0 ? "float" : "double"),
                               "attention_rows");
  }
  plain = registry.program("attention_plain", "", "attention_plain")->begins_early();
  join = registry.program("attention_plain", "", "attention_join")->begins_early();
  const uint64_t pools = kFloats3 | bit(CLIKA_FLOAT8_E4M3) | bit(CLIKA_UINT8), index = bit(CLIKA_INT32);
  registry.entry("paged_attention", run_paged, {kFloats3, pools, pools, index, index, index, kFloats3}, kFloats3);
  registry.entry("scaled_dot_product_attention", run_scaled, {kFloats4, kFloats4, kFloats4, kFloats4 | kBools}, kFloats4);
}

}  // namespace clika_cuda
