// Registered backends: kernel tables, kernel choice, device memory, and the table the core gives to kernels.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "clika_runtime/plugin.h"
#include "runtime.hpp"

namespace clika {

// A device is one number: backend id * 256 + index; the host is 0, "meta" (no bytes) is -1.
constexpr int32_t kHostDevice = 0;
constexpr int32_t kMetaDevice = -1;
inline int32_t device_backend(int32_t device) { return device < 0 ? -1 : device >> 8; }
inline int32_t device_index(int32_t device) { return device & 255; }

struct Backend {
  std::string name;
  int32_t id = 0;
  const clika_backend* table = nullptr;  // null: a pure-Python backend, its kernels live on the Python side
  std::unordered_map<std::string, std::vector<const clika_kernel*>> kernels;
  std::vector<std::unique_ptr<Allocator>> allocators;  // own memory only, one per device

  Allocator& allocator(int32_t index);
  // Whether the host cannot address its memory and its calls ride on streams (see clika_backend).
  bool on_device() const noexcept { return has(offsetof(clika_backend, default_stream), &clika_backend::default_stream); }
  // Whether the table reaches to a member and has it.
  template <class Member>
  bool has(size_t offset, Member clika_backend::*member) const noexcept {
    return table != nullptr && table->size >= offset + sizeof(Member) && table->*member != nullptr;
  }
  // Why the last call of its table failed on this thread.
  ErrorPtr failure(int32_t status, const char* operation) const;
};

// The device backend behind a device; null: the host addresses its memory.
Backend* device_backend_of(int32_t device) noexcept;
// That backend where it records graphs, else null.
Backend* graph_backend_of(int32_t device) noexcept;
// The stream of a device backend that calls ride on; null and `error` where the device cannot be used.
clika_stream device_stream(int32_t device, ErrorPtr* error);
// Waits for everything on the device's stream; nothing to do for the host.
ErrorPtr synchronize_device(int32_t device);
// Bytes between the host's memory and a device, or within a device, in order with the calls on it.
ErrorPtr copy_in(int32_t device, void* to, const void* from, size_t bytes);
ErrorPtr copy_out(int32_t device, void* to, const void* from, size_t bytes);
ErrorPtr copy_within(int32_t device, void* to, const void* from, size_t bytes);
// What a device says of its memory; `known` is false where its backend does not.
ErrorPtr memory_info(int32_t device, int64_t* free_bytes, int64_t* total_bytes, bool* known);
// Memory of the host whose bytes are sent to a device. `direct` asks for memory that the device reads by itself, and says
// whether it is: such bytes stay as they are until the stream has passed the copy.
void* mirror_allocate(int32_t device, size_t bytes, bool* direct);
void mirror_release(int32_t device, void* data, size_t bytes, bool direct);
ErrorPtr mirror_send(int32_t device, void* to, const void* from, size_t bytes, bool direct);
// "no memory for N bytes on cuda:0 ..." with what the device and its pool hold.
ErrorPtr out_of_memory(const std::string& operation, int64_t bytes, int32_t device);
std::string device_text(int32_t device);

// What the environment asks of the core and cannot have (CLIKA_RT_NUM_THREADS, CLIKA_RT_DEBUG); null: nothing.
ErrorPtr check_environment();

// Returns the id. A table of another ABI or with missing members is refused: -1 and `why`.
int32_t register_backend(const std::string& name, const clika_backend* table, std::string* why);
Backend* backend_by_id(int32_t id) noexcept;
Backend* backend_by_name(const std::string& name) noexcept;
Allocator& device_allocator(int32_t device);

// The first kernel of the operator whose entry admits these operands; null and `why` when none does.
const clika_kernel* choose_kernel(const Backend& backend, const std::string& op, const clika_value* inputs,
                                  size_t n_inputs, const clika_value* outputs, size_t n_outputs,
                                  std::string* why);

// Owned attribute values behind the clika_attr array of a call.
struct Attrs {
  std::vector<clika_attr> items;
  std::vector<std::unique_ptr<std::vector<int64_t>>> ints;
  std::vector<std::unique_ptr<std::vector<double>>> floats;
  std::vector<std::unique_ptr<std::string>> texts;

  void add_none();
  void add_int(int64_t value);
  void add_float(double value);
  void add_ints(std::vector<int64_t> values);
  void add_floats(std::vector<double> values);
  void add_text(std::string text);
};

// Scratch of a device for calls that are recorded into a graph: blocks that live as long as it does. The run before the
// recording finds out how many are needed; the pool is closed while recording, when no memory may be asked for.
class ScratchPool {
 public:
  explicit ScratchPool(int32_t device) : device_(device) {}
  ~ScratchPool();
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;
  void* take(size_t bytes);  // the smallest free block that is large enough, else a new one; null: neither
  void settle();             // what was taken is free for the next call
  void close(bool closed) { closed_ = closed; }

 private:
  struct Block {
    void* data;
    size_t bytes;
    bool taken;
  };
  int32_t device_;
  bool closed_ = false;
  std::vector<Block> blocks_;
};

// What `call->context` points to while a kernel runs.
struct CallContext {
  ErrorPtr error;
  int32_t (*allocate_output)(CallContext*, uint32_t, int32_t, const int64_t*) = nullptr;
  void* owner = nullptr;
  int32_t device = kHostDevice;
  std::vector<std::pair<void*, size_t>> scratch;  // of a device: given back when the kernel has returned
  clika_stream stream = nullptr;                  // of a device: instead of its default stream
  ScratchPool* pool = nullptr;                    // of a device: where scratch comes from instead
};

const clika_core* core_table() noexcept;
// Runs one kernel on the device of its context: stream, workspace, scratch, error. Never throws.
ErrorPtr run_kernel(const clika_kernel& kernel, clika_call& call, CallContext& context) noexcept;

bool is_contiguous(int32_t rank, const int64_t* shape, const int64_t* strides) noexcept;
// The most elements a shape may have: their bits still fit 64 bits.
constexpr int64_t kMaxElements = INT64_C(1) << 56;
int64_t count_elements(int32_t rank, const int64_t* shape) noexcept;
int32_t dtype_bits(int32_t dtype) noexcept;  // 0 for undefined
int64_t dense_bytes(int32_t rank, const int64_t* shape, int32_t dtype) noexcept;

}  // namespace clika
