// sample, mirostat, top_logprobs: rows of logits, one launch (two where rows are long) for all of them.
#include "launch.hpp"
#include "sampling_arguments.cuh"

namespace clika_cuda {

namespace {

using clika_device::Sampling;

Program* parts;
Program* sample;
Program* mirostat;
Program* tops;

constexpr int64_t kPart = 4096;  // of a row that one block looks through for its best token

// Inputs from 1 on are columns [R].
int32_t open(const clika_call* call, const char* op, Sampling* s) {
  const clika_value& logits = call->inputs[0];
  s->logits = logits.data;
  s->dtype = logits.dtype;
  s->rows = logits.shape[0];
  s->n = logits.shape[1];
  s->row_stride = logits.strides[0];
  s->step = logits.strides[1];
  if (s->rows > 0 && s->n == 0) return refuse(call, std::string(op) + ": the rows of logits are empty");
  s->scale = 62;
  for (int64_t size = 1; size < s->n; size *= 2) --s->scale;
  for (uint32_t i = 1; i < call->n_inputs; ++i) {
    if (present(call, i)) s->columns[i - 1] = {call->inputs[i].data, call->inputs[i].strides[0]};
  }
  for (uint32_t i = 0; i < call->n_outputs; ++i) s->out[i] = call->outputs[i].data;
  return CLIKA_OK;
}

int32_t run_rows(const clika_call* call, const char* op, Program* program, Sampling* s) {
  if (s->rows == 0) return CLIKA_OK;
  s->part = kPart;
  s->splits = (s->n + kPart - 1) / kPart;
  if (s->splits > 1) {
    const size_t bytes = static_cast<size_t>(s->rows * s->splits) * 8;
    s->parts = call->core->device_scratch(call, bytes);
    if (s->parts == nullptr) return CLIKA_UNAVAILABLE;
    const Grid grid{static_cast<unsigned>(s->splits), static_cast<unsigned>(s->rows)};
    if (const int32_t status = launch(call, op, parts, grid, 256, s)) return status;
  }
  const unsigned threads = s->n <= 1024 ? 128 : s->n <= kPart ? 256 : 1024;
  return launch(call, op, program, {static_cast<unsigned>(s->rows)}, threads, s);
}

// logits [R, V], temperature, top_p, min_p, top_k, seed, index [R]; top_n_sigma?, typical_p?, xtc_probability?,
// xtc_threshold? [R].
int32_t run_sample(const clika_call* call) {
  Sampling s{};
  if (const int32_t status = open(call, "sample", &s)) return status;
  if (present(call, 7) || present(call, 8) || present(call, 9)) {
    s.weights = static_cast<float*>(call->core->device_scratch(call, static_cast<size_t>(s.rows * s.n) * sizeof(float)));
    if (s.weights == nullptr) return CLIKA_UNAVAILABLE;
  }
  return run_rows(call, "sample", sample, &s);
}

// logits [R, V], ids, temperature, tau, eta, mu, seed, index, version [R] -> ids, mu [R].
int32_t run_mirostat(const clika_call* call) {
  Sampling s{};
  if (const int32_t status = open(call, "mirostat", &s)) return status;
  return run_rows(call, "mirostat", mirostat, &s);
}

// logits [R, V], ids [R]; attribute k -> [R], [R, k], [R, k].
int32_t run_tops(const clika_call* call) {
  Sampling s{};
  if (const int32_t status = open(call, "top_logprobs", &s)) return status;
  s.most = attr_int(call, 0, 0);
  if (s.most > 0) {
    s.room = call->core->device_scratch(call, static_cast<size_t>(s.rows * 2 * s.most) * 8);
    if (s.room == nullptr) return CLIKA_UNAVAILABLE;
  }
  return run_rows(call, "top_logprobs", tops, &s);
}

}  // namespace

void add_sampling(Registry& registry) {
  parts = registry.program("sampling", "", "best_parts")->begins_early();
  sample = registry.program("sampling", "", "sample_rows")->begins_early();
  mirostat = registry.program("sampling", "", "mirostat_rows")->begins_early();
  tops = registry.program("sampling", "", "top_rows")->begins_early();
  constexpr uint64_t f32 = bit(CLIKA_FLOAT32), i32 = bit(CLIKA_INT32), i64 = bit(CLIKA_INT64);
  registry.entry("sample", run_sample, {kFloats3, f32, f32, f32, i32, i64, i64, f32}, i32);
  // The last mask is that of all further inputs: index and version.
  registry.entry("mirostat", run_mirostat, {f32, i32, f32, f32, f32, f32, i64, i64 | i32}, i32 | f32);
  registry.entry("top_logprobs", run_tops, {kFloats3, i32}, f32 | i32);
}

}  // namespace clika_cuda
