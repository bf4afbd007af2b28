// rms_norm, layer_norm and add_rms_norm over the last dims.
#include <limits>

#include "launch.hpp"

namespace clika_cuda {

namespace {

using clika_device::Norm;

Program* rms[3];
Program* pieces[3][3];  // [kind][1, 2, 4 pieces of 16 bytes a thread]
Program* layer[3];
int kind_of(int32_t dtype) { return dtype == CLIKA_FLOAT32 ? 0 : dtype == CLIKA_BFLOAT16 ? 1 : 2; }

void operand(const clika_call* call, uint32_t i, const void** data, int* dtype) {
  if (!present(call, i)) return;
  *data = call->inputs[i].data;
  *dtype = call->inputs[i].dtype;
}

Norm norm_of(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  const clika_attr& shape = call->attrs[0];
  const int32_t dims = shape.kind == CLIKA_ATTR_INTS ? shape.n : 1;
  Norm e{};
  e.in = in.data;
  e.out = call->outputs[0].data;
  e.dtype = in.dtype;
  e.rows = 1;
  e.n = 1;
  for (int32_t d = 0; d < in.rank; ++d) (d < in.rank - dims ? e.rows : e.n) *= in.shape[d];
  return e;
}
int32_t go(const clika_call* call, const char* op, Program* const* programs, const Norm& e) {
  if (e.rows == 0 || e.n == 0) return CLIKA_OK;
  const unsigned threads = e.n <= 128 ? 32 : e.n <= 1024 ? 128 : e.n <= 4096 ? 256 : 512;
  return launch(call, op, programs[kind_of(e.dtype)], {static_cast<unsigned>(e.rows)}, threads, &e);
}

// Rows on whole 16 bytes without biases, their weight in their dtype or float32, are held in registers. A few rows get as many threads as they have use for; of
// many, four loads a thread are under way, and rows up to 128 pieces are a warp's.
int32_t go_rms(const clika_call* call, const char* op, Norm e) {
  constexpr int64_t most = 2048;
  const int64_t bytes = e.n * size_of(e.dtype), count = bytes / 16;
  const auto on_16 = [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; };
  const bool plain = e.bias == nullptr && e.in_bias == nullptr && e.residual_bias == nullptr;
  const bool known = e.weight == nullptr || e.weight_dtype == e.dtype || e.weight_dtype == CLIKA_FLOAT32;
  if (!plain || !known || e.rows == 0 || count == 0 || bytes % 16 != 0 || count > most || !on_16(e.in) || !on_16(e.out) ||
      !on_16(e.residual) || !on_16(e.sum) || !on_16(e.weight)) {
    return go(call, op, rms, e);
  }
  const bool many = e.rows > 2 * static_cast<int64_t>(device_of(call).multiprocessors());
  const int64_t held = many ? (count <= 32 ? 1 : count <= 64 ? 2 : 4) : count <= 1024 ? 1 : 2;
  e.lanes = static_cast<int>(((count + held - 1) / held + 31) / 32 * 32);
  const unsigned threads = many && e.lanes == 32 ? 128 : static_cast<unsigned>(e.lanes);
  const int64_t each = e.lanes == 32 ? threads / 32 : 1;
  return launch(call, op, pieces[kind_of(e.dtype)][held / 2], {static_cast<unsigned>((e.rows + each - 1) / each)},
                threads, &e);
}

// input, weight?; attr normalized_shape; scalars eps, offset.
int32_t run_rms(const clika_call* call) {
  Norm e = norm_of(call);
  operand(call, 1, &e.weight, &e.weight_dtype);
  e.eps = static_cast<float>(scalar_float(call, 0, std::numeric_limits<float>::epsilon()));
  e.offset = static_cast<float>(scalar_float(call, 1, 0.0));
  return go_rms(call, "rms_norm", e);
}
// input, weight?, bias?; attr normalized_shape; scalar eps.
int32_t run_layer(const clika_call* call) {
  Norm e = norm_of(call);
  operand(call, 1, &e.weight, &e.weight_dtype);
  operand(call, 2, &e.bias, &e.bias_dtype);
  e.eps = static_cast<float>(scalar_float(call, 0, 1e-5));
  return go(call, "layer_norm", layer, e);
}
// input, residual, input_bias?, residual_bias?, weight?, bias?; attr normalized_shape; scalars offset, eps; outputs the
// norm and the sum.
int32_t run_add_rms(const clika_call* call) {
  Norm e = norm_of(call);
  e.residual = call->inputs[1].data;
  e.sum = call->outputs[1].data;
  operand(call, 2, &e.in_bias, &e.in_bias_dtype);
  operand(call, 3, &e.residual_bias, &e.residual_bias_dtype);
  operand(call, 4, &e.weight, &e.weight_dtype);
  operand(call, 5, &e.bias, &e.bias_dtype);
  e.offset = static_cast<float>(scalar_float(call, 0, 0.0));
  e.eps = static_cast<float>(scalar_float(call, 1, 1e-6));
  return go_rms(call, "add_rms_norm", e);
}

}  // namespace

void add_normalization(Registry& registry) {
  const char* names[] = {"float32", "bfloat16", "float16"};
  for (int i = 0; i < 3; ++i) {
    rms[i] = registry.program("normalization", "", std::string("rms_") + names[i])->begins_early();
    layer[i] = registry.program("normalization", "", std::string("layer_") + names[i])->begins_early();
    for (int k = 0; k < 3; ++k) {
      pieces[i][k] = registry.program("normalization", "", std::string("rms_") + names[i] + "_" + std::to_string(1 << k))->begins_early();
    }
  }
  // Without CLIKA_STRIDED: rows come in one piece.
  registry.entry("rms_norm", run_rms, {kFloats3}, kFloats3, 0);
  registry.entry("layer_norm", run_layer, {kFloats3}, kFloats3, 0);
  registry.entry("add_rms_norm", run_add_rms, {kFloats3}, kFloats3, 0);
}

}  // namespace clika_cuda
