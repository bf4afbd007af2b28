// kv_append: pool[slots[t]] = value[t] for every token t, converted to the pool's dtype; a pool of bytes holds rows of
// Q8_0 blocks.
#include "level.hpp"
#include "elementwise.hpp"
#include "cached_rows.hpp"

// One token's rows of a pool: `heads` runs of `length` elements, from `value` on to `row` on.
struct Copying {
  const clika_value& value;
  clika_value& pool;
  LoadTile<float> load = Tiles<float>::loader(value.dtype);
  StoreTile<float> store = Tiles<float>::storer(pool.dtype);

  // In the dtype of the pool.
  void copy(int64_t from, int64_t to, int64_t length) const {
    const int64_t bytes = bytes_of(pool.dtype);
    std::memcpy(data_of<char>(pool) + to * bytes, data_of<char>(value) + from * bytes,
                static_cast<size_t>(length * bytes));
  }
  void convert(int64_t from, int64_t to, int64_t length) const {
    alignas(64) float tile[kTile];
    for (int64_t i = 0; i < length; i += kTile) {
      const int64_t n = std::min(kTile, length - i);
      load(tile, value.data, from + i * value.strides[2], value.strides[2], n);
      if (pool.dtype == CLIKA_FLOAT8_E4M3) {
        uint8_t* row = data_of<uint8_t>(pool) + to + i * pool.strides[3];
        for (int64_t k = 0; k < n; ++k) row[k * pool.strides[3]] = to_e4m3(tile[k]);
      } else {
        store(tile, pool.data, to + i * pool.strides[3], pool.strides[3], n);
      }
    }
  }
  void quantize(int64_t from, int64_t to, int64_t length) const {
    alignas(64) float tile[kCodes];
    uint8_t* block = data_of<uint8_t>(pool) + to;
    for (int64_t i = 0; i < length; i += kCodes, block += kCodeBytes) {
      load(tile, value.data, from + i * value.strides[2], value.strides[2], kCodes);
      to_q8_0(tile, block);
    }
  }
};

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
  const bool blocks = pool.dtype == CLIKA_UINT8;
  if (blocks && pool.strides[3] != 1) {
    return refuse(call, "kv_append: the bytes of a row of a Q8_0 pool must lie side by side, found a stride of %lld",
                  static_cast<long long>(pool.strides[3]));
  }
  const int32_t* slot = data_of<int32_t>(slots);
  // All slots are checked before anything is written.
  for (int64_t t = 0; t < tokens; ++t) {
    const int32_t at = slot[t * slots.strides[0]];
    if (at >= 0 && at < capacity) continue;
    return refuse(call, "kv_append: slots[%lld] is %d, outside the pool of %lld slots",
                  static_cast<long long>(t), at, static_cast<long long>(capacity));
  }
  // The heads of a token are one run where neither side has gaps between them.
  const int64_t width = pool.shape[3];
  const bool whole = (heads == 1 || (value.strides[1] == size && pool.strides[2] == width)) &&
                     value.strides[2] == 1 && pool.strides[3] == 1;
  const int64_t runs = whole ? 1 : heads;
  const int64_t length = whole ? heads * size : size;
  const bool same = value.dtype == pool.dtype && value.strides[2] == 1 && pool.strides[3] == 1;
  const Copying copying = {value, pool};
  const int64_t grain = std::max<int64_t>(1, 32768 / std::max<int64_t>(1, heads * size));
  parallel(call, tokens, grain, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t at = slot[t * slots.strides[0]];
      for (int64_t h = 0; h < runs; ++h) {
        const int64_t from = t * value.strides[0] + h * value.strides[1];
        const int64_t to = at / page * pool.strides[0] + at % page * pool.strides[1] + h * pool.strides[2];
        if (same) {
          copying.copy(from, to, length);
        } else if (blocks) {
          copying.quantize(from, to, length);
        } else {
          copying.convert(from, to, length);
        }
      }
    }
  });
  return CLIKA_OK;
}

CLIKA_KERNELS(kv_append, Entry("kv_append", run).in(POOLS, FLOATS, I32).out(POOLS).inplace())
#include "level_end.hpp"
