#include "launch.hpp"

namespace clika_cuda {

Function Program::on(Device& device) {
  std::atomic<Function>& known = functions_[static_cast<size_t>(device.index())];
  if (Function function = known.load(std::memory_order_acquire)) return function;
  Function function = load(device, {source_.c_str(), defines_.c_str(), symbol_.c_str()});
  if (function != nullptr && early_ && device.overlaps()) {
    device.cuda().function_set(function, kFunctionCarveout, 100 * kSharedKib / (device.shared_memory() / 1024 + 1));  // a hint
  }
  known.store(function, std::memory_order_release);
  return function;
}

clika_kernel& Registry::entry(const char* op, clika_kernel_fn run, std::initializer_list<uint64_t> inputs,
                              uint64_t outputs, uint32_t flags) {
  clika_kernel made{};
  made.op = op;
  made.name = op;
  made.run = run;
  const std::vector<uint64_t> masks(inputs);
  for (size_t i = 0; i < 8; ++i) {
    made.input_dtypes[i] = masks.empty() ? kEvery : masks[std::min(i, masks.size() - 1)];
  }
  made.output_dtypes = outputs;
  made.max_rank = CLIKA_MAX_RANK;
  made.flags = flags;
  entries.push_back(made);
  return entries.back();
}

int32_t pass_on(const clika_call* call, int32_t status) {
  char code[64], message[4096];
  last_failure(code, sizeof(code), message, sizeof(message));
  return call->core->set_error(call, status, code, message);
}

int32_t refuse(const clika_call* call, const std::string& message) {
  return call->core->set_error(call, CLIKA_INVALID_ARGUMENT, "INVALID_ARGUMENT", message.c_str());
}

int32_t launch(const clika_call* call, const char* op, Program* program, Grid grid, unsigned threads,
               const void* argument, unsigned shared) {
  auto* queue = static_cast<Queue*>(call->stream);
  Device& device = *queue->device;
  if (const int32_t status = device.usable()) return pass_on(call, status);
  const Current current(device);
  Function function = program->on(device);
  if (function == nullptr) return pass_on(call, last_failure(nullptr, 0, nullptr, 0));
  if (shared > 16u << 10) {  // with what a kernel declares for itself it may be over the 48 KiB that need no asking
    const Result result = device.cuda().function_set(function, kFunctionDynamicShared, static_cast<int>(shared));
    if (const int32_t status = device.check(result, op)) return pass_on(call, status);
  }
  queue->note(op);
  void* arguments[] = {const_cast<void*>(argument)};
  LaunchAttribute early{kBeginsEarly};
  early.value = 1;
  const LaunchConfig config = {{grid.x, grid.y, grid.z}, {threads, 1, 1}, shared, queue->stream, &early,
                               program->early() && device.overlaps() ? 1u : 0u};
  const Result result = device.cuda().launch(&config, function, arguments, nullptr);
  const int32_t status = device.check(result, op);
  return status == CLIKA_OK ? CLIKA_OK : pass_on(call, status);
}

clika_device::Reporter reporter_of(const clika_call* call, const char* op) {
  return {device_of(call).report(), static_cast<clika_device::u64>(reinterpret_cast<uintptr_t>(op))};
}

unsigned blocks_for(const clika_call* call, int64_t n, int64_t each) {
  const int64_t wanted = (n + each - 1) / each;
  const int64_t most = static_cast<int64_t>(device_of(call).multiprocessors()) * 16;
  return static_cast<unsigned>(std::max<int64_t>(1, std::min(wanted, most)));
}

Walk::Walk(const clika_value* const* operands, int count) {
  const clika_value& out = *operands[0];
  for (int32_t d = 0; d < out.rank; ++d) {
    n *= out.shape[d];
    if (out.shape[d] == 1) continue;
    for (int k = 0; k < count; ++k) {
      const clika_value& v = *operands[k];
      const int32_t at = d - (out.rank - v.rank);
      strides[k][rank] = at >= 0 && v.shape[at] != 1 ? v.strides[at] : 0;
    }
    shape[rank] = out.shape[d];
    bool merge = rank > 0;
    for (int k = 0; merge && k < count; ++k) merge = strides[k][rank - 1] == strides[k][rank] * shape[rank];
    if (merge) {
      shape[rank - 1] *= shape[rank];
      for (int k = 0; k < count; ++k) strides[k][rank - 1] = strides[k][rank];
    } else {
      ++rank;
    }
  }
}

clika_device::Elementwise elementwise_of(const clika_value* const* in, int count, const clika_value& out) {
  clika_device::Elementwise e{};
  const clika_value* operands[4] = {&out};
  for (int k = 0; k < count; ++k) operands[k + 1] = in[k];
  const Walk walk(operands, count + 1);
  e.rank = walk.rank;
  e.n = walk.n;
  e.out = out.data;
  e.out_dtype = out.dtype;
  for (int d = 0; d < walk.rank; ++d) {
    e.shape[d] = walk.shape[d];
    e.out_strides[d] = walk.strides[0][d];
  }
  for (int k = 0; k < count; ++k) {
    clika_device::Operand& operand = e.in[k];
    operand.dtype = in[k]->dtype;
    if (in[k]->kind == CLIKA_NUMBER) {
      operand.is_number = 1;
      std::memcpy(&operand.number, in[k]->data, static_cast<size_t>(size_of(in[k]->dtype)));
      continue;
    }
    operand.data = in[k]->data;
    for (int d = 0; d < walk.rank; ++d) operand.strides[d] = walk.strides[k + 1][d];
  }
  return e;
}

}  // namespace clika_cuda
