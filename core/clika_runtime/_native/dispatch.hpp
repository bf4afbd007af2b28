// What an operator call resolves to, kept under its signature key, and how one call runs.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend.hpp"
#include "tensor.hpp"

namespace clika {

enum class OutputKind : int32_t {
  kNew = 0,      // bytes of its own
  kView = 1,     // the bytes of input `source`
  kMutated = 2,  // input `source`, written in place
  kSettled = 3,  // bytes of its own, of a size that the kernel finds out: unknown sizes are -1
};

struct OutputPlan {
  OutputKind kind = OutputKind::kNew;
  int32_t source = 0;      // flattened tensor input
  int64_t offset = 0;      // of a view: elements from the source's first element
  TensorRecord record;     // shape, strides, dtype, device; no storage
  int64_t nbytes = 0;
};

struct Binding {
  std::string key;
  std::vector<OutputPlan> outputs;
  const clika_kernel* kernel = nullptr;  // null: view only, composed, or a Python kernel
  std::shared_ptr<Attrs> attrs;
  std::vector<int32_t> enter;            // per flattened tensor input: dtype it enters in (0: as it is)
  std::vector<uint8_t> straighten;       // per flattened tensor input: make contiguous first
  std::vector<int32_t> numbers;          // per flattened input: dtype of a number operand, else 0
  bool prepare = false;                  // some input is converted or straightened
  bool composed = false;
  bool settles = false;                  // some output is kSettled
  void* python_kernel = nullptr;         // borrowed, kept alive by the operator
  int64_t work = 0;                      // bytes read and written, for the choice between inline and queue
  int32_t device = kHostDevice;          // that the call runs on
};

struct DispatchCounters {
  uint64_t hits = 0, misses = 0, evictions = 0, inline_calls = 0, queued_calls = 0, kernel_calls = 0;
};
DispatchCounters& counters();

// Bindings of one operator, bounded: a full cache is emptied (and counted), never grown.
class BindingCache {
 public:
  const Binding* find(const char* key, size_t n) {
    const auto it = entries_.find(std::string_view(key, n));
    return it == entries_.end() ? nullptr : it->second.get();
  }
  // `retired` keeps evicted bindings alive until the next insertion: a caller up the stack may hold one.
  const Binding* insert(std::unique_ptr<Binding> binding) {
    if (entries_.size() >= kBound) {
      counters().evictions += entries_.size();
      retired_.clear();
      for (auto& entry : entries_) retired_.push_back(std::move(entry.second));
      entries_.clear();
    }
    const Binding* raw = binding.get();
    entries_[std::string_view(raw->key)] = std::move(binding);
    return raw;
  }
  size_t size() const { return entries_.size(); }
  static constexpr size_t kBound = 1024;

 private:
  struct Hash {
    size_t operator()(std::string_view key) const noexcept {
      uint64_t h = 0x9E3779B97F4A7C15ull;
      size_t i = 0;
      for (; i + 8 <= key.size(); i += 8) {
        uint64_t word;
        __builtin_memcpy(&word, key.data() + i, 8);
        h = (h ^ word) * 0xFF51AFD7ED558CCDull;
        h ^= h >> 32;
      }
      for (; i < key.size(); ++i) h = (h ^ static_cast<unsigned char>(key[i])) * 0x100000001B3ull;
      return static_cast<size_t>(h ^ (h >> 29));
    }
  };
  std::unordered_map<std::string_view, std::unique_ptr<Binding>, Hash> entries_;
  std::vector<std::unique_ptr<Binding>> retired_;
};

// One call as the Python side hands it over: flattened inputs, the value of each number operand.
struct Frame {
  static constexpr size_t kInputs = 64;
  size_t n_inputs = 0;
  const TensorRecord* inputs[kInputs];   // null: absent or a number
  char numbers[kInputs][8];
  size_t n_groups = 0;
  int32_t groups[16];                         // see Node::groups
  size_t n_scalars = 0;
  clika_scalar scalars[16];
};

// Allocates outputs (kNew) and runs the kernel inline or through the lane. The caller holds the GIL; bodies
// over `kReleaseBytes` and everything queued run without it. `outputs` get their own storage references. A call
// that settles shapes runs here and now, and what it fails with is returned.
ErrorPtr run_call(const Binding& binding, const Frame& frame, bool synchronous, TensorRecord* outputs);

// Waits until the tensor's bytes are there, or, on a device, until what makes them is on its stream; the caller has
// released the GIL.
ErrorPtr settle(const TensorRecord& record);
bool settled(const TensorRecord& record);

// Puts the packed form of each weight in its place (itself where it stays as it is), with a reference of its own.
// With `drop_source` mapped pages of what was repacked go back to the system.
ErrorPtr pack_weights(std::vector<TensorRecord>* weights, const std::vector<int32_t>& modes, bool drop_source);
// The payload of a repacked weight as it was published.
ErrorPtr unpack_weight(const TensorRecord& packed, TensorRecord* weight);
// The bytes of a tensor into another one's, on the same device or a different one.
ErrorPtr copy_device(const TensorRecord& from, TensorRecord* to);

// A number operand in the bytes of a dtype; false when an integer does not fit.
bool store_number(char* out, int32_t dtype, bool is_float, double f, int64_t i);

// Set by the Python side: releases the GIL around `body(arg)`.
extern void (*without_gil)(void (*body)(void*), void* arg);

}  // namespace clika
