#include "general.hpp"

#include <cmath>

namespace clika_cuda {

View view_of(const clika_value& v) {
  View view{};
  view.dtype = v.dtype;
  if (v.kind == CLIKA_NUMBER) {
    view.is_number = 1;
    std::memcpy(&view.number, v.data, static_cast<size_t>(size_of(v.dtype)));
    return view;
  }
  view.data = v.data;
  view.rank = v.rank;
  for (int32_t d = 0; d < v.rank; ++d) {
    view.shape[d] = v.shape[d];
    view.strides[d] = v.strides[d];
  }
  return view;
}

View lines_of(const clika_value& v, int32_t dim) {
  View view = view_of(v);
  if (v.rank == 0 || v.kind == CLIKA_NUMBER) return view;
  for (int32_t d = dim; d + 1 < v.rank; ++d) {
    view.shape[d] = v.shape[d + 1];
    view.strides[d] = v.strides[d + 1];
  }
  view.shape[v.rank - 1] = v.shape[dim];
  view.strides[v.rank - 1] = v.strides[dim];
  return view;
}

General general_of(const clika_call* call, const char* op) {
  General g{};
  for (uint32_t i = 0; i < call->n_inputs && i < 4; ++i) {
    if (present(call, i) && call->inputs[i].kind != CLIKA_SEQUENCE) g.in[i] = view_of(call->inputs[i]);
  }
  for (uint32_t i = 0; i < call->n_outputs && i < 3; ++i) {
    if (call->outputs[i].data != nullptr) g.out[i] = view_of(call->outputs[i]);  // else it has no shape yet
  }
  for (uint32_t i = 0; i < call->n_scalars && i < 8; ++i) g.f[i] = scalar_float(call, i, 0.0);
  g.n = call->n_outputs > 0 && call->outputs[0].data != nullptr ? elements(call->outputs[0]) : 0;
  g.reporter = reporter_of(call, op);
  return g;
}

int32_t launch_each(const clika_call* call, const char* op, Program* program, const General& g) {
  return g.n == 0 ? static_cast<int32_t>(CLIKA_OK) : launch(call, op, program, {blocks_for(call, g.n, 256)}, 256, &g);
}

int32_t read_back(const clika_call* call, const void* from, void* to, size_t bytes) {
  auto* queue = static_cast<Queue*>(call->stream);
  int32_t status = queue->device->copy(to, from, bytes, 1, queue->stream);
  if (status == CLIKA_OK) status = queue->device->synchronize(*queue);  // for what the kernels report
  return status == CLIKA_OK ? CLIKA_OK : pass_on(call, status);
}

uint16_t half_of(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude >= 0x7f800000u) return static_cast<uint16_t>(sign | 0x7c00u | (magnitude > 0x7f800000u ? 0x200u : 0u));
  // In units of the result's last place: 2^-24 for subnormal numbers.
  const int exponent = std::max(static_cast<int>(magnitude >> 23), 113);
  const double unit = std::ldexp(1.0, exponent - 127 - 10);
  const double places = std::nearbyint(std::fabs(static_cast<double>(x)) / unit);
  const uint32_t base = static_cast<uint32_t>(exponent - 113) << 10;  // a normal number's leading 1 counts one exponent
  const uint32_t made = base + static_cast<uint32_t>(places);
  return static_cast<uint16_t>(sign | std::min(made, 0x7c00u));
}

}  // namespace clika_cuda
