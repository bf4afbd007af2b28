// The execution machinery under tensors: errors, allocator, storage, events, lanes, thread pool.
// Nothing here knows Python; the C++ driver in tests/native runs it under the sanitizers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "clika_runtime/plugin.h"

namespace clika {

// ---------------------------------------------------------------- errors
struct Error {
  int32_t status = CLIKA_INTERNAL;
  std::string code;
  std::string message;
};
using ErrorPtr = std::shared_ptr<const Error>;  // null: no error
ErrorPtr make_error(int32_t status, std::string code, std::string message);

class SpinLock {
 public:
  void lock() noexcept;
  void unlock() noexcept { flag_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> flag_{false};
};

// ---------------------------------------------------------------- memory
struct MemoryStats {
  int64_t active_bytes = 0;  // handed out now
  int64_t cached_bytes = 0;  // idle in the pool
  int64_t peak_bytes = 0;    // highest active_bytes
  int64_t allocations = 0;   // calls served
  int64_t system_allocations = 0;  // calls that had to ask the system
};

// The front of every device's memory: a pool of size classes over a backend's raw allocate/release
// (posix_memalign / mmap for the host). Thread-safe.
class Allocator {
 public:
  virtual ~Allocator() = default;
  virtual void* allocate(size_t nbytes) = 0;  // 64-byte aligned; nullptr when memory is out, after one trim
  virtual void release(void* data, size_t nbytes) noexcept = 0;
  virtual size_t trim() noexcept = 0;  // gives idle blocks back to the system; returns their bytes
  virtual MemoryStats stats() const = 0;
};
Allocator& host_allocator();
// A pooled front over raw functions, for backends with memory of their own.
std::unique_ptr<Allocator> make_pooled_allocator(void* (*raw_allocate)(int32_t, size_t, clika_stream),
                                                 void (*raw_release)(int32_t, void*, size_t, clika_stream),
                                                 int32_t device);

// ---------------------------------------------------------------- events and storage
class Lane;

struct Event {
  Lane* lane = nullptr;  // null: done
  uint64_t sequence = 0;
  bool done() const noexcept;
};

// A block of bytes with its hazards. Reference-counted by hand, so that a tensor holds one pointer.
class Storage {
 public:
  enum Kind : int32_t { kOwned = 0, kBorrowed = 1, kMapped = 2, kFake = 3 };
  using Release = void (*)(void* owner);

  // Owned storage. With `deferred` the bytes are allocated when the first write runs.
  static Storage* create(Allocator& allocator, size_t nbytes, int32_t device, bool deferred);
  // Memory of someone else. `release(owner)` is called once, from any thread; an owner that needs the
  // interpreter goes through defer_release (below).
  static Storage* borrow(void* data, size_t nbytes, int32_t device, Kind kind, Release release, void* owner,
                         bool writable);

  void retain() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void drop() noexcept;

  bool allocate() noexcept;  // gives deferred storage its bytes; false when memory is out
  void* data() const noexcept { return data_; }
  size_t nbytes() const noexcept { return nbytes_; }
  int32_t device() const noexcept { return device_; }
  Kind kind() const noexcept { return kind_; }
  bool writable() const noexcept { return writable_; }
  bool unique() const noexcept { return references_.load(std::memory_order_acquire) == 1; }

  // Last write and reads. wait_* block (the caller has released the GIL); ready_* only look.
  bool ready_for_read() const noexcept;
  bool ready_for_write() const noexcept;
  void wait_for_read() const;
  void wait_for_write() const;
  void mark_read(Event event) noexcept;
  void mark_write(Event event) noexcept;  // forgets the readers before it

  ErrorPtr poison() const;
  void set_poison(ErrorPtr error);  // null clears it

 private:
  Storage() = default;
  ~Storage() = default;
  std::atomic<int32_t> references_{1};
  mutable SpinLock lock_;
  Kind kind_ = kOwned;
  bool writable_ = true;
  int32_t device_ = 0;
  void* data_ = nullptr;
  size_t nbytes_ = 0;
  Allocator* allocator_ = nullptr;
  Release release_ = nullptr;
  void* owner_ = nullptr;
  Event writer_;
  std::vector<Event> readers_;  // the latest per lane, finished ones pruned
  ErrorPtr poison_;
};

// Owners that need the interpreter are collected here and released by whoever holds the GIL next.
void defer_release(void (*release)(void*), void* owner) noexcept;
void run_deferred_releases();  // caller holds the GIL
bool has_deferred_releases() noexcept;

// ---------------------------------------------------------------- lanes
enum class AccessKind : uint8_t {
  kRead = 0,
  kUpdate = 1,     // writes a part: poison of the target propagates
  kOverwrite = 2,  // writes every byte: clears poison
};
struct Access {
  Storage* storage;
  AccessKind kind;
};

// Queued work. The lane retains the accessed storages, waits for their hazards across lanes, allocates
// deferred outputs, runs, and poisons what a failed run was to write. A poisoned input skips the run and
// hands its poison on.
class Task {
 public:
  virtual ~Task() = default;
  virtual ErrorPtr run() = 0;  // no GIL
  std::vector<Access> accesses;
  size_t pending_bytes = 0;  // counted against the lane's bound
};

class Lane {
 public:
  // The calling thread's lane for the host; made at first use, handed on when the thread ends.
  static Lane& current();
  // A lane of its own (Stream.create); never freed, reused after `retire`.
  static Lane* create();
  void retire() noexcept;

  // Runs on the calling thread between these two when the lane is idle and every access is settled:
  // returns the sequence number, or 0 when the call must be submitted instead.
  uint64_t begin_inline(const Access* accesses, size_t n) noexcept;
  void end_inline(uint64_t sequence) noexcept;

  // Queues a task. Blocks while the lane is over its bound of pending bytes or calls.
  Event submit(std::unique_ptr<Task> task);
  void synchronize();                        // every task issued before has finished
  bool idle() const noexcept;
  void wait(uint64_t sequence) const;        // spin briefly, then sleep
  uint64_t completed() const noexcept { return completed_.load(std::memory_order_acquire); }
  void cancel() noexcept;                    // asks the running task to stop (Ctrl-C)
  bool cancelled() const noexcept { return cancelled_.load(std::memory_order_relaxed); }
  static Lane* running() noexcept;           // the lane whose task runs on this thread, or null

 private:
  Lane();
  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::atomic<uint64_t> issued_{0};
  std::atomic<uint64_t> completed_{0};
  std::atomic<bool> cancelled_{false};
};
void drain_all_lanes();   // at interpreter exit: run what is queued, join the threads

// ---------------------------------------------------------------- thread pool
// One per process. The thread that calls is worker 0; the others spin briefly, then sleep. Threads start at
// the first region that wants them.
class Pool {
 public:
  static Pool& get();
  int32_t size() const noexcept;  // CLIKA_RT_NUM_THREADS, else what affinity and the cgroup quota allow
  // Takes the workers that are free (maybe none). Pieces are handed out dynamically; results may not
  // depend on the split. A nested call runs in place.
  void parallel_for(int64_t n, int64_t grain, clika_range_fn fn, void* arg);
  void shutdown();

 private:
  Pool();
  struct Impl;
  Impl* impl_;  // leaked at exit on purpose: workers may still look
};

// fork: the child rebuilds pool and lanes at first use. Installed once, at import.
void install_fork_handlers();

}  // namespace clika
