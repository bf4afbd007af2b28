// embedding: rows of a table, dense or quantized, published or packed.
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <type_traits>

#include "level.hpp"

#include "blocks.hpp"
#include "pack.hpp"
#include "interleaved.hpp"

inline int64_t id_at(const clika_value& ids, int64_t i) {
  return ids.dtype == CLIKA_INT32 ? static_cast<int64_t>(static_cast<const int32_t*>(ids.data)[i])
                                  : static_cast<const int64_t*>(ids.data)[i];
}

template <class In, class Out>
void copy_row(const In* from, Out* to, int64_t n) {
  if constexpr (std::is_same_v<In, Out>) {
    std::memcpy(to, from, sizeof(In) * static_cast<size_t>(n));
  } else {
    int64_t i = 0;
    for (; i + W <= n; i += W) store(to + i, load(from + i));
    for (; i < n; ++i) from_float(to_float(from[i]), to + i);
  }
}

template <class Out>
void gather_row(const clika_value& weight, int64_t row, Out* out) {
  const int64_t columns = weight.shape[1];
  if (weight.scheme != CLIKA_DENSE) {
    decode_row(weight, row, out);
    return;
  }
  visit_float(weight.dtype, [&](auto tag) {
    using In = decltype(tag);
    if (is_interleaved(weight)) {
      copy_interleaved_row<In>(weight, row, out);
    } else {
      copy_row(static_cast<const In*>(weight.data) + row * columns, out, columns);
    }
  });
}

template <class Out>
int32_t gather(const clika_call* call) {
  const clika_value& weight = call->inputs[0];
  const clika_value& ids = call->inputs[1];
  Out* out = static_cast<Out*>(call->outputs[0].data);
  const int64_t columns = weight.shape[1];
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, columns));
  parallel(call, elements(ids), grain, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t i = begin; i < end; ++i) gather_row(weight, id_at(ids, i), out + i * columns);
  });
  return CLIKA_OK;
}

int32_t run(const clika_call* call) {
  const clika_value& weight = call->inputs[0];
  const clika_value& ids = call->inputs[1];
  if (weight.rank != 2) {
    return refuse(call, CLIKA_INVALID_ARGUMENT,
                  "embedding: the table must be [rows, columns], got %d dimensions",
                  static_cast<int>(weight.rank));
  }
  const int32_t status = weight.scheme != CLIKA_DENSE  ? check_weight(call, weight, "embedding")
                         : is_interleaved(weight) ? check_interleaved(call, weight, "embedding")
                                                  : CLIKA_OK;
  if (status != CLIKA_OK) return status;
  const int64_t rows = weight.shape[0];
  const int64_t n = elements(ids);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t id = id_at(ids, i);
    if (id >= 0 && id < rows) continue;
    return refuse(call, CLIKA_INVALID_ARGUMENT,
                  "embedding: id %" PRId64 " at position %" PRId64
                  " is outside the table's rows 0 .. %" PRId64,
                  id, i, rows - 1);
  }
  switch (call->outputs[0].dtype) {
    case CLIKA_FLOAT32: return gather<float>(call);
    case CLIKA_BFLOAT16: return gather<bf16>(call);
    default: return gather<f16>(call);
  }
}

constexpr Entry entry =
    Entry("embedding", run).in(FLOATS, I32 | I64).schemes(DENSE, 0).out(FLOATS).contiguous().parallel();

CLIKA_KERNELS(embedding, entry, entry.in(CLIKA_ANY, I32 | I64).schemes(kQuantized, 0))
#include "level_end.hpp"
