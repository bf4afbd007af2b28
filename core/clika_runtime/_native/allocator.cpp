#include <algorithm>
#include <cstdlib>
#include <exception>
#include <map>
#include <new>

#include "sync.hpp"

#if defined(_WIN32)
#include <malloc.h>
#else
#include <sys/mman.h>
#include <unistd.h>
#endif

// Under AddressSanitizer idle blocks and the rests of blocks are closed to the program.
#if defined(CLIKA_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#endif

namespace clika {
namespace {

constexpr size_t kAlign = 64;
constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kHugePage = 2 * kMiB;
constexpr size_t kHostIdle = 256 * kMiB;  // idle mapped memory the host's pool keeps
constexpr size_t kTooMuch = size_t{1} << 62;

int highest_bit(size_t value) noexcept {
#if defined(_MSC_VER)
  int bit = -1;
  while (value != 0) {
    value >>= 1;
    ++bit;
  }
  return bit;
#else
  return 63 - __builtin_clzll(value);
#endif
}

// Blocks are multiples of 64 bytes: 1 to 4 of them, then four sizes to each doubling, at most a fifth unused.
// From 1 MiB on eight to each doubling, and past 32 MiB multiples of 2 MiB.
constexpr size_t kSmallClasses = 52;  // up to 1 MiB
struct Class {
  size_t index;  // kSmallClasses: a large one
  size_t bytes;
};
Class class_of(size_t nbytes) noexcept {
  const size_t units = nbytes <= kAlign ? 1 : (nbytes - 1) / kAlign + 1;
  if (units <= 4) return {units - 1, units * kAlign};
  if (nbytes <= kMiB) {
    const int power = highest_bit(units - 1);  // 2^power < units <= 2^(power + 1)
    const size_t step = size_t{1} << (power - 2);
    const size_t steps = (units - (size_t{1} << power) + step - 1) / step;
    const size_t index = 4 + static_cast<size_t>(power - 2) * 4 + steps - 1;
    return {index, ((size_t{1} << power) + steps * step) * kAlign};
  }
  const size_t step = nbytes > 32 * kMiB ? kHugePage : size_t{1} << (highest_bit(nbytes - 1) - 3);
  return {kSmallClasses, (nbytes + step - 1) / step * step};
}

size_t small_bytes(size_t index) noexcept {
  if (index < 4) return (index + 1) * kAlign;
  const size_t power = (index - 4) / 4 + 2;
  const size_t step = size_t{1} << (power - 2);
  return ((size_t{1} << power) + ((index - 4) % 4 + 1) * step) * kAlign;
}

// ---------------------------------------------------------------- the system's memory
#if !defined(_WIN32)
constexpr size_t kMapped = kMiB;  // blocks of this size and more come from mmap

// The machine's memory. A system that promises more than it has would give any block, and end the process that
// writes to it.
size_t physical_bytes() noexcept {
  static const size_t bytes = [] {
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? static_cast<size_t>(pages) * static_cast<size_t>(page) : kTooMuch;
  }();
  return bytes;
}
#endif

void* host_allocate(int32_t, size_t bytes, clika_stream) {
#if defined(_WIN32)
  return _aligned_malloc(bytes, kAlign);
#else
  if (bytes < kMapped) {
    void* data = nullptr;
    return posix_memalign(&data, kAlign, bytes) == 0 ? data : nullptr;
  }
  if (bytes > physical_bytes()) return nullptr;
  // Huge pages need whole ones: map more, then give back what stands over on both sides.
  const size_t extra = bytes >= 2 * kHugePage ? kHugePage : 0;
  void* mapped = mmap(nullptr, bytes + extra, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  if (extra == 0) return mapped;
  char* const begin = static_cast<char*>(mapped);
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  char* const data = begin + before;
  if (before != 0) munmap(begin, before);
  if (extra != before) munmap(data + bytes, extra - before);
#if defined(MADV_HUGEPAGE)
  (void)madvise(data, bytes, MADV_HUGEPAGE);  // a wish: it works without
#endif
  return data;
#endif
}

void host_release(int32_t, void* data, size_t bytes, clika_stream) {
#if defined(_WIN32)
  (void)bytes;
  _aligned_free(data);
#else
  if (bytes < kMapped) {
    std::free(data);
  } else {
    munmap(data, bytes);
  }
#endif
}

// ---------------------------------------------------------------- the pool
using RawAllocate = void* (*)(int32_t, size_t, clika_stream);
using RawRelease = void (*)(int32_t, void*, size_t, clika_stream);
using RawTrim = void (*)(int32_t);

// One size of idle blocks. The list stands beside the blocks, which may be memory of a device.
struct FreeList {
  SpinLock lock;
  std::vector<void*> idle;
  int64_t allocations = 0;
  int64_t system_allocations = 0;
};

class PooledAllocator final : public Allocator {
 public:
  PooledAllocator(RawAllocate raw_allocate, RawRelease raw_release, RawTrim raw_trim, int32_t device, bool host);
  ~PooledAllocator() override;
  void* allocate(size_t nbytes) override;
  void release(void* data, size_t nbytes) noexcept override;
  size_t trim() noexcept override;
  MemoryStats stats() const override;
  void lock_all() noexcept;
  void unlock_all() noexcept;

  PooledAllocator* next_allocator = nullptr;

 private:
  void* take(const Class& wanted) noexcept;
  bool keep(const Class& size, void* data) noexcept;
  void* from_system(size_t bytes) noexcept;
  void count_refused(const Class& size) noexcept;
  void count_active(int64_t bytes) noexcept;
  void open(void* data, size_t nbytes) const noexcept;
  void close(void* data, size_t bytes) const noexcept;

  const RawAllocate raw_allocate_;
  const RawRelease raw_release_;
  const RawTrim raw_trim_;
  const int32_t device_;
  const bool host_;
  mutable FreeList small_[kSmallClasses];
  mutable SpinLock large_lock_;
  std::map<size_t, std::vector<void*>> large_;
  size_t large_idle_ = 0;  // bytes
  int64_t large_allocations_ = 0;
  int64_t large_system_allocations_ = 0;
  alignas(64) std::atomic<int64_t> active_{0};
  std::atomic<int64_t> peak_{0};
};

SpinLock registry_lock;
PooledAllocator* registry = nullptr;

PooledAllocator::PooledAllocator(RawAllocate raw_allocate, RawRelease raw_release, RawTrim raw_trim, int32_t device,
                                 bool host)
    : raw_allocate_(raw_allocate), raw_release_(raw_release), raw_trim_(raw_trim), device_(device), host_(host) {
  registry_lock.lock();
  next_allocator = registry;
  registry = this;
  registry_lock.unlock();
}

PooledAllocator::~PooledAllocator() {
  registry_lock.lock();
  PooledAllocator** link = &registry;
  while (*link != this) link = &(*link)->next_allocator;
  *link = next_allocator;
  registry_lock.unlock();
  trim();
}

void PooledAllocator::open(void* data, size_t nbytes) const noexcept {
#if defined(CLIKA_ADDRESS_SANITIZER)
  if (host_) ASAN_UNPOISON_MEMORY_REGION(data, nbytes);
#else
  (void)data;
  (void)nbytes;
#endif
}

void PooledAllocator::close(void* data, size_t bytes) const noexcept {
#if defined(CLIKA_ADDRESS_SANITIZER)
  if (host_) ASAN_POISON_MEMORY_REGION(data, bytes);
#else
  (void)data;
  (void)bytes;
#endif
}

void PooledAllocator::count_active(int64_t bytes) noexcept {
  const int64_t now = active_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t peak = peak_.load(std::memory_order_relaxed);
  while (now > peak && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

// An idle block, or null.
void* PooledAllocator::take(const Class& wanted) noexcept {
  void* data = nullptr;
  if (wanted.index < kSmallClasses) {
    FreeList& list = small_[wanted.index];
    list.lock.lock();
    ++list.allocations;
    if (!list.idle.empty()) {
      data = list.idle.back();
      list.idle.pop_back();
    } else {
      ++list.system_allocations;
    }
    list.lock.unlock();
    return data;
  }
  large_lock_.lock();
  ++large_allocations_;
  const auto found = large_.find(wanted.bytes);
  if (found != large_.end()) {
    data = found->second.back();
    found->second.pop_back();
    if (found->second.empty()) large_.erase(found);
    large_idle_ -= wanted.bytes;
  } else {
    ++large_system_allocations_;
  }
  large_lock_.unlock();
  return data;
}

// Puts an idle block on its list; false when it has to go back to the system.
bool PooledAllocator::keep(const Class& size, void* data) noexcept {
  bool kept = true;
  if (size.index < kSmallClasses) {
    FreeList& list = small_[size.index];
    list.lock.lock();
    try {
      list.idle.push_back(data);
    } catch (const std::exception&) {
      kept = false;  // no memory for the list
    }
    list.lock.unlock();
    return kept;
  }
  large_lock_.lock();
  try {
    // The host's idle memory is everyone's: past a bound it goes back. A device's is costly to get.
    kept = !host_ || large_idle_ + size.bytes <= kHostIdle;
    if (kept) {
      large_[size.bytes].push_back(data);
      large_idle_ += size.bytes;
    }
  } catch (const std::exception&) {
    kept = false;
    const auto found = large_.find(size.bytes);
    if (found != large_.end() && found->second.empty()) large_.erase(found);
  }
  large_lock_.unlock();
  return kept;
}

// A call that was not served does not count as one.
void PooledAllocator::count_refused(const Class& size) noexcept {
  const bool small = size.index < kSmallClasses;
  SpinLock& lock = small ? small_[size.index].lock : large_lock_;
  lock.lock();
  --(small ? small_[size.index].allocations : large_allocations_);
  lock.unlock();
}

void* PooledAllocator::from_system(size_t bytes) noexcept {
  if (bytes > kTooMuch) return nullptr;
  void* data = raw_allocate_(device_, bytes, nullptr);
  if (data == nullptr) {
    trim();
    data = raw_allocate_(device_, bytes, nullptr);
  }
  return data;
}

void* PooledAllocator::allocate(size_t nbytes) {
  if (nbytes > kTooMuch) return nullptr;
  const Class size = class_of(nbytes);
  void* data = take(size);
  if (data == nullptr) {
    data = from_system(size.bytes);
    if (data == nullptr) {
      count_refused(size);
      return nullptr;
    }
    close(data, size.bytes);
  }
  open(data, nbytes);
  count_active(static_cast<int64_t>(size.bytes));
  return data;
}

void PooledAllocator::release(void* data, size_t nbytes) noexcept {
  if (data == nullptr) return;
  const Class size = class_of(nbytes);
  active_.fetch_sub(static_cast<int64_t>(size.bytes), std::memory_order_relaxed);
  close(data, size.bytes);
  if (keep(size, data)) return;
  open(data, size.bytes);
  raw_release_(device_, data, size.bytes, nullptr);
}

size_t PooledAllocator::trim() noexcept {
  size_t freed = 0;
  const auto give_back = [&](const std::vector<void*>& blocks, size_t bytes) {
    for (void* data : blocks) {
      open(data, bytes);
      raw_release_(device_, data, bytes, nullptr);
      freed += bytes;
    }
  };
  // The blocks leave the lists under the lock and go to the system outside it.
  for (size_t i = 0; i < kSmallClasses; ++i) {
    std::vector<void*> blocks;
    small_[i].lock.lock();
    blocks.swap(small_[i].idle);
    small_[i].lock.unlock();
    if (blocks.empty()) continue;
    give_back(blocks, small_bytes(i));
  }
  std::map<size_t, std::vector<void*>> large;
  large_lock_.lock();
  large.swap(large_);
  large_idle_ = 0;
  large_lock_.unlock();
  for (const auto& entry : large) give_back(entry.second, entry.first);
  if (raw_trim_ != nullptr) raw_trim_(device_);
  return freed;
}

MemoryStats PooledAllocator::stats() const {
  MemoryStats result;
  for (size_t i = 0; i < kSmallClasses; ++i) {
    FreeList& list = small_[i];
    const size_t bytes = small_bytes(i);
    list.lock.lock();
    result.cached_bytes += static_cast<int64_t>(list.idle.size() * bytes);
    result.allocations += list.allocations;
    result.system_allocations += list.system_allocations;
    list.lock.unlock();
  }
  large_lock_.lock();
  result.cached_bytes += static_cast<int64_t>(large_idle_);
  result.allocations += large_allocations_;
  result.system_allocations += large_system_allocations_;
  large_lock_.unlock();
  result.active_bytes = active_.load(std::memory_order_relaxed);
  result.peak_bytes = peak_.load(std::memory_order_relaxed);
  return result;
}

void PooledAllocator::lock_all() noexcept {
  for (FreeList& list : small_) list.lock.lock();
  large_lock_.lock();
}

void PooledAllocator::unlock_all() noexcept {
  large_lock_.unlock();
  for (FreeList& list : small_) list.lock.unlock();
}

}  // namespace

void detail::lock_allocators() noexcept {
  registry_lock.lock();
  for (PooledAllocator* one = registry; one != nullptr; one = one->next_allocator) one->lock_all();
}

void detail::unlock_allocators() noexcept {
  for (PooledAllocator* one = registry; one != nullptr; one = one->next_allocator) one->unlock_all();
  registry_lock.unlock();
}

Allocator& host_allocator() {
  // Never destroyed: blocks may outlive every other static.
  static PooledAllocator* allocator = new PooledAllocator(host_allocate, host_release, nullptr, 0, true);
  return *allocator;
}

std::unique_ptr<Allocator> make_pooled_allocator(void* (*raw_allocate)(int32_t, size_t, clika_stream),
                                                 void (*raw_release)(int32_t, void*, size_t, clika_stream),
                                                 void (*raw_trim)(int32_t), int32_t device) {
  return std::make_unique<PooledAllocator>(raw_allocate, raw_release, raw_trim, device, false);
}

}  // namespace clika
