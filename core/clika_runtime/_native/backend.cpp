#include "backend.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>

namespace clika {

namespace {

std::deque<Backend>& registry() {
  static auto* backends = new std::deque<Backend>();  // lives as long as the process
  return *backends;
}
std::mutex registry_mutex;

// Memory a kernel asks for while it runs: a stack of chunks per thread, given back when the kernel returns.
class Scratch {
 public:
  struct Mark {
    size_t chunk, used;
  };
  Mark mark() const { return {current_, chunks_.empty() ? 0 : chunks_[current_].used}; }
  void* take(size_t bytes) {
    bytes = (bytes + 63) & ~size_t{63};
    while (current_ < chunks_.size()) {
      Chunk& chunk = chunks_[current_];
      if (chunk.used + bytes <= chunk.size) {
        void* data = static_cast<char*>(chunk.data) + chunk.used;
        chunk.used += bytes;
        return data;
      }
      if (current_ + 1 == chunks_.size()) break;
      ++current_;
      chunks_[current_].used = 0;
    }
    const size_t size = bytes > kChunk ? bytes : kChunk;
    void* data = host_allocator().allocate(size);
    if (data == nullptr) return nullptr;
    chunks_.push_back({data, size, bytes});
    current_ = chunks_.size() - 1;
    return data;
  }
  void reset(Mark mark) {
    if (chunks_.empty()) return;
    current_ = mark.chunk;
    chunks_[current_].used = mark.used;
    // Large chunks beyond the first go back: a rare big kernel must not hold memory for good.
    while (chunks_.size() > current_ + 1 && chunks_.size() > 1 && chunks_.back().size > kChunk) {
      host_allocator().release(chunks_.back().data, chunks_.back().size);
      chunks_.pop_back();
    }
  }
  ~Scratch() {
    for (Chunk& chunk : chunks_) host_allocator().release(chunk.data, chunk.size);
  }

 private:
  static constexpr size_t kChunk = size_t{1} << 18;
  struct Chunk {
    void* data;
    size_t size, used;
  };
  std::vector<Chunk> chunks_;
  size_t current_ = 0;
};

thread_local Scratch scratch;

CallContext* context_of(const clika_call* call) { return static_cast<CallContext*>(call->context); }

void core_parallel_for(const clika_call*, int64_t n, int64_t grain, clika_range_fn fn, void* arg) {
  Pool::get().parallel_for(n, grain, fn, arg);
}
int32_t core_num_threads() { return Pool::get().size(); }

int32_t core_set_error(const clika_call* call, int32_t status, const char* code, const char* message) {
  CallContext* context = context_of(call);
  if (!context->error) context->error = make_error(status, code ? code : "", message ? message : "");
  return status;
}

void* core_scratch(const clika_call* call, size_t bytes) {
  void* data = scratch.take(bytes);
  if (data == nullptr) {
    core_set_error(call, CLIKA_UNAVAILABLE, "OUT_OF_MEMORY",
                   ("scratch: cannot allocate " + std::to_string(bytes) + " bytes on the host").c_str());
  }
  return data;
}

int32_t core_allocate_output(const clika_call* call, uint32_t i, int32_t rank, const int64_t* shape) {
  CallContext* context = context_of(call);
  if (context->allocate_output == nullptr) {
    return core_set_error(call, CLIKA_UNSUPPORTED, "NOT_IMPLEMENTED_FOR_PARAM",
                          "an output whose shape depends on data is not served here");
  }
  return context->allocate_output(context, i, rank, shape);
}

int32_t core_cancelled(const clika_call*) {
  const Lane* lane = Lane::running();
  return lane != nullptr && lane->cancelled() ? 1 : 0;
}

constexpr const char* kDebugVariable = "CLIKA_RT_DEBUG";

void core_log(int32_t level, const char* message) {
  static const char* const asked = std::getenv(kDebugVariable);
  static const bool verbose = asked != nullptr && std::strcmp(asked, "1") == 0;
  static const char* names[] = {"debug", "info", "warning", "error"};
  if (level < 2 && !verbose) return;
  std::fprintf(stderr, "[ClikaRT] [%s] %s\n", names[level < 0 ? 0 : level > 3 ? 3 : level], message);
}

void* core_device_scratch(const clika_call* call, size_t bytes) {
  CallContext* context = context_of(call);
  if (bytes == 0) bytes = 1;
  void* data = context->pool != nullptr ? context->pool->take(bytes) : device_allocator(context->device).allocate(bytes);
  if (data == nullptr) {
    if (!context->error) context->error = out_of_memory("scratch", static_cast<int64_t>(bytes), context->device);
    return nullptr;
  }
  if (context->pool == nullptr) context->scratch.emplace_back(data, bytes);
  return data;
}

const clika_core kCore = {sizeof(clika_core),   CLIKA_PLUGIN_ABI,     core_parallel_for,
                          core_num_threads,     core_scratch,         core_allocate_output,
                          core_set_error,       core_cancelled,       core_log,
                          core_device_scratch};

bool admits(const clika_kernel& kernel, size_t slot, const clika_value& value) {
  const size_t i = slot < 7 ? slot : 7;
  if (value.kind == CLIKA_SEQUENCE) {
    for (int32_t k = 0; k < value.n_items; ++k) {
      if (!admits(kernel, slot, value.items[k])) return false;
    }
    return true;
  }
  if (value.kind != CLIKA_TENSOR) return true;
  // No mask: dense tensors as published. A mask: those schemes, in any layout of the backend.
  const uint64_t schemes = kernel.input_schemes[i];
  if (schemes == 0 ? value.scheme != CLIKA_DENSE || value.layout != CLIKA_LAYOUT_PUBLISHED
                   : (schemes & CLIKA_BIT(value.scheme)) == 0) {
    return false;
  }
  return value.scheme != CLIKA_DENSE || (kernel.input_dtypes[i] & CLIKA_BIT(value.dtype)) != 0;
}

}  // namespace

Allocator& Backend::allocator(int32_t index) {
  if (table == nullptr || table->allocate == nullptr) return host_allocator();
  std::lock_guard<std::mutex> lock(registry_mutex);
  const bool trims = has(offsetof(clika_backend, trim), &clika_backend::trim);
  while (static_cast<int32_t>(allocators.size()) <= index) {
    allocators.push_back(make_pooled_allocator(table->allocate, table->release, trims ? table->trim : nullptr,
                                               static_cast<int32_t>(allocators.size())));
  }
  return *allocators[index];
}

ErrorPtr check_environment() {
  const char* debug = std::getenv(kDebugVariable);
  if (debug != nullptr && *debug != '\0' && std::strcmp(debug, "0") != 0 && std::strcmp(debug, "1") != 0) {
    return make_error(CLIKA_INVALID_ARGUMENT, "INVALID_ARGUMENT",
                      std::string(kDebugVariable) + " is '" + debug + "'; it takes 0 or 1");
  }
  return Pool::check_environment();
}

int32_t register_backend(const std::string& name, const clika_backend* table, std::string* why) {
  if (table != nullptr) {
    if (table->abi != CLIKA_PLUGIN_ABI) {
      *why = "backend '" + name + "' was built for plugin ABI " + std::to_string(table->abi) +
             ", this core has " + std::to_string(CLIKA_PLUGIN_ABI);
      return -1;
    }
    if (table->size < offsetof(clika_backend, device_count)) {
      *why = "backend '" + name + "' gives a table of " + std::to_string(table->size) + " bytes, too short";
      return -1;
    }
    if ((table->n_kernels != 0 && table->kernels == nullptr) || table->kernel_size < sizeof(clika_kernel)) {
      *why = "backend '" + name + "' gives no valid kernel table";
      return -1;
    }
    Backend given;
    given.table = table;
    if (given.on_device() && (table->allocate == nullptr || table->release == nullptr || table->copy == nullptr ||
                              table->stream_synchronize == nullptr)) {
      *why = "backend '" + name + "' has a default_stream and lacks one of allocate, release, copy, stream_synchronize";
      return -1;
    }
  }
  std::lock_guard<std::mutex> lock(registry_mutex);
  for (const Backend& known : registry()) {
    if (known.name == name) {
      *why = "backend '" + name + "' is registered already";
      return -1;
    }
  }
  if (registry().size() >= 127) {
    *why = "more than 127 backends";
    return -1;
  }
  // The host's backend is id 0 whatever the order of registration.
  if (registry().empty() && name != "cpu") {
    registry().emplace_back();
    registry().back().name = "";
  }
  Backend* target = nullptr;
  if (name == "cpu" && !registry().empty() && registry().front().name.empty()) {
    target = &registry().front();
  } else {
    registry().emplace_back();
    target = &registry().back();
    target->id = static_cast<int32_t>(registry().size()) - 1;
  }
  if (table != nullptr) {
    const char* base = reinterpret_cast<const char*>(table->kernels);
    for (uint32_t i = 0; i < table->n_kernels; ++i) {
      const auto* kernel =
          reinterpret_cast<const clika_kernel*>(base + static_cast<size_t>(i) * table->kernel_size);
      target->kernels[kernel->op].push_back(kernel);
    }
  }
  target->table = table;
  target->name = name;
  return target->id;
}

Backend* backend_by_id(int32_t id) noexcept {
  if (id < 0 || id >= static_cast<int32_t>(registry().size()) || registry()[id].name.empty()) return nullptr;
  return &registry()[id];
}

Backend* backend_by_name(const std::string& name) noexcept {
  for (Backend& backend : registry()) {
    if (backend.name == name) return &backend;
  }
  return nullptr;
}

Allocator& device_allocator(int32_t device) {
  Backend* backend = backend_by_id(device_backend(device));
  return backend == nullptr ? host_allocator() : backend->allocator(device_index(device));
}

// ---------------------------------------------------------------- device backends
Backend* device_backend_of(int32_t device) noexcept {
  if (device < 256) return nullptr;
  Backend* backend = backend_by_id(device_backend(device));
  return backend != nullptr && backend->on_device() ? backend : nullptr;
}

Backend* graph_backend_of(int32_t device) noexcept {
  Backend* backend = device_backend_of(device);
  const bool records = backend != nullptr && backend->has(offsetof(clika_backend, capture_begin), &clika_backend::capture_begin) &&
                       backend->has(offsetof(clika_backend, capture_end), &clika_backend::capture_end) &&
                       backend->has(offsetof(clika_backend, graph_launch), &clika_backend::graph_launch) &&
                       backend->has(offsetof(clika_backend, graph_destroy), &clika_backend::graph_destroy);
  return records ? backend : nullptr;
}

ErrorPtr Backend::failure(int32_t status, const char* operation) const {
  char code[64] = "", message[4096] = "";
  if (has(offsetof(clika_backend, failure), &clika_backend::failure)) {
    const int32_t known = table->failure(code, sizeof(code), message, sizeof(message));
    if (known != CLIKA_OK) status = known;
  }
  if (message[0] == '\0') {
    return make_error(status == CLIKA_OK ? CLIKA_INTERNAL : status, "INTERNAL",
                      std::string(operation) + ": backend '" + name + "' failed with status " + std::to_string(status));
  }
  return make_error(status, code, message);
}

clika_stream device_stream(int32_t device, ErrorPtr* error) {
  Backend* backend = device_backend_of(device);
  clika_stream stream = backend->table->default_stream(device_index(device));
  if (stream == nullptr) *error = backend->failure(CLIKA_INTERNAL, "stream");
  return stream;
}

ErrorPtr synchronize_device(int32_t device) {
  Backend* backend = device_backend_of(device);
  if (backend == nullptr) return nullptr;
  ErrorPtr error;
  clika_stream stream = device_stream(device, &error);
  if (stream == nullptr) return error;
  const int32_t status = backend->table->stream_synchronize(stream);
  return status == CLIKA_OK ? nullptr : backend->failure(status, "synchronize");
}

namespace {
ErrorPtr copy_bytes(int32_t device, void* to, const void* from, size_t bytes, int32_t kind) {
  if (bytes == 0) return nullptr;
  Backend* backend = device_backend_of(device);
  if (backend == nullptr) {
    std::memcpy(to, from, bytes);
    return nullptr;
  }
  const int32_t status = backend->table->copy(device_index(device), to, from, bytes, kind, nullptr);
  return status == CLIKA_OK ? nullptr : backend->failure(status, "copy");
}
}  // namespace
ErrorPtr copy_in(int32_t device, void* to, const void* from, size_t bytes) {
  return copy_bytes(device, to, from, bytes, 0);
}
ErrorPtr copy_out(int32_t device, void* to, const void* from, size_t bytes) {
  return copy_bytes(device, to, from, bytes, 1);
}
ErrorPtr copy_within(int32_t device, void* to, const void* from, size_t bytes) {
  return copy_bytes(device, to, from, bytes, 2);
}

ErrorPtr memory_info(int32_t device, int64_t* free_bytes, int64_t* total_bytes, bool* known) {
  const Backend* backend = device_backend_of(device);
  *known = backend != nullptr && backend->table->memory_info != nullptr;
  if (!*known) return nullptr;
  const int32_t status = backend->table->memory_info(device_index(device), free_bytes, total_bytes);
  return status == CLIKA_OK ? nullptr : backend->failure(status, "memory_info");
}

void* mirror_allocate(int32_t device, size_t bytes, bool* direct) {
  Backend* backend = device_backend_of(device);
  *direct = *direct && backend != nullptr && backend->has(offsetof(clika_backend, host_allocate), &clika_backend::host_allocate) &&
            backend->has(offsetof(clika_backend, host_release), &clika_backend::host_release);
  if (*direct) {
    if (void* data = backend->table->host_allocate(device_index(device), bytes)) return data;
    *direct = false;  // little of it may be left; ordinary memory serves
  }
  return host_allocator().allocate(bytes);
}

void mirror_release(int32_t device, void* data, size_t bytes, bool direct) {
  if (direct) {
    device_backend_of(device)->table->host_release(device_index(device), data, bytes);
  } else {
    host_allocator().release(data, bytes);
  }
}

ErrorPtr mirror_send(int32_t device, void* to, const void* from, size_t bytes, bool direct) {
  return copy_bytes(device, to, from, bytes, direct ? 3 : 0);
}

std::string device_text(int32_t device) {
  if (device < 256) return device < 0 ? "meta" : "cpu";
  const Backend* backend = backend_by_id(device_backend(device));
  return (backend == nullptr ? "?" : backend->name) + ":" + std::to_string(device_index(device));
}

ErrorPtr out_of_memory(const std::string& operation, int64_t bytes, int32_t device) {
  const std::string prefix = operation.empty() ? "" : operation + ": ";
  const Backend* backend = device_backend_of(device);
  if (backend != nullptr) {
    // A device that cannot be used has no memory to give either: that is the reason then.
    ErrorPtr unusable;
    int64_t free = 0, total = 0;
    if (device_stream(device, &unusable) == nullptr) return unusable;
    if (backend->table->memory_info != nullptr) {
      const int32_t status = backend->table->memory_info(device_index(device), &free, &total);
      if (status != CLIKA_OK) return backend->failure(status, operation.empty() ? "allocate" : operation.c_str());
    }
    const MemoryStats held = device_allocator(device).stats();
    return make_error(CLIKA_INTERNAL, "OUT_OF_MEMORY",
                      prefix + "cannot allocate " + std::to_string(bytes) + " bytes on " + device_text(device) + ": " +
                          std::to_string(free) + " of " + std::to_string(total) + " bytes are free, tensors of this process hold " +
                          std::to_string(held.active_bytes) + " and its pool " + std::to_string(held.cached_bytes) +
                          "; drop tensors, or use a smaller batch or a shorter context");
  }
  return make_error(CLIKA_INTERNAL, "OUT_OF_MEMORY",
                    prefix + "cannot allocate " + std::to_string(bytes) + " bytes on " + device_text(device) +
                        "; free tensors that are no longer needed or use a smaller batch");
}

const clika_kernel* choose_kernel(const Backend& backend, const std::string& op, const clika_value* inputs,
                                  size_t n_inputs, const clika_value* outputs, size_t n_outputs,
                                  std::string* why) {
  const auto found = backend.kernels.find(op);
  if (found == backend.kernels.end()) {
    *why = "backend '" + backend.name + "' has no kernel of this operator";
    return nullptr;
  }
  const clika_value* ranked = nullptr;
  for (size_t i = 0; i < n_inputs && ranked == nullptr; ++i) {
    if (inputs[i].kind == CLIKA_TENSOR) ranked = &inputs[i];
    if (inputs[i].kind == CLIKA_SEQUENCE && inputs[i].n_items > 0) ranked = &inputs[i].items[0];
  }
  if (ranked == nullptr && n_outputs != 0) ranked = &outputs[0];
  for (const clika_kernel* kernel : found->second) {
    bool fits = true;
    for (size_t i = 0; i < n_inputs && fits; ++i) fits = admits(*kernel, i, inputs[i]);
    for (size_t i = 0; i < n_outputs && fits; ++i) {
      fits = i > 0 || kernel->output_dtypes == 0 || (kernel->output_dtypes & CLIKA_BIT(outputs[i].dtype));
    }
    if (fits && ranked != nullptr && kernel->max_rank > 0) {
      fits = ranked->rank >= kernel->min_rank && ranked->rank <= kernel->max_rank;
    }
    if (fits) return kernel;
  }
  *why = "no kernel of backend '" + backend.name + "' serves these dtypes, schemes and ranks";
  return nullptr;
}

void Attrs::add_none() { items.push_back({CLIKA_ATTR_NONE, 0, {0}}); }
void Attrs::add_int(int64_t value) {
  clika_attr attr{CLIKA_ATTR_INT, 1, {0}};
  attr.v.i = value;
  items.push_back(attr);
}
void Attrs::add_float(double value) {
  clika_attr attr{CLIKA_ATTR_FLOAT, 1, {0}};
  attr.v.f = value;
  items.push_back(attr);
}
void Attrs::add_ints(std::vector<int64_t> values) {
  ints.push_back(std::make_unique<std::vector<int64_t>>(std::move(values)));
  clika_attr attr{CLIKA_ATTR_INTS, static_cast<int32_t>(ints.back()->size()), {0}};
  attr.v.ints = ints.back()->data();
  items.push_back(attr);
}
void Attrs::add_floats(std::vector<double> values) {
  floats.push_back(std::make_unique<std::vector<double>>(std::move(values)));
  clika_attr attr{CLIKA_ATTR_FLOATS, static_cast<int32_t>(floats.back()->size()), {0}};
  attr.v.floats = floats.back()->data();
  items.push_back(attr);
}
void Attrs::add_text(std::string text) {
  texts.push_back(std::make_unique<std::string>(std::move(text)));
  clika_attr attr{CLIKA_ATTR_STRING, static_cast<int32_t>(texts.back()->size()), {0}};
  attr.v.text = texts.back()->c_str();
  items.push_back(attr);
}

const clika_core* core_table() noexcept { return &kCore; }

ErrorPtr run_kernel(const clika_kernel& kernel, clika_call& call, CallContext& context) noexcept {
  call.size = sizeof(clika_call);
  call.core = &kCore;
  call.context = &context;
  call.workspace = nullptr;
  call.workspace_bytes = 0;
  call.device = static_cast<uint32_t>(device_index(context.device));
  Backend* const device = device_backend_of(context.device);
  const Scratch::Mark mark = scratch.mark();
  int32_t status = CLIKA_OK;
  if (device != nullptr) {
    call.stream = context.stream != nullptr ? context.stream : device_stream(context.device, &context.error);
    if (call.stream == nullptr) status = CLIKA_INTERNAL;
  }
  if (status == CLIKA_OK && kernel.workspace != nullptr) {
    call.workspace_bytes = kernel.workspace(&call);
    if (call.workspace_bytes != 0) {
      call.workspace = device == nullptr ? core_scratch(&call, call.workspace_bytes)
                                         : core_device_scratch(&call, call.workspace_bytes);
      if (call.workspace == nullptr) status = CLIKA_UNAVAILABLE;
    }
  }
  if (status == CLIKA_OK) status = kernel.run(&call);
  scratch.reset(mark);
  // What is on the stream comes before whatever gets this memory next.
  for (const auto& [data, bytes] : context.scratch) device_allocator(context.device).release(data, bytes);
  context.scratch.clear();
  if (context.pool != nullptr) context.pool->settle();
  if (ErrorPtr thrown = Pool::take_failure(); thrown && !context.error) context.error = thrown;
  if (status != CLIKA_OK && !context.error) {
    context.error = make_error(CLIKA_INTERNAL, "INTERNAL",
                               std::string(kernel.name) + ": the kernel failed with status " +
                                   std::to_string(status) + " and gave no reason");
  }
  return context.error;
}

bool is_contiguous(int32_t rank, const int64_t* shape, const int64_t* strides) noexcept {
  if (strides == nullptr) return true;
  int64_t expected = 1;
  for (int32_t i = rank - 1; i >= 0; --i) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

int64_t count_elements(int32_t rank, const int64_t* shape) noexcept {
  int64_t n = 1;
  for (int32_t i = 0; i < rank; ++i) n *= shape[i];
  return n;
}

int32_t dtype_bits(int32_t dtype) noexcept {
  static const int8_t bits[CLIKA_DTYPE_COUNT] = {0, 8,  2,  4,  8,  16, 32, 64, 1, 2, 4, 8, 16, 32,
                                                 64, 16, 16, 32, 64, 8,  8,  8,  8, 8, 6, 6, 4};
  return dtype > 0 && dtype < CLIKA_DTYPE_COUNT ? bits[dtype] : 0;
}

int64_t dense_bytes(int32_t rank, const int64_t* shape, int32_t dtype) noexcept {
  return (count_elements(rank, shape) * dtype_bits(dtype) + 7) / 8;
}

}  // namespace clika
