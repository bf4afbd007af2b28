// rotary_append: queries and keys are turned, keys and values go to their slots of a cache's pools.
#include "attention_arguments.cuh"
#include "launch.hpp"

namespace clika_cuda {

namespace {

using clika_device::HeadPool;
using clika_device::HeadRows;
using clika_device::RotaryAppend;

constexpr int64_t kMostPairs = 2048;  // whose sines and cosines are in shared memory

Program* pieces[3];
Program* elements_of;

HeadRows rows_of(const clika_value& v) { return {v.data, v.strides[0], v.strides[1], v.strides[2]}; }
HeadPool pool_of(const clika_value& v) {
  return {v.data,       v.strides[0], v.strides[1], v.strides[2], v.strides[3], v.shape[0] * v.shape[1],
          static_cast<int>(v.shape[1]), v.dtype};
}
// Whether every head lies in one piece, on whole 16 bytes: steps between heads are multiples of `wide` elements.
bool whole(const void* data, int64_t step, std::initializer_list<int64_t> steps, int64_t wide) {
  if (step != 1 || reinterpret_cast<uintptr_t>(data) % 16 != 0) return false;
  return std::all_of(steps.begin(), steps.end(), [wide](int64_t each) { return each % wide == 0; });
}
bool whole(const HeadRows& rows, int64_t wide) { return whole(rows.data, rows.step, {rows.token, rows.head}, wide); }
bool whole(const HeadPool& pool, int64_t wide) {
  return whole(pool.data, pool.step, {pool.block, pool.position, pool.head}, wide);
}

// query [T, Hq, D], key [T, H, D], value [T, H, Dv], positions [T] or [A, T], inv_freq [R] or [A, R], pools [blocks,
// block_size, H, D or Dv], slots [T]; attr interleaved; scalar scale; outputs the turned queries and the pools.
int32_t run(const clika_call* call) {
  const clika_value& query = call->inputs[0];
  const clika_value& value = call->inputs[2];
  const clika_value& positions = call->inputs[3];
  const clika_value& frequencies = call->inputs[4];
  const clika_value& slots = call->inputs[7];
  RotaryAppend r{};
  r.query = rows_of(query);
  r.key = rows_of(call->inputs[1]);
  r.value = rows_of(value);
  r.keys = pool_of(call->outputs[1]);
  r.values = pool_of(call->outputs[2]);
  r.out = call->outputs[0].data;
  r.positions = positions.data;
  r.position_dtype = positions.dtype;
  r.frequencies = static_cast<const float*>(frequencies.data);
  r.slots = static_cast<const int*>(slots.data);
  r.axes = static_cast<int>(positions.rank == 2 ? positions.shape[0] : 1);
  r.position_axis = positions.rank == 2 ? positions.strides[0] : 0;
  r.position_step = positions.strides[positions.rank - 1];
  r.frequency_axis = frequencies.rank == 2 ? frequencies.strides[0] : 0;
  r.frequency_step = frequencies.strides[frequencies.rank - 1];
  r.slot_step = slots.strides[0];
  r.tokens = query.shape[0];
  r.heads = static_cast<int>(query.shape[1]);
  r.kv_heads = static_cast<int>(value.shape[1]);
  r.size = static_cast<int>(query.shape[2]);
  r.value_size = static_cast<int>(value.shape[2]);
  r.half = static_cast<int>(frequencies.shape[frequencies.rank - 1]);
  r.dtype = query.dtype;
  r.interleaved = attr_int(call, 0, 0) != 0;
  r.scale = static_cast<float>(scalar_float(call, 0, 1.0));
  r.reporter = reporter_of(call, "rotary_append");
  const int64_t jobs = (query.shape[1] + value.shape[1]) * (query.shape[2] - r.half) + value.shape[1] * value.shape[2];
  if (r.tokens * jobs == 0) return CLIKA_OK;
  if (r.keys.data == r.values.data && r.keys.capacity * r.values.capacity != 0) {  // the order of the writes is open
    return refuse(call, "rotary_append: key_pool and value_pool are the same bytes; give each a pool of its own");
  }
  if (jobs > INT32_MAX) return refuse(call, "rotary_append: a token has more than 2^31 elements");
  const int64_t wide = 16 / size_of(r.dtype);
  const bool even = r.size % wide == 0 && r.value_size % wide == 0 && (r.interleaved ? 2 * r.half : r.half) % wide == 0;
  if (even && r.half <= kMostPairs && r.keys.dtype == r.dtype && r.values.dtype == r.dtype && whole(r.query, wide) &&
      whole(r.key, wide) && whole(r.value, wide) && whole(r.keys, wide) && whole(r.values, wide)) {
    const int64_t turned = (r.interleaved ? r.size : r.size - r.half) / wide;
    const int64_t of_token = (r.heads + r.kv_heads) * turned + r.kv_heads * r.value_size / wide;
    const bool many = r.tokens >= 2 * device_of(call).multiprocessors();
    const unsigned threads = many ? 256 : 128;
    const auto parts = static_cast<unsigned>(many ? 1 : std::min<int64_t>((of_token + threads - 1) / threads, 64));
    const int kind = r.dtype == CLIKA_FLOAT32 ? 0 : r.dtype == CLIKA_BFLOAT16 ? 1 : 2;
    return launch(call, "rotary_append", pieces[kind], {static_cast<unsigned>(r.tokens), parts}, threads, &r,
                  static_cast<unsigned>(r.half) * 2 * sizeof(float));
  }
  return launch(call, "rotary_append", elements_of, {blocks_for(call, r.tokens * jobs, 256)}, 256, &r);
}

}  // namespace

void add_rotary_append(Registry& registry) {
  pieces[0] = registry.program("rotary_append", "", "append_float32")->begins_early();
  pieces[1] = registry.program("rotary_append", "", "append_bfloat16")->begins_early();
  pieces[2] = registry.program("rotary_append", "", "append_float16")->begins_early();
  elements_of = registry.program("rotary_append", "", "append_elements")->begins_early();
  // Other pools (float8, Q8_0) are served by the parts that the operator is made of.
  registry.entry("rotary_append", run,
                 {kFloats3, kFloats3, kFloats3, kIndex, bit(CLIKA_FLOAT32), kFloats3, kFloats3, bit(CLIKA_INT32)},
                 kFloats3);
}

}  // namespace clika_cuda
