// kv_append: new rows of keys or values into their slots of a pool.
#include "attention_arguments.cuh"
#include "launch.hpp"

namespace clika_cuda {

namespace {

using clika_device::KvAppend;

Program* bytes;
Program* elements_of;
Program* blocks_of;

bool even(int64_t size, std::initializer_list<int64_t> strides, int64_t each) {
  for (const int64_t stride : strides) {
    if (stride * size % each != 0) return false;
  }
  return true;
}
bool on_16(const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }

// pool [blocks, block_size, H, D], value [T, H, D], slots [T].
int32_t run(const clika_call* call) {
  const clika_value& pool = call->outputs[0];
  const clika_value& value = call->inputs[1];
  const clika_value& slots = call->inputs[2];
  KvAppend k{};
  k.pool = pool.data;
  k.value = value.data;
  k.slots = static_cast<const int*>(slots.data);
  k.pool_block = pool.strides[0];
  k.pool_position = pool.strides[1];
  k.pool_head = pool.strides[2];
  k.pool_step = pool.strides[3];
  k.value_token = value.strides[0];
  k.value_head = value.strides[1];
  k.value_step = value.strides[2];
  k.slot_step = slots.strides[0];
  k.page = static_cast<int>(pool.shape[1]);
  k.capacity = pool.shape[0] * pool.shape[1];
  k.heads = static_cast<int>(value.shape[1]);
  k.pool_dtype = pool.dtype;
  k.value_dtype = value.dtype;
  k.reporter = reporter_of(call, "kv_append");
  const int64_t rows = value.shape[0] * value.shape[1];
  const int64_t size = value.shape[2];
  if (rows * size == 0) return CLIKA_OK;
  if (pool.dtype == CLIKA_UINT8) {
    if (pool.strides[3] != 1) {
      return refuse(call, "kv_append: the bytes of a row of a Q8_0 pool must lie side by side, found a stride of " +
                              std::to_string(pool.strides[3]));
    }
    k.size = static_cast<int>(size / 32);
    k.n = rows * k.size;
    return launch(call, "kv_append", blocks_of, {blocks_for(call, k.n, 4)}, 128, &k);
  }
  const int64_t element = pool.dtype == CLIKA_FLOAT8_E4M3 ? 1 : size_of(pool.dtype);
  const auto strides = {size,          pool.strides[0],  pool.strides[1], pool.strides[2],
                        value.strides[0], value.strides[1]};
  if (pool.dtype == value.dtype && pool.strides[3] == 1 && value.strides[2] == 1 && on_16(pool.data) &&
      on_16(value.data) && even(element, strides, 16)) {
    k.size = static_cast<int>(size * element / 16);
    k.n = rows * k.size;
    return launch(call, "kv_append", bytes, {blocks_for(call, k.n, 128)}, 128, &k);
  }
  k.size = static_cast<int>(size);
  k.n = rows * size;
  return launch(call, "kv_append", elements_of, {blocks_for(call, k.n, 256)}, 256, &k);
}

}  // namespace

void add_kv_append(Registry& registry) {
  bytes = registry.program("kv_append", "", "append_bytes")->begins_early();
  elements_of = registry.program("kv_append", "", "append_elements")->begins_early();
  blocks_of = registry.program("kv_append", "", "append_q8_0")->begins_early();
  const uint64_t pools = kFloats3 | bit(CLIKA_FLOAT8_E4M3) | bit(CLIKA_UINT8);
  registry.entry("kv_append", run, {pools, kFloats3, bit(CLIKA_INT32)}, pools, CLIKA_STRIDED | CLIKA_INPLACE);
}

}  // namespace clika_cuda
