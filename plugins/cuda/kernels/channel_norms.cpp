// batch_norm, instance_norm, group_norm over channels-last tensors, local_response_norm, normalize.
#include "general.hpp"

namespace clika_cuda {

namespace {

Program *measure, *normalize_channels, *response_norm, *unit_lines;

// Statistics of all images together, of each, or given ones (inputs 1 and 2); weight and bias are inputs from `weight` on.
int32_t normalize(const clika_call* call, const char* op, uint32_t weight, bool own, bool together, int64_t groups,
                  double eps) {
  const clika_value& in = call->inputs[0];
  General g = general_of(call, op);
  if (g.n == 0) return CLIKA_OK;
  const auto given = [&](uint32_t i) { return present(call, i) ? view_of(call->inputs[i]) : View{}; };
  g.out[1] = own ? View{} : given(1);
  g.out[2] = own ? View{} : given(2);
  g.in[1] = given(weight);
  g.in[2] = given(weight + 1);
  g.in[3] = View{};
  g.i[1] = in.shape[in.rank - 1];
  g.i[2] = groups;
  const int64_t units = together ? 1 : in.shape[0];
  g.i[0] = g.n / g.i[1] / units;
  g.f[0] = eps;
  if (own) {
    g.room[0] = room_for<double>(call, 2 * units * groups);
    if (g.room[0] == nullptr) return CLIKA_UNAVAILABLE;
    const unsigned threads = g.i[0] * g.i[1] / groups <= 256 ? 64 : 256;
    const int32_t status = launch(call, op, measure, {static_cast<unsigned>(units * groups)}, threads, &g);
    if (status != CLIKA_OK) return status;
  }
  return launch_each(call, op, normalize_channels, g);
}

int64_t channels(const clika_call* call) { return call->inputs[0].shape[call->inputs[0].rank - 1]; }
// input, running_mean?, running_var?, weight?, bias?; attr training; scalars momentum, eps.
int32_t run_batch(const clika_call* call) {
  return normalize(call, "batch_norm", 3, attr_int(call, 0, 0) != 0, true, channels(call), scalar_float(call, 1, 1e-5));
}
int32_t run_instance(const clika_call* call) {
  return normalize(call, "instance_norm", 3, attr_int(call, 0, 1) != 0, false, channels(call), scalar_float(call, 1, 1e-5));
}
// input, weight?, bias?; attr num_groups; scalar eps.
int32_t run_group(const clika_call* call) {
  return normalize(call, "group_norm", 1, true, false, attr_int(call, 0, 1), scalar_float(call, 0, 1e-5));
}

// attr size; scalars alpha, beta, k.
int32_t run_response(const clika_call* call) {
  General g = general_of(call, "local_response_norm");
  if (g.n == 0) return CLIKA_OK;
  g.i[0] = attr_int(call, 0, 1);
  g.i[1] = channels(call);
  g.f[0] = scalar_float(call, 0, 1e-4);
  g.f[1] = scalar_float(call, 1, 0.75);
  g.f[2] = scalar_float(call, 2, 1.0);
  return launch_each(call, "local_response_norm", response_norm, g);
}

// attr dim; scalars p, eps.
int32_t run_normalize(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  General g = general_of(call, "normalize");
  if (g.n == 0) return CLIKA_OK;
  const int32_t dim = in.rank == 0 ? 0 : from_front(attr_int(call, 0, 1), in.rank);
  g.in[0] = lines_of(in, dim);
  g.out[0] = lines_of(call->outputs[0], dim);
  g.i[0] = in.rank == 0 ? 1 : in.shape[dim];
  g.f[0] = scalar_float(call, 0, 2.0);
  g.f[1] = scalar_float(call, 1, 1e-12);
  const unsigned threads = g.i[0] <= 64 ? 32 : 256;
  return launch(call, "normalize", unit_lines, {static_cast<unsigned>(g.n / g.i[0])}, threads, &g);
}

}  // namespace

void add_channel_norms(Registry& registry) {
  measure = registry.program("channel_norms", "", "measure");
  normalize_channels = registry.program("channel_norms", "", "normalize_channels");
  response_norm = registry.program("channel_norms", "", "response_norm");
  unit_lines = registry.program("channel_norms", "", "unit_lines");
  registry.entry("batch_norm", run_batch, {kFloats4}, kFloats4, 0);
  registry.entry("instance_norm", run_instance, {kFloats4}, kFloats4, 0);
  registry.entry("group_norm", run_group, {kFloats4}, kFloats4, 0);
  registry.entry("local_response_norm", run_response, {kFloats4 | kInts}, kFloats4, 0);
  registry.entry("normalize", run_normalize, {kFloats4}, kFloats4);
}

}  // namespace clika_cuda
