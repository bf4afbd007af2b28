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

// How often this process has been made by fork (1: never). A lock word holds the generation of its holder.
extern std::atomic<uint32_t> fork_generation;

// A lock for sections of a few instructions. One that a thread of the parent held at fork can be taken in the
// child: lock() then returns true, and what it guards may be half written.
class SpinLock {
 public:
  bool lock() noexcept {
    uint32_t expected = 0;
    const uint32_t mine = fork_generation.load(std::memory_order_relaxed);
    if (word_.compare_exchange_strong(expected, mine, std::memory_order_acquire, std::memory_order_relaxed)) {
      return false;
    }
    return lock_slow(mine);
  }
  void unlock() noexcept { word_.store(0, std::memory_order_release); }

 private:
  bool lock_slow(uint32_t mine) noexcept;
  std::atomic<uint32_t> word_{0};
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
// A pooled front over raw functions, for backends with memory of their own. It must outlive its blocks.
// `raw_trim` (may be null) is told when idle blocks have gone back to it.
std::unique_ptr<Allocator> make_pooled_allocator(void* (*raw_allocate)(int32_t, size_t, clika_stream),
                                                 void (*raw_release)(int32_t, void*, size_t, clika_stream),
                                                 void (*raw_trim)(int32_t), int32_t device);

// ---------------------------------------------------------------- events and storage
class Lane;

enum class AccessKind : uint8_t {
  kRead = 0,
  kUpdate = 1,     // writes a part: poison of the target propagates
  kOverwrite = 2,  // writes every byte: clears poison
  kFresh = 3,      // kOverwrite of a storage made for this call, which nobody else knows yet: costs nothing
};

struct Event {
  Lane* lane = nullptr;  // null: done
  uint64_t sequence = 0;
  bool done() const noexcept;
};

// The latest event of each lane; finished ones are replaced first. One event fits without memory of its own.
class EventList {
 public:
  void add(Event event);
  void clear() noexcept {
    first_ = Event{};
    if (!more_.empty()) more_.clear();
  }
  template <class Fn>
  void each(Fn&& fn) const {
    if (first_.lane != nullptr) fn(first_);
    for (const Event& event : more_) fn(event);
  }
  template <class Fn>
  bool all(Fn&& fn) const {
    if (first_.lane != nullptr && !fn(first_)) return false;
    for (const Event& event : more_) {
      if (!fn(event)) return false;
    }
    return true;
  }

 private:
  Event first_;
  std::vector<Event> more_;
};

// A block of bytes with its hazards. Reference-counted by hand, so that a tensor holds one pointer.
class Storage {
 public:
  enum Kind : int32_t { kOwned = 0, kBorrowed = 1, kMapped = 2, kFake = 3 };
  using Release = void (*)(void* owner);

  // Owned storage. With `deferred` the bytes are allocated when the first write runs, else now: null when
  // memory is out.
  static Storage* create(Allocator& allocator, size_t nbytes, int32_t device, bool deferred);
  // Memory of someone else. `release(owner)` is called once, from any thread; an owner that needs the
  // interpreter goes through defer_release (below). `release` may be null, and must not wait for a lane.
  static Storage* borrow(void* data, size_t nbytes, int32_t device, Kind kind, Release release, void* owner,
                         bool writable);

  void retain() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void drop() noexcept;

  bool allocate() noexcept;  // gives deferred storage its bytes; false when memory is out
  void* data() const noexcept { return data_.load(std::memory_order_acquire); }
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
  // The same with a limit in microseconds (< 0: none), for callers that look for Ctrl-C now and then; false
  // when the time is over.
  bool wait_for_read(int64_t timeout_us) const;
  bool wait_for_write(int64_t timeout_us) const;
  void mark_read(Event event) noexcept;
  void mark_write(Event event) noexcept;  // forgets the readers before it

  ErrorPtr poison() const;
  void set_poison(ErrorPtr error);  // null clears it
  // False: certainly not poisoned. Cheap. (In a forked child it takes a closer look to know.)
  bool maybe_poisoned() const noexcept {
    return poisoned_.load(std::memory_order_acquire) || fork_generation.load(std::memory_order_relaxed) != 1;
  }

 private:
  friend class Lane;
  // The lock, with repair after fork.
  struct Hold {
    explicit Hold(const Storage& storage) noexcept : storage_(const_cast<Storage&>(storage)) {
      if (storage_.lock_.lock()) storage_.repair();
    }
    ~Hold() { storage_.lock_.unlock(); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    Storage& storage_;
  };
  Storage() = default;
  ~Storage() = default;
  static void* operator new(size_t size);
  static void operator delete(void* memory) noexcept;
  void destroy() noexcept;
  void repair() noexcept;
  void adopt_abandoned() noexcept;
  bool settled(bool write) const noexcept;
  bool claim(AccessKind kind, Event mine) noexcept;
  void enroll(AccessKind kind, Event mine, EventList& hazards);
  bool wait(bool write, int64_t timeout_us) const;

  std::atomic<int32_t> references_{1};
  SpinLock lock_;
  std::atomic<bool> poisoned_{false};  // poison_ is set: spares the lock
  bool writable_ = true;
  Kind kind_ = kOwned;
  int32_t device_ = 0;
  std::atomic<void*> data_{nullptr};
  size_t nbytes_ = 0;
  Event writer_;
  EventList readers_;  // since the last write
  ErrorPtr poison_;
  Allocator* allocator_ = nullptr;
  Release release_ = nullptr;
  void* owner_ = nullptr;
};

// Owners that need the interpreter are collected here and released by whoever holds the GIL next.
void defer_release(void (*release)(void*), void* owner) noexcept;
void run_deferred_releases();  // caller holds the GIL
bool has_deferred_releases() noexcept;

// ---------------------------------------------------------------- lanes
struct Access {
  Storage* storage;
  AccessKind kind;
};
// For calls that run inline: the poison of the first poisoned input (kRead, kUpdate), null when there is
// none.
ErrorPtr first_poison(const Access* accesses, size_t n);
// For calls that ran inline, before end_inline: an error poisons what the call was to write, none clears the
// poison of what it overwrote.
void settle_writes(const Access* accesses, size_t n, const ErrorPtr& error);

// Queued work. The lane retains the accessed storages, waits for their hazards across lanes, allocates
// deferred outputs, runs, and poisons what a failed run was to write. A poisoned input skips the run and
// hands its poison on.
class Task {
 public:
  virtual ~Task() = default;
  virtual ErrorPtr run() = 0;  // no GIL
  std::vector<Access> accesses;
  size_t pending_bytes = 0;  // counted against the lane's bound

 private:
  friend class Lane;
  Task* next_ = nullptr;
  uint64_t sequence_ = 0;
  EventList hazards_;
};

class Lane {
 public:
  // The calling thread's lane for the host; made at first use, handed on when the thread ends. Inside an
  // inline call it is another one, so that a kernel may itself issue calls and wait for them.
  static Lane& current();
  // A lane of its own (Stream.create); never freed, reused after `retire`.
  static Lane* create();
  void retire() noexcept;

  // Runs on the calling thread between these two when the lane is idle and every access is settled:
  // returns the sequence number, or 0 when the call must be submitted instead.
  // The accesses are registered, so other lanes wait for the call. Every non-zero result needs its
  // end_inline on the same thread and lane (keep the reference: current() is another lane inside the call).
  uint64_t begin_inline(const Access* accesses, size_t n) noexcept;
  void end_inline(uint64_t sequence) noexcept;

  // Queues a task. Blocks while the lane is over its bound of pending bytes or calls.
  Event submit(std::unique_ptr<Task> task);
  void synchronize();                        // every task issued before has finished
  bool idle() const noexcept {
    return completed_.load(std::memory_order_acquire) >= issued_.load(std::memory_order_acquire);
  }
  void wait(uint64_t sequence) const;        // spin briefly, then sleep
  bool wait_for(uint64_t sequence, int64_t timeout_us) const;  // false when the time is over; < 0: no limit
  uint64_t issued() const noexcept { return issued_.load(std::memory_order_acquire); }
  void set_bounds(size_t bytes, size_t calls) noexcept;  // 1 GiB and 4096 at first
  uint64_t completed() const noexcept { return completed_.load(std::memory_order_acquire); }
  void cancel() noexcept;                    // asks the running task to stop (Ctrl-C)
  bool cancelled() const noexcept { return cancelled_.load(std::memory_order_relaxed); }
  // The lane whose task or inline call runs on this thread, or null.
  static Lane* running() noexcept;
  // Work that a fork left in the parent: done, but its results are not here.
  bool abandoned(uint64_t sequence) const noexcept;
  static void before_fork() noexcept;  // waits a while for the work under way
  static void after_fork_in_child() noexcept;

 private:
  friend void drain_all_lanes();
  Lane();
  ~Lane() = delete;
  struct Impl;
  enum Holder : int32_t { kFree = 0, kThread = 1, kStream = 2 };
  static Lane* acquire(Holder holder);
  void complete(uint64_t sequence) noexcept;
  void wake_waiters() const noexcept;
  void wait_for_room(size_t bytes);
  void start_worker();
  void stop_worker();
  void execute(Task* task);
  Task* take_work(Impl* impl);
  void work(Impl* impl);

  std::atomic<uint64_t> issued_{0};
  std::atomic<uint64_t> completed_{0};
  mutable std::atomic<uint32_t> waiters_{0};  // threads that sleep until completed_ moves
  std::atomic<bool> cancelled_{false};
  std::atomic<int32_t> holder_{kFree};
  Impl* impl_;                 // replaced after fork; the old one is left, its locks may be held
  Lane* next_lane_ = nullptr;  // of all lanes, newest first
};

inline bool Event::done() const noexcept { return lane == nullptr || lane->completed() >= sequence; }
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
  // Every piece begins at a multiple of `grain` and has at least `grain` items (if n has).
  void parallel_for(int64_t n, int64_t grain, clika_range_fn fn, void* arg);
  // What a piece threw in a region of this thread since the last question; null: nothing. Lanes ask after
  // each task; who runs a kernel inline asks too.
  static ErrorPtr take_failure() noexcept;
  static ErrorPtr check_environment();  // refuses a CLIKA_RT_NUM_THREADS that is no number of threads
  void shutdown();  // joins the threads; a later region starts them again
  static void after_fork_in_child() noexcept;

 private:
  Pool();
  struct Impl;
  std::atomic<Impl*> impl_;  // leaked at exit on purpose: workers may still look
};

// fork: waits up to a second for work under way; the child rebuilds pool and lanes at first use, and storages
// that unfinished work was to write are poisoned there. Installed once, at import.
void install_fork_handlers();

}  // namespace clika
