// dequantize: the exact values of a quantized weight, published or packed, as a dense tensor.
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <type_traits>

#include "level.hpp"

#include "blocks.hpp"
#include "pack.hpp"
#include "interleaved.hpp"

template <class Out>
int32_t decode_all(const clika_call* call) {
  const clika_value& weight = call->inputs[0];
  Out* out = static_cast<Out*>(call->outputs[0].data);
  const int64_t columns = std::max<int64_t>(1, weight.shape[weight.rank - 1]);
  const int64_t grain = std::max<int64_t>(1, 16384 / columns);
  parallel(call, elements(weight) / columns, grain, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t row = begin; row < end; ++row) decode_row(weight, row, out + row * columns);
  });
  return CLIKA_OK;
}

int32_t run(const clika_call* call) {
  const int32_t status = check_weight(call, call->inputs[0], "dequantize", true);
  if (status != CLIKA_OK) return status;
  switch (call->outputs[0].dtype) {
    case CLIKA_FLOAT32: return decode_all<float>(call);
    case CLIKA_BFLOAT16: return decode_all<bf16>(call);
    default: return decode_all<f16>(call);
  }
}

template <class In, class Out>
void convert(const clika_call* call) {
  const In* from = static_cast<const In*>(call->inputs[0].data);
  Out* to = static_cast<Out*>(call->outputs[0].data);
  parallel(call, elements(call->inputs[0]), 32768, [&](int64_t begin, int64_t end, int32_t) {
    int64_t i = begin;
    for (; i + W <= end; i += W) store(to + i, load(from + i));
    for (; i < end; ++i) from_float(to_float(from[i]), to + i);
  });
}

template <class In, class Out>
void convert_interleaved(const clika_call* call) {
  const clika_value& weight = call->inputs[0];
  const int64_t columns = weight.shape[1];
  Out* to = static_cast<Out*>(call->outputs[0].data);
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, columns));
  parallel(call, columns == 0 ? 0 : weight.shape[0], grain, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t row = begin; row < end; ++row) copy_interleaved_row<In>(weight, row, to + row * columns);
  });
}

template <class In>
int32_t convert_dense(const clika_call* call) {
  if (is_interleaved(call->inputs[0])) {
    const int32_t status = check_interleaved(call, call->inputs[0], "dequantize");
    if (status != CLIKA_OK) return status;
    visit_float(call->outputs[0].dtype, [&](auto tag) { convert_interleaved<In, decltype(tag)>(call); });
    return CLIKA_OK;
  }
  switch (call->outputs[0].dtype) {
    case CLIKA_FLOAT32: convert<In, float>(call); break;
    case CLIKA_BFLOAT16: convert<In, bf16>(call); break;
    default: convert<In, f16>(call); break;
  }
  return CLIKA_OK;
}

constexpr Entry dense_entry(clika_kernel_fn run, uint64_t dtype) {
  return Entry("dequantize", run).in(dtype).schemes(DENSE).out(FLOATS).contiguous().parallel();
}

CLIKA_KERNELS(dequantize,
              Entry("dequantize", run).in(CLIKA_ANY).schemes(kQuantized).out(FLOATS).contiguous().parallel(),
              dense_entry(convert_dense<float>, F32), dense_entry(convert_dense<bf16>, BF16),
              dense_entry(convert_dense<f16>, F16))
#include "level_end.hpp"
