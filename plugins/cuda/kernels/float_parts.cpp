// frexp and nextafter.
#include "general.hpp"

namespace clika_cuda {

namespace {

Program *split_floats, *next_floats;

int32_t run_frexp(const clika_call* call) { return launch_each(call, "frexp", split_floats, general_of(call, "frexp")); }
int32_t run_nextafter(const clika_call* call) {
  const clika_value* operands[] = {&call->inputs[0], &call->inputs[1]};
  const clika_device::Elementwise e = elementwise_of(operands, 2, call->outputs[0]);
  return e.n == 0 ? CLIKA_OK : launch(call, "nextafter", next_floats, {blocks_for(call, e.n, 256)}, 256, &e);
}

}  // namespace

void add_float_parts(Registry& registry) {
  split_floats = registry.program("float_parts", "", "split_floats");
  next_floats = registry.program("float_parts", "", "next_floats");
  registry.entry("frexp", run_frexp, {kFloats4}, kFloats4 | bit(CLIKA_INT32));
  registry.entry("nextafter", run_nextafter, {kFloats4}, kFloats4, CLIKA_STRIDED | CLIKA_INPLACE);
}

}  // namespace clika_cuda
