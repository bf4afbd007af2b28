// arange.
#include "launch.hpp"

namespace clika_cuda {

namespace {

Program* sequence;

double number(const clika_attr& a) { return a.kind == CLIKA_ATTR_FLOAT ? a.v.f : static_cast<double>(a.v.i); }
int64_t whole(const clika_attr& a) {  // towards zero, within 64 bits
  if (a.kind != CLIKA_ATTR_FLOAT) return a.v.i;
  return static_cast<int64_t>(std::max(-9.2e18, std::min(9.2e18, a.v.f)));
}

// attrs start, end, step (end None: start is the end), dtype, device.
int32_t run_arange(const clika_call* call) {
  const bool one = call->attrs[1].kind == CLIKA_ATTR_NONE;
  clika_device::Sequence s{};
  s.out = call->outputs[0].data;
  s.dtype = call->outputs[0].dtype;
  s.n = elements(call->outputs[0]);
  s.start = one ? 0.0 : number(call->attrs[0]);
  s.step = number(call->attrs[2]);
  s.whole_start = one ? 0 : whole(call->attrs[0]);
  s.whole_step = whole(call->attrs[2]);
  return s.n == 0 ? CLIKA_OK : launch(call, "arange", sequence, {blocks_for(call, s.n, 512)}, 256, &s);
}

}  // namespace

void add_factory(Registry& registry) {
  sequence = registry.program("factory", "", "sequence");
  registry.entry("arange", run_arange, {}, kFloats4 | kInts);
}

}  // namespace clika_cuda
