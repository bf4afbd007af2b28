// rotary: input [T, H, D] turned by position * frequency; rotary_embedding: by tables of cosines and sines.
#include "launch.hpp"

namespace clika_cuda {

namespace {

using clika_device::Rotary;

Program* by_frequencies;
Program* by_tables;

Rotary rotary_of(const clika_call* call, int64_t half) {
  const clika_value& in = call->inputs[0];
  Rotary r{};
  r.in = in.data;
  r.out = call->outputs[0].data;
  r.tokens = in.shape[0];
  r.heads = in.shape[1];
  r.size = in.shape[2];
  r.half = half;
  for (int d = 0; d < 3; ++d) r.in_strides[d] = in.strides[d];
  r.dtype = in.dtype;
  r.interleaved = attr_int(call, 0, 0) != 0;
  return r;
}
int32_t go(const clika_call* call, const char* op, Program* program, const Rotary& r) {
  const int64_t total = r.tokens * r.heads * (r.size - r.half);
  return total == 0 ? CLIKA_OK : launch(call, op, program, {blocks_for(call, total, 256)}, 256, &r);
}

// positions [T] or [A, T], inv_freq [R] or [A, R]; attr interleaved; scalar scale.
int32_t run(const clika_call* call) {
  const clika_value& positions = call->inputs[1];
  const clika_value& frequencies = call->inputs[2];
  Rotary r = rotary_of(call, frequencies.shape[frequencies.rank - 1]);
  r.positions = positions.data;
  r.position_dtype = positions.dtype;
  r.frequencies = frequencies.data;
  r.axes = positions.rank == 2 ? positions.shape[0] : 1;
  r.position_axis = positions.rank == 2 ? positions.strides[0] : 0;
  r.position_step = positions.strides[positions.rank - 1];
  r.frequency_axis = frequencies.rank == 2 ? frequencies.strides[0] : 0;
  r.frequency_step = frequencies.strides[frequencies.rank - 1];
  r.scale = static_cast<float>(scalar_float(call, 0, 1.0));
  return go(call, "rotary", by_frequencies, r);
}

// cos and sin [P, R], positions [T]?; attr rotary_mode (1: neighbouring pairs).
int32_t run_from_tables(const clika_call* call) {
  const clika_value& cosines = call->inputs[1];
  const clika_value& sines = call->inputs[2];
  Rotary r = rotary_of(call, cosines.shape[1]);
  r.frequencies = cosines.data;
  r.cosine_dtype = cosines.dtype;
  r.frequency_axis = cosines.strides[0];
  r.frequency_step = cosines.strides[1];
  r.sines = sines.data;
  r.sine_dtype = sines.dtype;
  r.sine_axis = sines.strides[0];
  r.sine_step = sines.strides[1];
  r.rows = cosines.shape[0];
  if (present(call, 3)) {
    r.positions = call->inputs[3].data;
    r.position_dtype = call->inputs[3].dtype;
    r.position_step = call->inputs[3].strides[0];
  }
  r.reporter = reporter_of(call, "rotary_embedding");
  return go(call, "rotary_embedding", by_tables, r);
}

}  // namespace

void add_rotary(Registry& registry) {
  by_frequencies = registry.program("rotary", "", "by_frequencies")->begins_early();
  by_tables = registry.program("rotary", "", "by_tables")->begins_early();
  registry.entry("rotary", run, {kFloats3, kIndex, bit(CLIKA_FLOAT32)}, kFloats3);
  registry.entry("rotary_embedding", run_from_tables, {kFloats3, kFloats3, kFloats3, kIndex}, kFloats3);
}

}  // namespace clika_cuda
