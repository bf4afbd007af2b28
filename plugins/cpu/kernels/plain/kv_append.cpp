// kv_append: pool[slots[t]] = value[t] for every token t, converted to the pool's dtype.
#include "level.hpp"

int32_t run(const clika_call* call) {
  // The pool comes as input 0; output 0 is the same memory.
  const clika_value& pool = call->outputs[0];
  const clika_value& value = call->inputs[1];
  const clika_value& slots = call->inputs[2];
  const int64_t tokens = value.shape[0];
  const int64_t heads = value.shape[1];
  const int64_t size = value.shape[2];
  const int64_t block = pool.shape[1];
  const int64_t capacity = pool.shape[0] * block;
  // Returns the first token whose slot is bad, or -1.
  const auto put = [&](auto from, auto to) -> int64_t {
    using S = decltype(from);
    using D = decltype(to);
    for (int64_t t = 0; t < tokens; ++t) {
      const int64_t slot = data_of<int32_t>(slots)[t * slots.strides[0]];
      if (slot < 0 || slot >= capacity) return t;
      for (int64_t h = 0; h < heads; ++h) {
        const S* s = data_of<S>(value) + t * value.strides[0] + h * value.strides[1];
        D* d = static_cast<D*>(pool.data) + (slot / block) * pool.strides[0] +
               (slot % block) * pool.strides[1] + h * pool.strides[2];
        const int64_t a = value.strides[2];
        const int64_t b = pool.strides[3];
        for (int64_t i = 0; i < size; ++i) from_float(to_float(s[i * a]), d + i * b);
      }
    }
    return -1;
  };
  int64_t bad = -1;
  visit_float(value.dtype,
              [&](auto from) { visit_float(pool.dtype, [&](auto to) { bad = put(from, to); }); });
  if (bad >= 0) {
    return refuse(call, "kv_append: slots[%lld] is %d, outside the pool of %lld slots",
                  static_cast<long long>(bad), data_of<int32_t>(slots)[bad * slots.strides[0]],
                  static_cast<long long>(capacity));
  }
  return CLIKA_OK;
}

CLIKA_KERNELS(kv_append, Entry("kv_append", run).in(FLOATS, FLOATS, I32).out(FLOATS).inplace())
#include "level_end.hpp"
