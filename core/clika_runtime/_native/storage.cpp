#include <new>
#include <utility>

#include "sync.hpp"

namespace clika {

bool SpinLock::lock_slow(uint32_t mine) noexcept {
  detail::Backoff backoff;
  for (;;) {
    uint32_t seen = word_.load(std::memory_order_relaxed);
    if (seen == 0) {
      if (word_.compare_exchange_weak(seen, mine, std::memory_order_acquire, std::memory_order_relaxed)) {
        return false;
      }
    } else if (seen != mine) {
      // Its holder was a thread of the parent, which does not exist here.
      if (word_.compare_exchange_weak(seen, mine, std::memory_order_acquire, std::memory_order_relaxed)) {
        return true;
      }
    }
    backoff.wait();
  }
}

// ---------------------------------------------------------------- event lists
void EventList::add(Event event) {
  if (first_.lane == event.lane) {
    if (event.sequence > first_.sequence) first_.sequence = event.sequence;
    return;
  }
  for (Event& other : more_) {
    if (other.lane == event.lane) {
      if (event.sequence > other.sequence) other.sequence = event.sequence;
      return;
    }
  }
  if (first_.done()) {
    first_ = event;
    return;
  }
  for (Event& other : more_) {
    if (other.done()) {
      other = event;
      return;
    }
  }
  more_.push_back(event);
}

// ---------------------------------------------------------------- storage
const ErrorPtr& detail::fork_error() {
  static const ErrorPtr* error = new ErrorPtr(
      make_error(CLIKA_UNAVAILABLE, "UNAVAILABLE",
                 "fork: the value was still being computed when this process was forked, and the computation "
                 "stayed in the parent; synchronize before fork, or compute it again here"));
  return *error;
}

// Storages come and go with every eager call: each thread keeps a few records, which spares it the general
// allocator. AddressSanitizer should see every one.
namespace {

#if defined(CLIKA_ADDRESS_SANITIZER)
constexpr int kSpareRecords = 0;
#else
constexpr int kSpareRecords = 64;
#endif

struct SpareRecord {
  SpareRecord* next;
};
// Constant initialisation, so that an access needs no guard.
thread_local SpareRecord* spare_records = nullptr;
thread_local int spare_count = 0;
thread_local bool spare_closed = false;  // the thread is ending

struct SpareRecords {
  bool used = false;
  ~SpareRecords() {
    spare_closed = true;
    while (spare_records != nullptr) {
      SpareRecord* record = spare_records;
      spare_records = record->next;
      ::operator delete(record);
    }
  }
};
thread_local SpareRecords spare_owner;

}  // namespace

void* Storage::operator new(size_t size) {
  SpareRecord* record = spare_records;
  if (record == nullptr) return ::operator new(size);
  spare_records = record->next;
  --spare_count;
  return record;
}

void Storage::operator delete(void* memory) noexcept {
  if (spare_count >= kSpareRecords || spare_closed) {
    ::operator delete(memory);
    return;
  }
  if (spare_count == 0) spare_owner.used = true;  // makes its destructor run at the thread's end
  SpareRecord* record = static_cast<SpareRecord*>(memory);
  record->next = spare_records;
  spare_records = record;
  ++spare_count;
}

Storage* Storage::create(Allocator& allocator, size_t nbytes, int32_t device, bool deferred) {
  Storage* storage = new Storage();
  storage->nbytes_ = nbytes;
  storage->device_ = device;
  storage->allocator_ = &allocator;
  if (!deferred && !storage->allocate()) {
    delete storage;
    return nullptr;
  }
  return storage;
}

Storage* Storage::borrow(void* data, size_t nbytes, int32_t device, Kind kind, Release release, void* owner,
                         bool writable) {
  Storage* storage = new Storage();
  storage->kind_ = kind;
  storage->data_.store(data, std::memory_order_relaxed);
  storage->nbytes_ = nbytes;
  storage->device_ = device;
  storage->release_ = release;
  storage->owner_ = owner;
  storage->writable_ = writable;
  return storage;
}

void Storage::drop() noexcept {
  // With one reference left nobody else can add one: no read-modify-write is needed.
  if (references_.load(std::memory_order_acquire) == 1 ||
      references_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    destroy();
  }
}

void Storage::destroy() noexcept {
  void* data = data_.load(std::memory_order_relaxed);
  if (kind_ == kOwned) {
    if (data != nullptr) allocator_->release(data, nbytes_);
  } else if (release_ != nullptr) {
    release_(owner_);
  }
  delete this;
}

bool Storage::allocate() noexcept {
  if (data_.load(std::memory_order_acquire) != nullptr || kind_ != kOwned) return true;
  void* data = allocator_->allocate(nbytes_);
  if (data == nullptr) return false;
  void* expected = nullptr;
  if (!data_.compare_exchange_strong(expected, data, std::memory_order_acq_rel)) {
    allocator_->release(data, nbytes_);
  }
  return true;
}

// The thread that held the lock stayed in the parent: what it guards may be half written, so it is left
// where it is, unread, and the bytes count as lost.
void Storage::repair() noexcept {
  new (&readers_) EventList();
  new (&poison_) ErrorPtr(detail::fork_error());
  writer_ = Event{};
  poisoned_.store(true, std::memory_order_release);
}

// In a forked child, under the lock: turns an unfinished write of the parent into poison.
void Storage::adopt_abandoned() noexcept {
  if (fork_generation.load(std::memory_order_relaxed) == 1) return;
  if (writer_.lane == nullptr || !writer_.lane->abandoned(writer_.sequence)) return;
  poison_ = detail::fork_error();
  poisoned_.store(true, std::memory_order_release);
  writer_ = Event{};
}

void Storage::mark_read(Event event) noexcept {
  Hold hold(*this);
  readers_.add(event);
}

void Storage::mark_write(Event event) noexcept {
  Hold hold(*this);
  adopt_abandoned();
  writer_ = event;
  readers_.clear();
}

ErrorPtr Storage::poison() const {
  if (!maybe_poisoned()) return nullptr;
  Hold hold(*this);
  hold.storage_.adopt_abandoned();
  return poison_;
}

void Storage::set_poison(ErrorPtr error) {
  if (error == nullptr && !maybe_poisoned()) return;
  {
    Hold hold(*this);
    adopt_abandoned();
    poisoned_.store(error != nullptr, std::memory_order_release);
    poison_.swap(error);
  }
  // The old error is freed here, outside the lock.
}

// ---------------------------------------------------------------- deferred releases
namespace {

struct Deferred {
  void (*release)(void*);
  void* owner;
  Deferred* next;
};
std::atomic<Deferred*> deferred_releases{nullptr};

}  // namespace

void defer_release(void (*release)(void*), void* owner) noexcept {
  Deferred* node = new (std::nothrow) Deferred{release, owner, nullptr};
  if (node == nullptr) return;  // out of memory: the owner leaks, which harms less than a call from here
  node->next = deferred_releases.load(std::memory_order_relaxed);
  while (!deferred_releases.compare_exchange_weak(node->next, node, std::memory_order_release,
                                                  std::memory_order_relaxed)) {
  }
}

void run_deferred_releases() {
  // A release may add more: go on until none is left.
  while (Deferred* node = deferred_releases.exchange(nullptr, std::memory_order_acquire)) {
    Deferred* oldest_first = nullptr;
    while (node != nullptr) {
      Deferred* next = node->next;
      node->next = oldest_first;
      oldest_first = node;
      node = next;
    }
    while (oldest_first != nullptr) {
      Deferred* next = oldest_first->next;
      oldest_first->release(oldest_first->owner);
      delete oldest_first;
      oldest_first = next;
    }
  }
}

bool has_deferred_releases() noexcept {
  return deferred_releases.load(std::memory_order_relaxed) != nullptr;
}

}  // namespace clika
