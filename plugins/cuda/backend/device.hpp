// One GPU: its context, its streams and memory, and the state that a fault leaves it in.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "arguments.cuh"
#include "clika_runtime/plugin.h"
#include "driver.hpp"

namespace clika_cuda {

constexpr int kMaxDevices = 64;
constexpr int kOldestCapability = 80;  // compute capability * 10 that kernels are written for

// What the last failed call of this thread failed with; the core asks by `failure` of the backend's table.
int32_t fail(int32_t status, const char* code, const std::string& message);
int32_t last_failure(char* code, size_t code_bytes, char* message, size_t message_bytes);

class Device;

// A clika_stream of this backend.
struct Queue {
  Device* device;
  Stream stream;
  bool records = false;           // what is put on it becomes a graph
  std::vector<const char*> ops;   // then: the operators of the launches

  // The operator of a launch, for the report of a fault.
  void note(const char* op);
  // Whether its launches run in the order of the device's default stream, where graphs are launched too.
  bool in_order() const;
};

// What was recorded, ready to run.
struct Graph {
  Device* device;
  Executable executable;
  const char* name;  // for the report of a fault; never freed
};

// Host memory that the GPU reads and writes directly: what is copied goes through it, a chunk at a time, so that the
// copy of one chunk and the transfer of another overlap.
class Staging {
 public:
  int32_t copy_in(Device& device, Pointer to, const char* from, size_t bytes, Stream stream);
  int32_t copy_out(Device& device, char* to, Pointer from, size_t bytes, Stream stream);

 private:
  static constexpr size_t kChunk = size_t{4} << 20;
  static constexpr int kChunks = 4;
  struct Chunk {
    char* data = nullptr;
    DriverEvent event = nullptr;
    bool busy = false;
  };
  int32_t prepare(Device& device);
  int32_t wait(Device& device, Chunk& chunk);
  std::mutex mutex_;
  Chunk chunks_[kChunks];
  int next_ = 0;
};

class Device {
 public:
  // Opens the device at first use. Null where it cannot be used; the reason is this thread's failure.
  static Device* get(int32_t index);

  const Driver& cuda() const { return *cuda_; }
  int32_t index() const { return index_; }
  int capability() const { return capability_; }       // major * 10 + minor
  int multiprocessors() const { return multiprocessors_; }
  // Whether a kernel may begin before the one before it has ended.
  bool overlaps() const { return overlaps_; }
  int shared_memory() const { return shared_memory_; }  // most bytes of a block
  Context context() const { return context_; }
  Queue& queue() { return main_; }                      // what the core's calls ride on
  std::string name() const { return "cuda:" + std::to_string(index_); }

  // CLIKA_OK, or this thread's failure. A result that means a fault of the device takes the device out of use.
  int32_t check(Result result, const char* what);
  // The same of pinned memory of the host.
  int32_t check_pinned(Result result, size_t bytes);
  // CLIKA_OK, or the failure of a device that is out of use.
  int32_t usable();
  // The operator of a launch, for the report of a fault.
  void note(const char* op) { recent_[launched_.fetch_add(1, std::memory_order_relaxed) % kRecent].store(op); }

  // Where kernels say that a value they were given is wrong; read by whoever waits for the device.
  clika_device::Report* report() { return report_; }

  void* allocate(size_t bytes);
  void release(void* data);
  void trim();
  int32_t memory_info(int64_t* free_bytes, int64_t* total_bytes);
  int32_t synchronize(Queue& queue);
  int32_t copy(void* to, const void* from, size_t bytes, int32_t kind, Stream stream);
  // Makes `after` wait for what is in `before` now.
  int32_t order(Stream before, Stream after);

  // A stream whose launches are recorded for the calling thread, until `end`; null and this thread's failure.
  Queue* begin_capture();
  Graph* end_capture(Queue* queue);
  int32_t launch(const Graph& graph, Queue& queue);
  void destroy(Graph* graph);

  // Memory of the host that copies from and to this device do not pass through a staging chunk.
  void* allocate_host(size_t bytes);
  void release_host(void* data);

 private:
  static constexpr size_t kRecent = 64;
  Device() = default;
  int32_t open(int32_t index);
  std::string recent() const;
  int32_t heed_report();

  const Driver* cuda_ = nullptr;
  int32_t index_ = 0;
  int handle_ = 0;
  int capability_ = 0;
  int multiprocessors_ = 0;
  bool overlaps_ = false;
  int shared_memory_ = 0;
  Context context_ = nullptr;
  MemoryPool pool_ = nullptr;  // null: the device has no pools
  Queue main_{nullptr, nullptr, false, {}};
  Staging in_, out_;
  clika_device::Report* report_ = nullptr;  // memory of the host that the device writes to
  std::mutex report_mutex_;
  std::mutex fault_mutex_;
  std::string fault_;
  std::atomic<bool> faulted_{false};
  std::atomic<uint64_t> launched_{0};
  std::atomic<uint64_t> settled_{0};  // launches that a synchronization found to be well
  std::array<std::atomic<const char*>, kRecent> recent_{};
};

// The device's context is the thread's while this lives; another library's comes back afterwards.
class Current {
 public:
  explicit Current(const Device& device);
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const Driver& cuda_;
  bool pushed_ = false;
};

int32_t device_count();
int32_t device_properties(int32_t index, clika_device_properties* out);

}  // namespace clika_cuda
