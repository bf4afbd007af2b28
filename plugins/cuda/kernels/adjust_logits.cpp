// bias_logits, penalize_logits, mask_logits: output 0 is the memory of input 0.
#include "launch.hpp"
#include "sampling_arguments.cuh"

namespace clika_cuda {

namespace {

using clika_device::Adjustment;

Program* bias;
Program* penalize;
Program* mask;

Adjustment adjustment_of(const clika_call* call, const char* op) {
  const clika_value& logits = call->outputs[0];
  Adjustment a{};
  a.logits = logits.data;
  a.rows = logits.shape[0];
  a.n = logits.shape[1];
  a.row_stride = logits.strides[0];
  a.step = logits.strides[1];
  a.ids = call->inputs[1].data;
  a.count = call->inputs[1].shape[0];
  a.id_step = call->inputs[1].strides[0];
  a.reporter = reporter_of(call, op);
  return a;
}
void set_spans(Adjustment* a, const clika_value& spans) {
  a->spans = spans.data;
  a->span_row = spans.strides[0];
  a->span_step = spans.strides[1];
}

// logits [R, V], ids [N], values [N], spans [R, 2].
int32_t run_bias(const clika_call* call) {
  Adjustment a = adjustment_of(call, "bias_logits");
  a.values = call->inputs[2].data;
  a.value_step = call->inputs[2].strides[0];
  set_spans(&a, call->inputs[3]);
  if (a.rows == 0 || a.n == 0) return CLIKA_OK;
  return launch(call, "bias_logits", bias, {static_cast<unsigned>(a.rows)}, 128, &a);
}

// logits [R, V], mask [R, ceil(V / 32)].
int32_t run_mask(const clika_call* call) {
  Adjustment a = adjustment_of(call, "mask_logits");
  const clika_value& words = call->inputs[1];
  if (words.shape[1] != (a.n + 31) / 32) {
    return refuse(call, "mask_logits: mask has " + std::to_string(words.shape[1]) + " words of 32 bits, " +
                            std::to_string(a.n) + " logits need " + std::to_string((a.n + 31) / 32));
  }
  a.span_row = words.strides[0];
  a.id_step = words.strides[1];
  if (a.rows * a.n == 0) return CLIKA_OK;
  return launch(call, "mask_logits", mask, {blocks_for(call, a.rows * a.n, 1024)}, 256, &a);
}

// logits [R, V], history [N], spans [R, 3], repetition, frequency, presence, dry_multiplier, dry_base, dry_allowed,
// dry_limit [R].
int32_t run_penalize(const clika_call* call) {
  Adjustment a = adjustment_of(call, "penalize_logits");
  set_spans(&a, call->inputs[2]);
  for (uint32_t i = 0; i < 7; ++i) a.columns[i] = {call->inputs[3 + i].data, call->inputs[3 + i].strides[0]};
  if (a.rows == 0 || a.n == 0) return CLIKA_OK;
  const int64_t blocks = std::min<int64_t>(a.rows, 64);
  a.seen = static_cast<int*>(call->core->device_scratch(call, static_cast<size_t>(2 * blocks * a.n) * sizeof(int)));
  if (a.seen == nullptr) return CLIKA_UNAVAILABLE;
  a.said = a.seen + blocks * a.n;
  const unsigned threads = a.count <= 512 ? 128 : 1024;
  return launch(call, "penalize_logits", penalize, {static_cast<unsigned>(blocks)}, threads, &a);
}

}  // namespace

void add_adjust_logits(Registry& registry) {
  bias = registry.program("adjust_logits", "", "bias_rows");
  penalize = registry.program("adjust_logits", "", "penalize_rows");
  mask = registry.program("adjust_logits", "", "mask_rows");
  constexpr uint64_t f32 = bit(CLIKA_FLOAT32), i32 = bit(CLIKA_INT32);
  constexpr uint32_t flags = CLIKA_STRIDED | CLIKA_INPLACE;
  registry.entry("bias_logits", run_bias, {f32, i32, f32, i32}, f32, flags);
  registry.entry("mask_logits", run_mask, {f32, i32}, f32, flags);
  registry.entry("penalize_logits", run_penalize, {f32, i32, i32, f32, f32, f32, f32, f32 | i32}, f32, flags);
}

}  // namespace clika_cuda
