// kv_append: pool[slots[t]] = value[t] for every token t, converted to the pool's dtype.
#include "level.hpp"
#include "elementwise.hpp"

int32_t run(const clika_call* call) {
  // The pool comes as input 0; output 0 is the same memory.
  clika_value& pool = call->outputs[0];
  const clika_value& value = call->inputs[1];
  const clika_value& slots = call->inputs[2];
  const int64_t tokens = value.shape[0];
  const int64_t heads = value.shape[1];
  const int64_t size = value.shape[2];
  const int64_t page = pool.shape[1];
  const int64_t capacity = pool.shape[0] * page;
  const int32_t* slot = data_of<int32_t>(slots);
  // All slots are checked before anything is written.
  for (int64_t t = 0; t < tokens; ++t) {
    const int32_t at = slot[t * slots.strides[0]];
    if (at >= 0 && at < capacity) continue;
    return refuse(call, "kv_append: slots[%lld] is %d, outside the pool of %lld slots",
                  static_cast<long long>(t), at, static_cast<long long>(capacity));
  }
  // The heads of a token are one run where neither side has gaps between them.
  const bool whole = (heads == 1 || (value.strides[1] == size && pool.strides[2] == size)) &&
                     value.strides[2] == 1 && pool.strides[3] == 1;
  const int64_t runs = whole ? 1 : heads;
  const int64_t length = whole ? heads * size : size;
  const bool same = value.dtype == pool.dtype && value.strides[2] == 1 && pool.strides[3] == 1;
  const int64_t bytes = bytes_of(pool.dtype);
  const LoadTile<float> loader = Tiles<float>::loader(value.dtype);
  const StoreTile<float> storer = Tiles<float>::storer(pool.dtype);
  const int64_t grain = std::max<int64_t>(1, 32768 / std::max<int64_t>(1, heads * size));
  parallel(call, tokens, grain, [&](int64_t begin, int64_t end, int32_t) {
    alignas(64) float tile[kTile];
    for (int64_t t = begin; t < end; ++t) {
      const int64_t at = slot[t * slots.strides[0]];
      for (int64_t h = 0; h < runs; ++h) {
        const int64_t from = t * value.strides[0] + h * value.strides[1];
        const int64_t to = at / page * pool.strides[0] + at % page * pool.strides[1] + h * pool.strides[2];
        if (same) {
          std::memcpy(data_of<char>(pool) + to * bytes, data_of<char>(value) + from * bytes,
                      static_cast<size_t>(length * bytes));
          continue;
        }
        for (int64_t i = 0; i < length; i += kTile) {
          const int64_t n = std::min(kTile, length - i);
          loader(tile, value.data, from + i * value.strides[2], value.strides[2], n);
          storer(tile, pool.data, to + i * pool.strides[3], pool.strides[3], n);
        }
      }
    }
  });
  return CLIKA_OK;
}

CLIKA_KERNELS(kv_append, Entry("kv_append", run).in(FLOATS, FLOATS, I32).out(FLOATS).inplace())
#include "level_end.hpp"
