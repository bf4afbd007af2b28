// Affine quantization. Scales come in the compute type, zero points as int64; everything lies in one piece.
#include "general.hpp"

namespace clika_cuda {

namespace {

Program *to_codes, *from_codes, *through_codes, *find_scale;

void set_scales(General* g, const clika_value& x, const clika_value& scale, int64_t axis, int64_t block) {
  g->i[0] = g->i[1] = g->i[2] = 1;
  if (block == 0 && elements(scale) == 1) return;
  const int32_t at = from_front(axis, x.rank);
  g->i[0] = x.shape[at];
  for (int32_t d = at + 1; d < x.rank; ++d) g->i[1] *= x.shape[d];
  g->i[2] = block > 0 ? block : 1;
  g->i[3] = (g->i[0] + g->i[2] - 1) / g->i[2];
  g->i[4] = block > 0;
}
void set_range(General* g, int32_t dtype) {
  const int bits = static_cast<int>(8 * size_of(dtype));
  const bool positive = dtype == CLIKA_UINT8 || dtype == CLIKA_UINT16;
  const auto top = static_cast<double>(int64_t{1} << (positive ? bits : bits - 1));
  g->f[1] = positive ? 0.0 : -top;
  g->f[2] = top - 1.0;
}

int32_t quantize(const clika_call* call, const char* op, int64_t axis, int64_t block, bool inverse) {
  General g = general_of(call, op);
  if (g.n == 0) return CLIKA_OK;
  set_scales(&g, call->inputs[0], call->inputs[1], axis, block);
  set_range(&g, call->outputs[0].dtype);
  g.i[6] = inverse;
  return launch_each(call, op, to_codes, g);
}
// attrs axis, block_size, dtype.
int32_t run_quantize(const clika_call* call) {
  return quantize(call, "quantize_linear", attr_int(call, 0, 1), attr_int(call, 1, 0), false);
}
// attrs axis, dtype. By a product with the reciprocal of the scale, as PyTorch's operators do.
int32_t run_per_channel(const clika_call* call) {
  return quantize(call, "quantize_per_channel", attr_int(call, 0, 0), 0, true);
}
// scalars scale, zero_point; attr dtype.
int32_t run_per_tensor(const clika_call* call) {
  General g = general_of(call, "quantize_per_tensor");
  g.f[0] = scalar_float(call, 0, 1.0);
  g.i[5] = scalar_int(call, 1, 0);
  g.i[6] = 1;
  set_range(&g, call->outputs[0].dtype);
  return launch_each(call, "quantize_per_tensor", to_codes, g);
}
// attrs axis, block_size, dtype.
int32_t run_dequantize(const clika_call* call) {
  General g = general_of(call, "dequantize_linear");
  if (g.n == 0) return CLIKA_OK;
  set_scales(&g, call->inputs[0], call->inputs[1], attr_int(call, 0, 1), attr_int(call, 1, 0));
  return launch_each(call, "dequantize_linear", from_codes, g);
}
int32_t run_dynamic(const clika_call* call) {
  General g = general_of(call, "dynamic_quantize_linear");
  g.i[0] = elements(call->inputs[0]);
  for (uint32_t i = 1; i < 3; ++i) g.out[i] = view_of(call->outputs[i]);
  const unsigned threads = g.i[0] <= 1024 ? 64 : 512;
  if (const int32_t status = launch(call, "dynamic_quantize_linear", find_scale, {1}, threads, &g)) return status;
  g.in[1] = g.out[1];
  g.in[2] = g.out[2];
  set_range(&g, CLIKA_UINT8);
  return launch_each(call, "dynamic_quantize_linear", to_codes, g);
}
// attrs quant_min, quant_max from `first` on.
int32_t fake(const clika_call* call, const char* op, int64_t axis, uint32_t first) {
  General g = general_of(call, op);
  if (g.n == 0) return CLIKA_OK;
  set_scales(&g, call->inputs[0], call->inputs[1], axis, 0);
  g.f[1] = static_cast<double>(attr_int(call, first, 0));
  g.f[2] = static_cast<double>(attr_int(call, first + 1, 0));
  return launch_each(call, op, through_codes, g);
}
int32_t run_fake_tensor(const clika_call* call) { return fake(call, "fake_quantize_per_tensor_affine", 0, 0); }
int32_t run_fake_channel(const clika_call* call) {
  return fake(call, "fake_quantize_per_channel_affine", attr_int(call, 0, 0), 1);
}

}  // namespace

void add_quantization(Registry& registry) {
  to_codes = registry.program("quantization", "", "to_codes");
  from_codes = registry.program("quantization", "", "from_codes");
  through_codes = registry.program("quantization", "", "through_codes");
  find_scale = registry.program("quantization", "", "find_scale");
  constexpr uint64_t wide = bit(CLIKA_FLOAT32) | bit(CLIKA_FLOAT64), i64 = bit(CLIKA_INT64), f32 = bit(CLIKA_FLOAT32);
  constexpr uint64_t codes = bit(CLIKA_INT8) | bit(CLIKA_UINT8) | bit(CLIKA_INT16) | bit(CLIKA_UINT16) | bit(CLIKA_INT32);
  registry.entry("quantize_linear", run_quantize, {kFloats4, wide, i64}, codes, 0);
  registry.entry("quantize_per_channel", run_per_channel, {kFloats4, wide, i64}, codes, 0);
  registry.entry("quantize_per_tensor", run_per_tensor, {kFloats4}, codes, 0);
  registry.entry("dequantize_linear", run_dequantize, {codes, wide, i64}, kFloats4, 0);
  registry.entry("dynamic_quantize_linear", run_dynamic, {f32}, codes | f32, 0);
  registry.entry("fake_quantize_per_tensor_affine", run_fake_tensor, {kFloats4, wide, i64}, kFloats4, 0);
  registry.entry("fake_quantize_per_channel_affine", run_fake_channel, {kFloats4, wide, i64}, kFloats4, 0);
}

}  // namespace clika_cuda
