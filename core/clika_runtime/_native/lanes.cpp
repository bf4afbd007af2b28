#include <algorithm>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "sync.hpp"

namespace clika {
namespace {

constexpr int64_t kSpin = 50000;  // nanoseconds before a waiter or an idle worker sleeps
constexpr size_t kPendingBytes = size_t{1} << 30;
constexpr size_t kPendingCalls = 4096;
// Microseconds that fork waits for what was issued before it. More would be a risk: the work may need a lock
// that the forking thread holds, the interpreter's for one.
constexpr int64_t kForkPatience = 1000000;
constexpr uint64_t kNoSequence = ~uint64_t{0};
constexpr int kDepth = 8;  // inline calls within inline calls on one thread; deeper ones are queued

std::atomic<Lane*> all_lanes{nullptr};

// What this thread is executing, innermost last, and the lane it issues to at each depth. Constant
// initialisation, so that an access needs no guard.
struct Frame {
  Lane* lane;
  uint64_t sequence;
};
struct ThreadState {
  int depth = 0;
  Frame frames[kDepth] = {};
  Lane* lanes[kDepth + 1] = {};
};
thread_local ThreadState thread_state;

// Hands the thread's lanes on when it ends.
struct LaneHandle {
  bool used = false;
  ~LaneHandle() {
    for (Lane*& lane : thread_state.lanes) {
      if (lane != nullptr) lane->retire();
      lane = nullptr;
    }
  }
};
thread_local LaneHandle lane_handle;

// An event that this thread itself is about to finish: waiting for it would never end.
bool executing_here(const Event& event) noexcept {
  const ThreadState& state = thread_state;
  for (int i = 0; i < state.depth; ++i) {
    if (state.frames[i].lane == event.lane && state.frames[i].sequence <= event.sequence) return true;
  }
  return false;
}

bool finished(const Event& event) noexcept { return event.done() || executing_here(event); }

bool writes(AccessKind kind) noexcept { return kind != AccessKind::kRead; }

}  // namespace

// ---------------------------------------------------------------- hazards of a storage
bool Storage::settled(bool write) const noexcept {
  if (!finished(writer_)) return false;
  return !write || readers_.all(finished);
}

// Inline: registers the access if nothing stands in its way.
bool Storage::claim(AccessKind kind, Event mine) noexcept {
  if (kind == AccessKind::kFresh) return true;
  Hold hold(*this);
  adopt_abandoned();
  if (!settled(writes(kind))) return false;
  if (writes(kind)) {
    writer_ = mine;
    readers_.clear();
  } else {
    readers_.add(mine);
  }
  return true;
}

// Queued, under the lock: registers the access and collects what the task has to wait for.
void Storage::enroll(AccessKind kind, Event mine, EventList& hazards) {
  adopt_abandoned();
  const auto collect = [&](const Event& event) {
    // Tasks of one lane run in order, so its own events need no wait.
    if (event.lane != mine.lane && !finished(event)) hazards.add(event);
  };
  if (writer_.lane != nullptr) collect(writer_);
  if (writes(kind)) {
    readers_.each(collect);
    writer_ = mine;
    readers_.clear();
  } else {
    readers_.add(mine);
  }
}

bool Storage::wait(bool write, int64_t timeout_us) const {
  Event writer;
  EventList readers;
  {
    Hold hold(*this);
    if (settled(write)) return true;
    writer = writer_;
    if (write) readers = readers_;
  }
  if (timeout_us < 0) {
    if (writer.lane != nullptr) writer.lane->wait(writer.sequence);
    readers.each([](const Event& event) { event.lane->wait(event.sequence); });
    return true;
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(timeout_us);
  const auto wait_one = [&](const Event& event) {
    const auto left = std::chrono::duration_cast<std::chrono::microseconds>(
        end - std::chrono::steady_clock::now());
    return event.lane->wait_for(event.sequence, std::max<int64_t>(left.count(), 0));
  };
  if (writer.lane != nullptr && !wait_one(writer)) return false;
  return readers.all(wait_one);
}

bool Storage::ready_for_read() const noexcept {
  Hold hold(*this);
  return settled(false);
}

bool Storage::ready_for_write() const noexcept {
  Hold hold(*this);
  return settled(true);
}

void Storage::wait_for_read() const { wait(false, -1); }
void Storage::wait_for_write() const { wait(true, -1); }
bool Storage::wait_for_read(int64_t timeout_us) const { return wait(false, timeout_us); }
bool Storage::wait_for_write(int64_t timeout_us) const { return wait(true, timeout_us); }

ErrorPtr first_poison(const Access* accesses, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    if (accesses[i].kind != AccessKind::kRead && accesses[i].kind != AccessKind::kUpdate) continue;
    if (!accesses[i].storage->maybe_poisoned()) continue;
    if (ErrorPtr error = accesses[i].storage->poison()) return error;
  }
  return nullptr;
}

void settle_writes(const Access* accesses, size_t n, const ErrorPtr& error) {
  for (size_t i = 0; i < n; ++i) {
    if (!writes(accesses[i].kind)) continue;
    // A part that was written leaves the poison of the rest.
    const bool keeps = accesses[i].kind == AccessKind::kUpdate || !accesses[i].storage->maybe_poisoned();
    if (error == nullptr && keeps) continue;
    accesses[i].storage->set_poison(error);
  }
}

// ---------------------------------------------------------------- lanes
struct Lane::Impl {
  SpinLock lock;  // the queue and the three flags; taken before any storage's lock
  Task* head = nullptr;
  Task* tail = nullptr;
  bool alive = false;     // a worker looks at the queue
  bool stopping = false;  // it ends when the queue is empty
  std::atomic<bool> sleeping{false};
  std::atomic<bool> has_work{false};
  std::mutex sleep_mutex;
  std::condition_variable wake;
  std::mutex done_mutex;
  std::condition_variable done;
  std::mutex thread_mutex;
  std::thread thread;
  std::atomic<size_t> pending_bytes{0};
  std::atomic<size_t> max_bytes{kPendingBytes};
  std::atomic<size_t> max_calls{kPendingCalls};
  // Half-open on the left: what was issued and unfinished at each fork. Written in the child only, while it
  // has one thread.
  std::vector<std::pair<uint64_t, uint64_t>> abandoned;
  Impl* parents = nullptr;  // what a fork left behind, so that leak checkers see a holder

  // The worker waits for `sleeping` to fall.
  void rouse() {
    { std::lock_guard<std::mutex> guard(sleep_mutex); }
    wake.notify_one();
  }
};

Lane::Lane() : impl_(new Impl()) {}

Lane* Lane::acquire(Holder holder) {
  // A lane that still has work of its former holder would delay the new one: take an idle one.
  for (Lane* lane = all_lanes.load(std::memory_order_acquire); lane != nullptr; lane = lane->next_lane_) {
    int32_t expected = kFree;
    if (lane->holder_.load(std::memory_order_relaxed) == kFree && lane->idle() &&
        lane->holder_.compare_exchange_strong(expected, holder, std::memory_order_acq_rel)) {
      return lane;
    }
  }
  Lane* lane = new Lane();
  lane->holder_.store(holder, std::memory_order_relaxed);
  lane->next_lane_ = all_lanes.load(std::memory_order_relaxed);
  while (!all_lanes.compare_exchange_weak(lane->next_lane_, lane, std::memory_order_acq_rel)) {
  }
  return lane;
}

Lane& Lane::current() {
  ThreadState& state = thread_state;
  Lane*& lane = state.lanes[state.depth];
  if (lane == nullptr) {
    lane_handle.used = true;  // makes its destructor run at the thread's end
    lane = acquire(kThread);
  }
  return *lane;
}

Lane* Lane::create() { return acquire(kStream); }

void Lane::retire() noexcept { holder_.store(kFree, std::memory_order_release); }

Lane* Lane::running() noexcept {
  const ThreadState& state = thread_state;
  return state.depth == 0 ? nullptr : state.frames[state.depth - 1].lane;
}

void Lane::cancel() noexcept { cancelled_.store(true, std::memory_order_relaxed); }

void Lane::set_bounds(size_t bytes, size_t calls) noexcept {
  impl_->max_bytes.store(bytes, std::memory_order_relaxed);
  impl_->max_calls.store(std::max<size_t>(calls, 1), std::memory_order_relaxed);
}

bool Lane::abandoned(uint64_t sequence) const noexcept {
  for (const auto& range : impl_->abandoned) {
    if (sequence > range.first && sequence <= range.second) return true;
  }
  return false;
}

// ---------------------------------------------------------------- inline calls
uint64_t Lane::begin_inline(const Access* accesses, size_t n) noexcept {
  ThreadState& state = thread_state;
  uint64_t idle_at = completed_.load(std::memory_order_acquire);
  if (issued_.load(std::memory_order_relaxed) != idle_at || state.depth == kDepth) return 0;
  const uint64_t sequence = idle_at + 1;
  // Only one thread can take the lane from idle.
  if (!issued_.compare_exchange_strong(idle_at, sequence, std::memory_order_acq_rel,
                                       std::memory_order_relaxed)) {
    return 0;
  }
  state.frames[state.depth++] = Frame{this, sequence};
  for (size_t i = 0; i < n; ++i) {
    if (!accesses[i].storage->claim(accesses[i].kind, Event{this, sequence})) {
      // What was claimed so far was settled before and is settled again now.
      end_inline(sequence);
      return 0;
    }
  }
  if (cancelled_.load(std::memory_order_relaxed)) cancelled_.store(false, std::memory_order_relaxed);
  return sequence;
}

void Lane::end_inline(uint64_t sequence) noexcept {
  --thread_state.depth;
  complete(sequence);
}

void Lane::complete(uint64_t sequence) noexcept {
  // After a fork inside the call the child counts it as finished already.
  if (completed_.load(std::memory_order_relaxed) >= sequence) return;
  // Sequentially consistent with the sleepers' count in wait_for: one of the two sees the other.
  completed_.store(sequence, std::memory_order_seq_cst);
  if (waiters_.load(std::memory_order_seq_cst) != 0) wake_waiters();
}

void Lane::wake_waiters() const noexcept {
  { std::lock_guard<std::mutex> guard(impl_->done_mutex); }
  impl_->done.notify_all();
}

// ---------------------------------------------------------------- waiting
bool Lane::wait_for(uint64_t sequence, int64_t timeout_us) const {
  const auto reached = [&] { return completed_.load(std::memory_order_seq_cst) >= sequence; };
  if (completed() >= sequence || executing_here(Event{const_cast<Lane*>(this), sequence})) return true;
  const auto start = std::chrono::steady_clock::now();
  detail::Spinner spinner(timeout_us < 0 ? kSpin : std::min(kSpin, timeout_us * 1000));
  while (spinner.again()) {
    if (completed() >= sequence) return true;
  }
  bool result = true;
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  {
    std::unique_lock<std::mutex> lock(impl_->done_mutex);
    if (timeout_us < 0) {
      impl_->done.wait(lock, reached);
    } else {
      result = impl_->done.wait_until(lock, start + std::chrono::microseconds(timeout_us), reached);
    }
  }
  waiters_.fetch_sub(1, std::memory_order_relaxed);
  return result;
}

void Lane::wait(uint64_t sequence) const { wait_for(sequence, -1); }

void Lane::synchronize() { wait(issued()); }

void Lane::wait_for_room(size_t bytes) {
  // Inside a call the wait could be for that very call.
  if (thread_state.depth != 0) return;
  for (;;) {
    const uint64_t completed = completed_.load(std::memory_order_acquire);
    const uint64_t calls = issued() - completed;
    if (calls == 0) return;
    const size_t pending = impl_->pending_bytes.load(std::memory_order_relaxed);
    const size_t limit = impl_->max_bytes.load(std::memory_order_relaxed);
    const bool room = pending == 0 || (pending <= limit && bytes <= limit - pending);
    if (calls < impl_->max_calls.load(std::memory_order_relaxed) && room) return;
    wait(completed + 1);
  }
}

// ---------------------------------------------------------------- queued calls
Event Lane::submit(std::unique_ptr<Task> owned) {
  wait_for_room(owned->pending_bytes);
  Task* task = owned.get();
  // All storages are locked at once, in the order of their addresses, and the number is drawn while they are:
  // registrations happen as if one after the other, so a task only ever waits for earlier ones.
  constexpr size_t kInPlace = 16;
  Storage* in_place[kInPlace];
  std::vector<Storage*> more;
  Storage** locked = in_place;
  if (task->accesses.size() > kInPlace) {
    more.resize(task->accesses.size());
    locked = more.data();
  }
  size_t count = 0;
  for (const Access& access : task->accesses) {
    access.storage->retain();
    if (access.kind != AccessKind::kFresh) locked[count++] = access.storage;
  }
  if (count > 1) {
    std::sort(locked, locked + count, std::less<Storage*>());
    count = static_cast<size_t>(std::unique(locked, locked + count) - locked);
  }
  Impl& impl = *impl_;
  impl.lock.lock();
  for (size_t i = 0; i < count; ++i) {
    if (locked[i]->lock_.lock()) locked[i]->repair();
  }
  const Event mine{this, issued_.fetch_add(1, std::memory_order_acq_rel) + 1};
  for (const Access& access : task->accesses) access.storage->enroll(access.kind, mine, task->hazards_);
  for (size_t i = 0; i < count; ++i) locked[i]->lock_.unlock();
  task->sequence_ = mine.sequence;
  (impl.tail == nullptr ? impl.head : impl.tail->next_) = task;
  impl.tail = task;
  owned.release();
  if (task->pending_bytes != 0) impl.pending_bytes.fetch_add(task->pending_bytes, std::memory_order_relaxed);
  impl.has_work.store(true, std::memory_order_release);
  const bool alive = impl.alive;
  const bool asleep = impl.sleeping.load(std::memory_order_relaxed);
  if (asleep) impl.sleeping.store(false, std::memory_order_relaxed);
  impl.lock.unlock();
  if (asleep) impl.rouse();
  if (!alive) start_worker();
  return mine;
}

void Lane::execute(Task* task) {
  const uint64_t sequence = task->sequence_;
  // An inline call of another thread may stand before this task.
  wait(sequence - 1);
  task->hazards_.each([](const Event& event) { event.lane->wait(event.sequence); });
  if (cancelled_.load(std::memory_order_relaxed)) cancelled_.store(false, std::memory_order_relaxed);
  Impl* const impl = impl_;  // a fork inside the task gives the child's lane another one
  ThreadState& state = thread_state;
  const int depth = state.depth;
  if (depth < kDepth) state.frames[state.depth++] = Frame{this, sequence};
  const Access* accesses = task->accesses.data();
  const size_t n = task->accesses.size();
  ErrorPtr error = first_poison(accesses, n);
  for (size_t i = 0; i < n && error == nullptr; ++i) {
    if (!writes(accesses[i].kind) || accesses[i].storage->allocate()) continue;
    error = make_error(CLIKA_INTERNAL, "OUT_OF_MEMORY",
                       "allocate: no memory for " + std::to_string(accesses[i].storage->nbytes()) +
                           " bytes on device " + std::to_string(accesses[i].storage->device()) +
                           "; free tensors that are no longer needed or use a smaller batch");
  }
  if (error == nullptr) {
    try {
      error = task->run();
    } catch (const std::exception& exception) {
      error = make_error(CLIKA_INTERNAL, "INTERNAL", std::string("kernel: threw ") + exception.what());
    } catch (...) {
      error = make_error(CLIKA_INTERNAL, "INTERNAL", "kernel: threw an unknown exception");
    }
    ErrorPtr failure = Pool::take_failure();
    if (error == nullptr) error = std::move(failure);
  }
  settle_writes(accesses, n, error);
  state.depth = depth;
  if (task->pending_bytes != 0) impl->pending_bytes.fetch_sub(task->pending_bytes, std::memory_order_relaxed);
  // Before the end is announced: who waits for this task finds its memory and its owners released.
  for (size_t i = 0; i < n; ++i) accesses[i].storage->drop();
  delete task;
  complete(sequence);
}

Task* Lane::take_work(Impl* impl) {
  detail::Spinner spinner(kSpin);
  for (;;) {
    if (impl->has_work.load(std::memory_order_acquire)) {
      impl->lock.lock();
      Task* batch = impl->head;
      impl->head = nullptr;
      impl->tail = nullptr;
      impl->has_work.store(false, std::memory_order_relaxed);
      impl->lock.unlock();
      if (batch != nullptr) return batch;
    }
    if (spinner.again()) continue;
    impl->lock.lock();
    const bool idle = impl->head == nullptr;
    if (idle && impl->stopping) {
      impl->alive = false;
      impl->lock.unlock();
      return nullptr;
    }
    impl->sleeping.store(idle, std::memory_order_relaxed);
    impl->lock.unlock();
    if (idle) {
      std::unique_lock<std::mutex> lock(impl->sleep_mutex);
      impl->wake.wait(lock, [&] { return !impl->sleeping.load(std::memory_order_relaxed); });
    }
    spinner = detail::Spinner(kSpin);
  }
}

void Lane::work(Impl* impl) {
  detail::name_thread("clika-lane");
  const uint32_t generation = fork_generation.load(std::memory_order_relaxed);
  while (Task* task = take_work(impl)) {
    while (task != nullptr) {
      Task* next = task->next_;
      execute(task);
      // A task has forked and this is the child: its lanes have been rebuilt without this thread.
      if (fork_generation.load(std::memory_order_relaxed) != generation) return;
      task = next;
    }
  }
}

void Lane::start_worker() {
  Impl* impl = impl_;
  std::lock_guard<std::mutex> guard(impl->thread_mutex);
  impl->lock.lock();
  const bool needed = !impl->alive && impl->head != nullptr;
  if (needed) impl->alive = true;
  impl->lock.unlock();
  if (!needed) return;
  if (impl->thread.joinable()) impl->thread.join();
  try {
    detail::SignalsBlocked blocked;
    impl->thread = std::thread(&Lane::work, this, impl);
  } catch (const std::system_error&) {
    // No thread to be had: the caller does the work. The queue is empty afterwards, so the next submission
    // tries again.
    for (;;) {
      impl->lock.lock();
      Task* batch = impl->head;
      impl->head = nullptr;
      impl->tail = nullptr;
      impl->has_work.store(false, std::memory_order_relaxed);
      if (batch == nullptr) impl->alive = false;
      impl->lock.unlock();
      if (batch == nullptr) return;
      while (batch != nullptr) {
        Task* next = batch->next_;
        execute(batch);
        batch = next;
      }
    }
  }
}

void Lane::stop_worker() {
  Impl* impl = impl_;
  impl->lock.lock();
  impl->stopping = true;
  const bool asleep = impl->sleeping.load(std::memory_order_relaxed);
  impl->sleeping.store(false, std::memory_order_relaxed);
  impl->lock.unlock();
  if (asleep) impl->rouse();
  std::thread thread;
  {
    std::lock_guard<std::mutex> guard(impl->thread_mutex);
    thread = std::move(impl->thread);
  }
  if (thread.joinable()) thread.join();
  impl->lock.lock();
  impl->stopping = false;
  impl->lock.unlock();
}

void drain_all_lanes() {
  // A task may have issued to a lane that was looked at before: go round until all are idle. The limit is
  // for threads that never stop issuing.
  bool busy = true;
  for (int round = 0; round < 16 && busy; ++round) {
    busy = false;
    for (Lane* lane = all_lanes.load(std::memory_order_acquire); lane != nullptr; lane = lane->next_lane_) {
      if (lane->idle() || executing_here(Event{lane, lane->issued()})) continue;
      busy = true;
      lane->synchronize();
    }
  }
  for (Lane* lane = all_lanes.load(std::memory_order_acquire); lane != nullptr; lane = lane->next_lane_) {
    if (!executing_here(Event{lane, lane->issued()})) lane->stop_worker();
  }
}

void Lane::before_fork() noexcept {
  // Inside a call, what is under way may wait for this very call.
  if (thread_state.depth != 0) return;
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(kForkPatience);
  for (Lane* lane = all_lanes.load(std::memory_order_acquire); lane != nullptr; lane = lane->next_lane_) {
    if (lane->idle()) continue;
    const auto left = end - std::chrono::steady_clock::now();
    const int64_t us = std::chrono::duration_cast<std::chrono::microseconds>(left).count();
    if (!lane->wait_for(lane->issued(), std::max<int64_t>(us, 0))) return;
  }
}

void Lane::after_fork_in_child() noexcept {
  ThreadState& state = thread_state;
  // The calls that this thread is inside count as finished here: what comes after them on their lanes, which others may
  // hold by then, is waited for.
  for (int i = 0; i < state.depth; ++i) state.frames[i].sequence = kNoSequence;
  for (Lane* lane = all_lanes.load(std::memory_order_acquire); lane != nullptr; lane = lane->next_lane_) {
    const uint64_t completed = lane->completed_.load(std::memory_order_relaxed);
    const uint64_t issued = lane->issued_.load(std::memory_order_relaxed);
    // The old one stays where it is: its locks may be held, its thread does not exist.
    Impl* old = lane->impl_;
    lane->impl_ = new Impl();
    lane->impl_->max_bytes.store(old->max_bytes.load(std::memory_order_relaxed), std::memory_order_relaxed);
    lane->impl_->max_calls.store(old->max_calls.load(std::memory_order_relaxed), std::memory_order_relaxed);
    lane->impl_->abandoned = old->abandoned;
    lane->impl_->parents = old;
    if (issued > completed) lane->impl_->abandoned.emplace_back(completed, issued);
    lane->completed_.store(issued, std::memory_order_release);
    lane->waiters_.store(0, std::memory_order_relaxed);
    lane->cancelled_.store(false, std::memory_order_relaxed);
    // Lanes of threads that are not here any more.
    const bool mine = std::find(state.lanes, state.lanes + kDepth + 1, lane) != state.lanes + kDepth + 1;
    if (!mine && lane->holder_.load(std::memory_order_relaxed) == kThread) lane->retire();
  }
}

}  // namespace clika
