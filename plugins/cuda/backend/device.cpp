#include "device.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>
#include <set>

#if !defined(_WIN32)
#include <pthread.h>
#endif

namespace clika_cuda {

namespace {

struct Failure {
  int32_t status = CLIKA_OK;
  std::string code, message;
};
thread_local Failure thread_failure;

void put(char* out, size_t bytes, const std::string& text) {
  if (bytes == 0) return;
  const size_t n = std::min(bytes - 1, text.size());
  std::memcpy(out, text.data(), n);
  out[n] = '\0';
}

// The driver does not follow a process into its forked children.
std::atomic<bool> forked{false};

// Results after which a context serves nothing any more: a kernel went wrong, or the device did.
bool is_fault(Result result) {
  switch (result) {
    case 214:  // uncorrectable memory error
    case 220:  // NVLink
    case 226:  // tensor memory leak
    case 700:  // illegal address
    case 702:  // timeout of a launch
    case 709:  // context destroyed
    case 710:  // assertion
    case 714:  // hardware stack
    case 715:  // illegal instruction
    case 716:  // misaligned address
    case 717:  // address space
    case 718:  // program counter
    case 719:  // launch failed
    case 999:  // unknown
      return true;
    default:
      return false;
  }
}

}  // namespace

int32_t fail(int32_t status, const char* code, const std::string& message) {
  thread_failure = {status, code, message};
  return status;
}

int32_t last_failure(char* code, size_t code_bytes, char* message, size_t message_bytes) {
  put(code, code_bytes, thread_failure.code);
  put(message, message_bytes, thread_failure.message);
  return thread_failure.status;
}

// ---------------------------------------------------------------- context of the thread
Current::Current(const Device& device) : cuda_(device.cuda()) {
  Context now = nullptr;
  if (cuda_.context_get(&now) == kSuccess && now == device.context()) return;
  pushed_ = cuda_.context_push(device.context()) == kSuccess;
}

Current::~Current() {
  Context left = nullptr;
  if (pushed_) cuda_.context_pop(&left);
}

// ---------------------------------------------------------------- devices
int32_t device_count() {
  const Driver* cuda = driver(nullptr);
  int count = 0;
  if (cuda == nullptr || cuda->device_count(&count) != kSuccess) return 0;
  count = std::min(count, kMaxDevices);
  // Numbers are the driver's, so that cuda:1 is the same GPU for every library; one that is too old is refused when it
  // is used. Where all are, there is none.
  for (int i = 0; i < count; ++i) {
    int handle = 0, major = 0;
    if (cuda->device_get(&handle, i) == kSuccess && cuda->device_attribute(&major, kMajor, handle) == kSuccess &&
        major * 10 >= kOldestCapability) {
      return count;
    }
  }
  return 0;
}

int32_t device_properties(int32_t index, clika_device_properties* out) {
  std::string why;
  const Driver* cuda = driver(&why);
  if (cuda == nullptr) return fail(CLIKA_INTERNAL, "BACKEND_DRIVER_ABSENT", why);
  int handle = 0;
  if (const Result result = cuda->device_get(&handle, index); result != kSuccess) {
    return fail(CLIKA_INTERNAL, "BACKEND_UNAVAILABLE", "cuda:" + std::to_string(index) + ": " + result_text(result));
  }
  const auto ask = [&](int attribute) {
    int value = 0;
    cuda->device_attribute(&value, attribute, handle);
    return value;
  };
  clika_device_properties facts{};
  facts.size = out->size;
  cuda->device_name(facts.name, sizeof(facts.name), handle);
  facts.name[sizeof(facts.name) - 1] = '\0';
  put(facts.driver, sizeof(facts.driver), "CUDA " + version_text(cuda->version));
  if (const Nvrtc* compiler = nvrtc(nullptr)) {
    put(facts.runtime, sizeof(facts.runtime),
        "NVRTC " + std::to_string(compiler->major_version) + "." + std::to_string(compiler->minor_version));
  }
  size_t memory = 0;
  cuda->device_memory(&memory, handle);
  facts.memory_bytes = static_cast<int64_t>(memory);
  facts.units = ask(kMultiprocessors);
  facts.compute_capability = ask(kMajor) * 10 + ask(kMinor);
  facts.warp = ask(kWarpSize);
  facts.max_threads_per_block = ask(kMaxThreadsPerBlock);
  facts.shared_memory_bytes = ask(kSharedMemoryOptin);
  facts.tensor_cores = facts.compute_capability >= 70;
  facts.fp16 = facts.compute_capability >= 53;
  facts.bf16 = facts.compute_capability >= 80;
  facts.fp8_e4m3 = facts.compute_capability >= 89;
  std::snprintf(facts.isa, sizeof(facts.isa), "sm_%d", facts.compute_capability);
  std::memcpy(out, &facts, std::min<size_t>(out->size, sizeof(facts)));
  return CLIKA_OK;
}

Device* Device::get(int32_t index) {
  // Opened once, never closed: buffers may outlive every other static.
  struct Slot {
    std::mutex mutex;
    std::atomic<Device*> device{nullptr};
  };
  static auto* slots = new Slot[kMaxDevices];
  if (index < 0 || index >= kMaxDevices) {
    fail(CLIKA_INTERNAL, "BACKEND_UNAVAILABLE", "there is no cuda:" + std::to_string(index));
    return nullptr;
  }
  Slot& slot = slots[index];
  if (Device* known = slot.device.load(std::memory_order_acquire)) return known;
  std::lock_guard<std::mutex> lock(slot.mutex);
  if (Device* known = slot.device.load(std::memory_order_acquire)) return known;
  std::unique_ptr<Device> made(new Device());
  if (made->open(index) != CLIKA_OK) return nullptr;
  slot.device.store(made.get(), std::memory_order_release);
  return made.release();
}

int32_t Device::open(int32_t index) {
  std::string why;
  cuda_ = driver(&why);
  if (cuda_ == nullptr) return fail(CLIKA_INTERNAL, "BACKEND_DRIVER_ABSENT", why);
  index_ = index;
#if !defined(_WIN32)
  static const int watched = pthread_atfork(nullptr, nullptr, [] { forked.store(true); });
  (void)watched;
#endif
  const auto refuse = [&](Result result, const char* what) {
    const bool memory = result == kOutOfMemory;
    return fail(CLIKA_INTERNAL, memory ? "OUT_OF_MEMORY" : "BACKEND_UNAVAILABLE",
                name() + " cannot be opened: " + what + ": " + result_text(result));
  };
  if (const Result r = cuda_->device_get(&handle_, index)) return refuse(r, "cuDeviceGet");
  const auto ask = [&](int attribute) {
    int value = 0;
    cuda_->device_attribute(&value, attribute, handle_);
    return value;
  };
  capability_ = ask(kMajor) * 10 + ask(kMinor);
  multiprocessors_ = ask(kMultiprocessors);
  overlaps_ = capability_ >= 90;
  shared_memory_ = ask(kSharedMemoryOptin);
  if (capability_ < kOldestCapability) {
    return fail(CLIKA_UNSUPPORTED, "NOT_IMPLEMENTED_FOR_DEVICE",
                name() + " has compute capability " + std::to_string(capability_ / 10) + "." +
                    std::to_string(capability_ % 10) + "; the kernels need 8.0 or newer");
  }
  // The context that every library of the process shares.
  if (const Result r = cuda_->primary_retain(&context_, handle_)) return refuse(r, "cuDevicePrimaryCtxRetain");
  const Current current(*this);
  if (const Result r = cuda_->stream_create(&main_.stream, kStreamNonBlocking)) return refuse(r, "cuStreamCreate");
  main_.device = this;
  void* report = nullptr;
  if (const Result r = cuda_->host_allocate(&report, sizeof(clika_device::Report), 0)) return refuse(r, "cuMemHostAlloc");
  report_ = new (report) clika_device::Report{};
  if (ask(kMemoryPools) != 0) {
    PoolProperties properties;
    properties.device = handle_;
    uint64_t keep = ~uint64_t{0};  // the driver gives nothing back by itself: trim does
    if (cuda_->pool_create(&pool_, &properties) != kSuccess) pool_ = nullptr;
    if (pool_ != nullptr) cuda_->pool_set(pool_, kPoolReleaseThreshold, &keep);
  }
  return CLIKA_OK;
}

// ---------------------------------------------------------------- faults
std::string Device::recent() const {
  // Operators since the last synchronization, oldest first; a name that repeats stands once.
  const uint64_t end = launched_.load();
  uint64_t begin = settled_.load();
  if (end - begin > kRecent) begin = end - kRecent;
  std::vector<std::string> names;
  for (uint64_t i = begin; i < end; ++i) {
    const char* op = recent_[i % kRecent].load();
    if (op == nullptr) continue;
    names.erase(std::remove(names.begin(), names.end(), op), names.end());
    names.emplace_back(op);
  }
  std::string text;
  for (const std::string& one : names) text += (text.empty() ? "" : ", ") + one;
  if (names.size() < 2) return text;
  return "one of " + text + " (run under clika_runtime.synchronous() to know which)";
}

// After everything that was launched has run: what a kernel said of the values it was given, once.
int32_t Device::heed_report() {
  if (*static_cast<volatile clika_device::u32*>(&report_->code) == clika_device::kNothing) return CLIKA_OK;
  std::lock_guard<std::mutex> lock(report_mutex_);
  const clika_device::Report found = *report_;
  if (found.code == clika_device::kNothing) return CLIKA_OK;
  report_->code = clika_device::kNothing;
  report_->claimed = 0;
  const std::string op = reinterpret_cast<const char*>(static_cast<uintptr_t>(found.op));
  if (found.code == clika_device::kZeroDivisor) {
    return fail(CLIKA_INVALID_ARGUMENT, "INVALID_ARGUMENT",
                op + ": integer division by zero: the divisor holds a 0; convert the operands to a floating-point dtype or "
                     "replace the zeros");
  }
  if (found.code == clika_device::kRefusedValue) {
    return fail(CLIKA_INVALID_ARGUMENT, "INVALID_ARGUMENT",
                op + ": an operand holds a value that the operator does not take (its text says which it takes)");
  }
  return fail(CLIKA_INVALID_ARGUMENT, "INVALID_ARGUMENT",
              op + ": index " + std::to_string(found.value) + " is outside 0 .. " + std::to_string(found.size - 1));
}

int32_t Device::usable() {
  if (forked.load(std::memory_order_relaxed)) {
    return fail(CLIKA_UNAVAILABLE, "UNAVAILABLE",
                name() + " cannot be used in a process that was made by fork after the device was opened; start workers "
                         "with the method 'spawn'");
  }
  if (!faulted_.load(std::memory_order_acquire)) return CLIKA_OK;
  std::lock_guard<std::mutex> lock(fault_mutex_);
  return fail(CLIKA_INTERNAL, "BACKEND_UNAVAILABLE",
              name() + " is out of use in this process: " + fault_ + "; start the program again");
}

int32_t Device::check(Result result, const char* what) {
  if (result == kSuccess) return CLIKA_OK;
  if (!is_fault(result)) {
    if (result == kOutOfMemory) {
      return fail(CLIKA_INTERNAL, "OUT_OF_MEMORY", std::string(what) + ": no memory on " + name());
    }
    return fail(CLIKA_INTERNAL, "INTERNAL", std::string(what) + " failed on " + name() + ": " + result_text(result));
  }
  std::unique_lock<std::mutex> lock(fault_mutex_);
  if (faulted_.load(std::memory_order_relaxed)) {
    lock.unlock();
    return usable();
  }
  const std::string who = recent();
  fault_ = (who.empty() ? std::string(what) : who) + " failed with " + result_text(result);
  faulted_.store(true, std::memory_order_release);
  return fail(CLIKA_INTERNAL, "INTERNAL", fault_ + " on " + name() + "; the device is out of use in this process");
}

int32_t Device::check_pinned(Result result, size_t bytes) {
  if (result != kOutOfMemory) return check(result, "pinned memory of the host");
  return fail(CLIKA_INTERNAL, "OUT_OF_MEMORY",
              "cannot pin " + std::to_string(bytes) + " bytes of the host's memory for " + name() +
                  ": the system has no more to pin; free memory, or raise the limit of locked memory");
}

// ---------------------------------------------------------------- memory
void* Device::allocate(size_t bytes) {
  if (usable() != CLIKA_OK) return nullptr;
  const Current current(*this);
  Pointer data = 0;
  const auto ask = [&] {
    return pool_ != nullptr ? cuda_->pool_allocate(&data, bytes, pool_, main_.stream) : cuda_->allocate(&data, bytes);
  };
  Result result = ask();
  if (result == kOutOfMemory && pool_ != nullptr) {
    // What was released is free once the queue has passed it.
    if (cuda_->stream_synchronize(main_.stream) == kSuccess) cuda_->pool_trim(pool_, 0);
    result = ask();
  }
  if (result == kSuccess) return reinterpret_cast<void*>(static_cast<uintptr_t>(data));
  check(result, "allocate");
  return nullptr;
}

void Device::release(void* data) {
  // The context is lost, and its memory with it.
  if (faulted_.load(std::memory_order_acquire) || forked.load(std::memory_order_relaxed)) return;
  const Current current(*this);
  const auto pointer = static_cast<Pointer>(reinterpret_cast<uintptr_t>(data));
  if (pool_ != nullptr) {
    check(cuda_->pool_release(pointer, main_.stream), "release");
  } else {
    check(cuda_->release(pointer), "release");
  }
}

void Device::trim() {
  if (pool_ == nullptr || usable() != CLIKA_OK) return;
  const Current current(*this);
  if (check(cuda_->stream_synchronize(main_.stream), "empty_cache") == CLIKA_OK) cuda_->pool_trim(pool_, 0);
}

int32_t Device::memory_info(int64_t* free_bytes, int64_t* total_bytes) {
  if (const int32_t status = usable()) return status;
  const Current current(*this);
  size_t free = 0, total = 0;
  if (const int32_t status = check(cuda_->memory_info(&free, &total), "memory_info")) return status;
  *free_bytes = static_cast<int64_t>(free);
  *total_bytes = static_cast<int64_t>(total);
  return CLIKA_OK;
}

// ---------------------------------------------------------------- order
int32_t Device::synchronize(Queue& queue) {
  if (const int32_t status = usable()) return status;
  const uint64_t launched = launched_.load();
  const Current current(*this);
  const int32_t status = check(cuda_->stream_synchronize(queue.stream), "synchronize");
  if (status != CLIKA_OK || &queue != &main_) return status;
  settled_.store(launched);
  return heed_report();
}

int32_t Device::order(Stream before, Stream after) {
  if (const int32_t status = usable()) return status;
  const Current current(*this);
  DriverEvent event = nullptr;
  if (const int32_t status = check(cuda_->event_create(&event, kEventDisableTiming), "event")) return status;
  int32_t status = check(cuda_->event_record(event, before), "event");
  if (status == CLIKA_OK) status = check(cuda_->stream_wait(after, event, 0), "event");
  cuda_->event_destroy(event);  // the driver keeps it until it is passed
  return status;
}

// ---------------------------------------------------------------- graphs
void Queue::note(const char* op) {
  if (records) {
    ops.push_back(op);
  } else {
    device->note(op);
  }
}

bool Queue::in_order() const { return records || this == &device->queue(); }

namespace {
// A name that lives as long as the process: the operators of a graph, each once.
const char* name_of(const std::vector<const char*>& ops) {
  std::vector<std::string> seen;
  std::string text;
  for (const char* op : ops) {
    if (std::find(seen.begin(), seen.end(), op) != seen.end()) continue;
    text += (seen.empty() ? "a graph of " : ", ") + std::string(op);
    seen.emplace_back(op);
  }
  static std::mutex mutex;
  static auto* names = new std::set<std::string>();
  std::lock_guard<std::mutex> lock(mutex);
  return names->insert(text).first->c_str();
}
}  // namespace

Queue* Device::begin_capture() {
  if (usable() != CLIKA_OK) return nullptr;
  const Current current(*this);
  // A stream of its own: what other threads put on the default stream meanwhile is no part of the graph.
  Stream stream = nullptr;
  if (check(cuda_->stream_create(&stream, kStreamNonBlocking), "graph") != CLIKA_OK) return nullptr;
  if (check(cuda_->capture_begin(stream, kCaptureThreadLocal), "graph") != CLIKA_OK) {
    cuda_->stream_destroy(stream);
    return nullptr;
  }
  return new Queue{this, stream, true, {}};
}

Graph* Device::end_capture(Queue* queue) {
  const std::unique_ptr<Queue> owned(queue);
  const Current current(*this);
  DriverGraph recorded = nullptr;
  int32_t status = check(cuda_->capture_end(queue->stream, &recorded), "graph");
  cuda_->stream_destroy(queue->stream);
  if (status != CLIKA_OK || recorded == nullptr) return nullptr;
  Executable executable = nullptr;
  status = check(cuda_->graph_instantiate(&executable, recorded, 0), "graph");
  cuda_->graph_destroy(recorded);
  if (status != CLIKA_OK) return nullptr;
  return new Graph{this, executable, name_of(queue->ops)};
}

int32_t Device::launch(const Graph& graph, Queue& queue) {
  if (const int32_t status = usable()) return status;
  const Current current(*this);
  queue.note(graph.name);
  return check(cuda_->graph_launch(graph.executable, queue.stream), graph.name);
}

void Device::destroy(Graph* graph) {
  const std::unique_ptr<Graph> owned(graph);
  if (faulted_.load(std::memory_order_acquire) || forked.load(std::memory_order_relaxed)) return;
  const Current current(*this);
  // Its last run has to be over; this is rare.
  if (cuda_->stream_synchronize(main_.stream) == kSuccess) cuda_->executable_destroy(graph->executable);
}

void* Device::allocate_host(size_t bytes) {
  if (usable() != CLIKA_OK) return nullptr;
  const Current current(*this);
  void* data = nullptr;
  return check_pinned(cuda_->host_allocate(&data, bytes, 0), bytes) == CLIKA_OK ? data : nullptr;
}

void Device::release_host(void* data) {
  if (faulted_.load(std::memory_order_acquire) || forked.load(std::memory_order_relaxed)) return;
  const Current current(*this);
  // A copy from it may be under way.
  if (cuda_->stream_synchronize(main_.stream) == kSuccess) cuda_->host_release(data);
}

// ---------------------------------------------------------------- copies
// Under this the driver takes the bytes along with the command: nothing waits.
constexpr size_t kTakenAlong = size_t{64} << 10;

int32_t Staging::prepare(Device& device) {
  // What a call before this one made, up to where it failed, is there.
  const Driver& cuda = device.cuda();
  for (Chunk& chunk : chunks_) {
    if (chunk.event == nullptr) {
      if (const int32_t status = device.check(cuda.event_create(&chunk.event, kEventDisableTiming), "copy")) return status;
    }
    if (chunk.data != nullptr) continue;
    void* data = nullptr;
    if (const int32_t status = device.check_pinned(cuda.host_allocate(&data, kChunk, 0), kChunk)) return status;
    chunk.data = static_cast<char*>(data);
  }
  return CLIKA_OK;
}

int32_t Staging::wait(Device& device, Chunk& chunk) {
  if (!chunk.busy) return CLIKA_OK;
  chunk.busy = false;
  return device.check(device.cuda().event_synchronize(chunk.event), "copy");
}

int32_t Staging::copy_in(Device& device, Pointer to, const char* from, size_t bytes, Stream stream) {
  const Driver& cuda = device.cuda();
  if (bytes <= kTakenAlong) return device.check(cuda.copy_in(to, from, bytes, stream), "copy");
  std::lock_guard<std::mutex> lock(mutex_);
  if (const int32_t status = prepare(device)) return status;
  for (size_t at = 0; at < bytes; at += kChunk) {
    Chunk& chunk = chunks_[next_];
    next_ = (next_ + 1) % kChunks;
    const size_t n = std::min(kChunk, bytes - at);
    if (const int32_t status = wait(device, chunk)) return status;
    std::memcpy(chunk.data, from + at, n);
    if (const int32_t status = device.check(cuda.copy_in(to + at, chunk.data, n, stream), "copy")) return status;
    if (const int32_t status = device.check(cuda.event_record(chunk.event, stream), "copy")) {
      cuda.stream_synchronize(stream);  // nobody can wait for the chunk alone
      return status;
    }
    chunk.busy = true;
  }
  return CLIKA_OK;
}

int32_t Staging::copy_out(Device& device, char* to, Pointer from, size_t bytes, Stream stream) {
  const Driver& cuda = device.cuda();
  std::lock_guard<std::mutex> lock(mutex_);
  if (const int32_t status = prepare(device)) return status;
  const size_t count = (bytes + kChunk - 1) / kChunk;
  const auto size = [&](size_t i) { return std::min(kChunk, bytes - i * kChunk); };
  for (size_t i = 0; i < count + kChunks - 1; ++i) {
    // Chunk i is asked for before the oldest one under way is waited for.
    if (i < count) {
      Chunk& chunk = chunks_[i % kChunks];
      if (const int32_t status = device.check(cuda.copy_out(chunk.data, from + i * kChunk, size(i), stream), "copy")) return status;
      if (const int32_t status = device.check(cuda.event_record(chunk.event, stream), "copy")) return status;
      chunk.busy = true;
    }
    if (i + 1 < static_cast<size_t>(kChunks)) continue;
    const size_t done = i + 1 - kChunks;
    if (done >= count) break;
    Chunk& chunk = chunks_[done % kChunks];
    if (const int32_t status = wait(device, chunk)) return status;
    std::memcpy(to + done * kChunk, chunk.data, size(done));
  }
  return CLIKA_OK;
}

int32_t Device::copy(void* to, const void* from, size_t bytes, int32_t kind, Stream stream) {
  if (const int32_t status = usable()) return status;
  if (bytes == 0) return CLIKA_OK;
  const Current current(*this);
  const auto target = static_cast<Pointer>(reinterpret_cast<uintptr_t>(to));
  const auto source = static_cast<Pointer>(reinterpret_cast<uintptr_t>(from));
  if (kind == 3) return check(cuda_->copy_in(target, from, bytes, stream), "copy");
  if (kind == 0) return in_.copy_in(*this, target, static_cast<const char*>(from), bytes, stream);
  if (kind == 2) return check(cuda_->copy_within(target, source, bytes, stream), "copy");
  const uint64_t launched = launched_.load();
  const int32_t status = out_.copy_out(*this, static_cast<char*>(to), source, bytes, stream);
  if (status != CLIKA_OK || stream != main_.stream) return status;
  settled_.store(launched);  // all before it has run
  return heed_report();
}

}  // namespace clika_cuda
