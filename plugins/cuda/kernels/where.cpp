// where: input where condition is true, else other; masked_fill: a number where the mask is true.
#include "launch.hpp"

namespace clika_cuda {

namespace {

Program* by_size[4];

int32_t choose(const clika_call* call, const char* op, const clika_value& condition, const clika_value& yes,
               const clika_value& no) {
  const clika_value* operands[] = {&condition, &yes, &no};
  const clika_device::Elementwise e = elementwise_of(operands, 3, call->outputs[0]);
  if (e.n == 0) return CLIKA_OK;
  const int64_t bytes = size_of(call->outputs[0].dtype);
  Program* program = by_size[bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3];
  return launch(call, op, program, {blocks_for(call, e.n, 512)}, 256, &e);
}

int32_t run_where(const clika_call* call) {
  return choose(call, "where", call->inputs[0], call->inputs[1], call->inputs[2]);
}
int32_t run_masked_fill(const clika_call* call) {  // input, mask, value
  return choose(call, "masked_fill", call->inputs[1], call->inputs[2], call->inputs[0]);
}

}  // namespace

void add_where(Registry& registry) {
  const char* names[] = {"where_1", "where_2", "where_4", "where_8"};
  for (int i = 0; i < 4; ++i) by_size[i] = registry.program("where", "", names[i]);
  registry.entry("where", run_where, {kBools, kEvery, kEvery}, kEvery);
  registry.entry("masked_fill", run_masked_fill, {kEvery, kBools, kEvery}, kEvery, CLIKA_STRIDED | CLIKA_INPLACE);
}

}  // namespace clika_cuda
