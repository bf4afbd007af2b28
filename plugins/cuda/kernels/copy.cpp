// copy, copy_, cat, bitcast, full and cast.
#include "general.hpp"

namespace clika_cuda {

namespace {

using clika_device::Elementwise;

Program* moves[5];  // of 1, 2, 4, 8 and 16 bytes
Program* truths;
Program* casts[4];

int32_t run_copy(const clika_call* call) { return move(call, "copy", call->outputs[0], call->inputs[0]); }
int32_t run_copy_into(const clika_call* call) { return move(call, "copy_", call->outputs[0], call->inputs[1]); }
int32_t run_full(const clika_call* call) { return move(call, "full", call->outputs[0], call->inputs[0]); }

int32_t run_bitcast(const clika_call* call) {
  if (call->outputs[0].dtype != CLIKA_BOOL) return move(call, "bitcast", call->outputs[0], call->inputs[0]);
  const clika_value* operands[] = {&call->inputs[0]};
  const Elementwise e = elementwise_of(operands, 1, call->outputs[0]);
  return e.n == 0 ? CLIKA_OK : launch(call, "bitcast", truths, {blocks_for(call, e.n, 512)}, 256, &e);
}

// tensors; attr dim.
int32_t run_cat(const clika_call* call) {
  const clika_value& list = call->inputs[0];
  const clika_value& out = call->outputs[0];
  const int64_t given = attr_int(call, 0, 0);
  const int64_t dim = given < 0 ? given + out.rank : given;
  int64_t start = 0;
  for (int32_t i = 0; i < list.n_items; ++i) {
    const clika_value& item = list.items[i];
    if (item.rank != out.rank) continue;  // of shape [0]
    clika_value part = out;
    part.shape = item.shape;
    part.data = static_cast<char*>(out.data) + start * out.strides[dim] * size_of(out.dtype);
    if (const int32_t status = move(call, "cat", part, item)) return status;
    start += item.shape[dim];
  }
  return CLIKA_OK;
}

int32_t run_cast(const clika_call* call) {
  const clika_value* operands[] = {&call->inputs[0]};
  const Elementwise e = elementwise_of(operands, 1, call->outputs[0]);
  if (e.n == 0) return CLIKA_OK;
  return launch(call, "cast", casts[compute_of(call->inputs[0].dtype)], {blocks_for(call, e.n, 512)}, 256, &e);
}

}  // namespace

int32_t move(const clika_call* call, const char* op, const clika_value& to, const clika_value& from) {
  const clika_value* operands[] = {&from};
  Elementwise e = elementwise_of(operands, 1, to);
  if (e.n == 0) return CLIKA_OK;
  const int64_t bytes = size_of(to.dtype);
  const bool flat = e.in[0].is_number == 0 &&
                    (e.rank == 0 || (e.rank == 1 && e.out_strides[0] == 1 && e.in[0].strides[0] == 1));
  if (flat && reinterpret_cast<uintptr_t>(e.out) % 16 == 0 && reinterpret_cast<uintptr_t>(e.in[0].data) % 16 == 0 &&
      e.n * bytes % 16 == 0) {
    e.n = e.n * bytes / 16;
    return launch(call, op, moves[4], {blocks_for(call, e.n, 1024)}, 256, &e);
  }
  Program* program = moves[bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3];
  return launch(call, op, program, {blocks_for(call, e.n, 512)}, 256, &e);
}

int32_t clear(const clika_call* call, const char* op, void* data, int64_t bytes) {
  static const int64_t step[1] = {1};
  static int64_t zero = 0;
  const bool words = bytes % 8 == 0 && reinterpret_cast<uintptr_t>(data) % 8 == 0;
  const int64_t size[1] = {words ? bytes / 8 : bytes};
  clika_value to{};
  to.kind = CLIKA_TENSOR;
  to.data = data;
  to.rank = 1;
  to.shape = size;
  to.strides = step;
  to.dtype = words ? CLIKA_INT64 : CLIKA_UINT8;
  clika_value from{};
  from.kind = CLIKA_NUMBER;
  from.data = &zero;
  from.dtype = to.dtype;
  return move(call, op, to, from);
}

void add_copy(Registry& registry) {
  const char* names[] = {"move_1", "move_2", "move_4", "move_8", "move_16"};
  for (int i = 0; i < 5; ++i) moves[i] = registry.program("copy", "", names[i]);
  truths = registry.program("copy", "", "truths");
  for (int c = 0; c < 4; ++c) casts[c] = registry.program("copy", "", std::string("cast_") + kComputeNames[c]);
  registry.entry("copy", run_copy, {kEvery}, kEvery);
  registry.entry("bitcast", run_bitcast, {kEvery}, kEvery);
  registry.entry("copy_", run_copy_into, {kEvery}, kEvery, CLIKA_STRIDED | CLIKA_INPLACE);
  registry.entry("cat", run_cat, {kEvery}, kEvery);
  registry.entry("full", run_full, {kEvery}, kEvery);
  registry.entry("cast", run_cast, {kEvery}, kEvery);
}

}  // namespace clika_cuda
