// softmax and log_softmax.
#include "launch.hpp"

namespace clika_cuda {

namespace {

Program* programs[2][2];  // softmax, log_softmax over float, double

template <bool kLog>
int32_t run(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  const clika_value& out = call->outputs[0];
  clika_device::Lines l{};
  l.in = in.data;
  l.out = out.data;
  l.in_dtype = in.dtype;
  l.out_dtype = out.dtype;
  l.n = 1;
  l.lines = 1;
  const int64_t given = attr_int(call, 0, -1);
  const int64_t dim = given < 0 ? given + in.rank : given;
  for (int32_t d = 0; d < in.rank; ++d) {
    if (d == dim) {
      l.n = in.shape[d];
      l.in_step = in.strides[d];
      l.out_step = out.strides[d];
      continue;
    }
    l.shape[l.rank] = in.shape[d];
    l.in_strides[l.rank] = in.strides[d];
    l.out_strides[l.rank++] = out.strides[d];
    l.lines *= in.shape[d];
  }
  if (l.n == 0 || l.lines == 0) return CLIKA_OK;
  const unsigned threads = l.n <= 64 ? 32 : l.n <= 1024 ? 128 : l.n <= 8192 ? 256 : 1024;
  Program* program = programs[kLog ? 1 : 0][in.dtype == CLIKA_FLOAT64 ? 1 : 0];
  return launch(call, kLog ? "log_softmax" : "softmax", program, {static_cast<unsigned>(l.lines)}, threads, &l);
}

}  // namespace

void add_softmax(Registry& registry) {
  for (int c = 0; c < 2; ++c) {
    const std::string defines = std::string("CLIKA_C=") + kComputeNames[c];
    programs[0][c] = registry.program("softmax", defines, "softmax_lines");
    programs[1][c] = registry.program("softmax", defines, "log_softmax_lines");
  }
  registry.entry("softmax", run<false>, {kFloats4}, kFloats4);
  registry.entry("log_softmax", run<true>, {kFloats4}, kFloats4);
}

}  // namespace clika_cuda
