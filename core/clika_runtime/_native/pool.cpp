#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "sync.hpp"

#if defined(__linux__)
#include <sched.h>
#endif

namespace clika {
namespace {

constexpr int64_t kSpin = 100000;  // nanoseconds a worker looks for the next region before it sleeps
constexpr int64_t kPieces = 8;     // per thread: enough to even out, few enough to be cheap
constexpr int32_t kMaxThreads = 1024;

#if defined(__linux__)
int32_t affinity_processors() noexcept {
  // The kernel refuses a mask smaller than its own; grow until it fits.
  for (int bits = 1024; bits <= (1 << 20); bits *= 4) {
    cpu_set_t* set = CPU_ALLOC(bits);
    if (set == nullptr) return 0;
    const size_t size = CPU_ALLOC_SIZE(bits);
    CPU_ZERO_S(size, set);
    const int failed = sched_getaffinity(0, size, set);
    const int count = failed == 0 ? CPU_COUNT_S(size, set) : 0;
    CPU_FREE(set);
    if (failed == 0) return count;
  }
  return 0;
}

}  // namespace

// C streams on purpose: C++ ones bring locale machinery that clashes with another libstdc++ in the process.
static std::string first_line(const std::string& path) {
  char line[256] = "";
  if (std::FILE* file = std::fopen(path.c_str(), "r")) {
    if (std::fgets(line, sizeof(line), file) == nullptr) line[0] = '\0';
    std::fclose(file);
  }
  return line;
}

double detail::cgroup_quota(const std::string& root, std::string folder, bool version2) {
  double least = 0;
  for (;;) {
    double quota = -1;
    double period = 0;
    if (version2) {
      // "max 100000" says that there is no quota: no number is read.
      const std::string text = first_line(root + folder + "/cpu.max");
      if (std::sscanf(text.c_str(), "%lf %lf", &quota, &period) != 2) quota = -1;
    } else {
      const std::string quota_text = first_line(root + folder + "/cpu.cfs_quota_us");
      const std::string period_text = first_line(root + folder + "/cpu.cfs_period_us");
      const bool known = std::sscanf(quota_text.c_str(), "%lf", &quota) == 1 &&
                         std::sscanf(period_text.c_str(), "%lf", &period) == 1;
      if (!known) quota = -1;
    }
    if (quota > 0 && period > 0 && (least == 0 || quota / period < least)) least = quota / period;
    const size_t slash = folder.find_last_of('/');
    if (slash == std::string::npos) return least;
    folder.resize(slash);
  }
}

namespace {

int32_t cgroup_processors() {
  std::FILE* file = std::fopen("/proc/self/cgroup", "r");
  if (file == nullptr) return 0;
  double least = 0;
  char text[4096];
  while (std::fgets(text, sizeof(text), file) != nullptr) {
    std::string line = text;  // hierarchy:controllers:path
    if (!line.empty() && line.back() == '\n') line.pop_back();
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    double quota = 0;
    if (controllers == ",,") {
      quota = detail::cgroup_quota("/sys/fs/cgroup", path, true);
      // In a container the path is often the host's, while the mount is the container's own.
      if (quota == 0) quota = detail::cgroup_quota("/sys/fs/cgroup", "", true);
    } else if (controllers.find(",cpu,") != std::string::npos) {
      quota = detail::cgroup_quota("/sys/fs/cgroup/cpu", path, false);
      if (quota == 0) quota = detail::cgroup_quota("/sys/fs/cgroup/cpu", "", false);
    }
    if (quota > 0 && (least == 0 || quota < least)) least = quota;
  }
  std::fclose(file);
  return static_cast<int32_t>(std::ceil(std::min<double>(least, kMaxThreads)));
}
#endif

int32_t count_processors() noexcept {
  int32_t count = static_cast<int32_t>(std::thread::hardware_concurrency());
#if defined(__linux__)
  const int32_t affinity = affinity_processors();
  if (affinity > 0) count = affinity;
  try {
    const int32_t quota = cgroup_processors();
    if (quota > 0) count = std::min(count, quota);
  } catch (const std::exception&) {
    // No memory to read the files with: the affinity has to do.
  }
#endif
  return std::max(1, std::min(count, kMaxThreads));
}

constexpr const char* kThreadsVariable = "CLIKA_RT_NUM_THREADS";

// The number that the environment asks for; 0 where it asks for none, -1 where its text is no such number.
int32_t asked_threads() noexcept {
  const char* text = std::getenv(kThreadsVariable);
  if (text == nullptr || *text == '\0') return 0;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  return *end == '\0' && value >= 1 && value <= kMaxThreads ? static_cast<int32_t>(value) : -1;
}

int32_t wanted_threads() noexcept {
  const int32_t asked = asked_threads();
  return asked > 0 ? asked : detail::usable_processors();
}

// Constant initialisation, so that an access needs no guard.
thread_local int32_t region_worker = -1;         // the worker this thread is in a region; -1: in none
thread_local ErrorPtr* region_failure = nullptr;  // what a piece threw; owned

void note_failure(ErrorPtr error) noexcept {
  if (region_failure == nullptr) region_failure = new ErrorPtr(std::move(error));
}

void run_piece(clika_range_fn fn, void* arg, int64_t begin, int64_t end, int32_t worker) noexcept {
  try {
    fn(arg, begin, end, worker);
  } catch (const std::exception& exception) {
    note_failure(make_error(CLIKA_INTERNAL, "INTERNAL",
                            std::string("parallel_for: a piece threw ") + exception.what()));
  } catch (...) {
    note_failure(make_error(CLIKA_INTERNAL, "INTERNAL", "parallel_for: a piece threw an unknown exception"));
  }
}

}  // namespace

int32_t detail::usable_processors() noexcept {
  static const int32_t count = count_processors();
  return count;
}

bool detail::worth_spinning() noexcept {
  static const bool worth = usable_processors() > 1;
  return worth;
}

namespace {

// The processor that the calling thread runs on; -1 where that is not known.
int32_t this_processor() noexcept {
#if defined(__linux__)
  return sched_getcpu();
#else
  return -1;
#endif
}

// Moves the calling thread off a processor. A scheduler likes to wake a thread where its waker runs, and a worker there
// would only take turns with the caller that it is to help.
void leave_processor(int32_t processor) noexcept {
#if defined(__linux__)
  if (processor < 0 || sched_getcpu() != processor) return;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  cpu_set_t others = allowed;
  CPU_CLR(processor, &others);
  if (CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof(others), &others) == 0) {
    sched_setaffinity(0, sizeof(allowed), &allowed);
  }
#else
  static_cast<void>(processor);
#endif
}

}  // namespace

// A run of pieces that lie side by side. Who joins starts with a share of its own, so that it walks through memory in
// one stream, and then helps with the others'.
struct alignas(64) Share {
  std::atomic<int64_t> next{0};
  int64_t end = 0;
};

// A region is open while fewer workers than wanted have joined. Workers join by themselves; the caller closes
// the region when no piece is left and waits only for those that joined, so a sleeping worker delays nobody.
struct Pool::Impl {
  // epoch << 32 | wanted << 16 | joined
  alignas(64) std::atomic<uint64_t> state{0};
  alignas(64) std::atomic<uint32_t> finished{0};
  alignas(64) std::atomic<bool> busy{false};  // a region is under way
  // The region, written while it is closed.
  clika_range_fn fn = nullptr;
  void* arg = nullptr;
  int64_t n = 0;
  int64_t piece = 0;
  int64_t pieces = 0;
  std::unique_ptr<Share[]> shares{new Share[1]};
  int64_t share_count = 1;  // of the region
  int64_t share_room = 1;
  SpinLock failure_lock;
  ErrorPtr failure;
  // Sleep.
  std::atomic<uint32_t> sleepers{0};
  std::atomic<int32_t> caller{-1};  // the processor of who woke them last
  std::atomic<bool> stopping{false};
  std::mutex mutex;
  std::condition_variable wake;
  std::vector<std::thread> threads;
  bool no_more_threads = false;
  Impl* parents = nullptr;  // what a fork left behind, so that leak checkers see a holder
  std::atomic<int32_t> threads_wanted{0};  // 0: not asked yet, so that the variable may be set until then

  int32_t size() noexcept {
    int32_t count = threads_wanted.load(std::memory_order_relaxed);
    if (count == 0) {
      int32_t expected = 0;
      count = wanted_threads();
      if (!threads_wanted.compare_exchange_strong(expected, count)) count = expected;
    }
    return count;
  }
  static uint32_t epoch(uint64_t state) { return static_cast<uint32_t>(state >> 32); }
  static bool open(uint64_t state) { return (state & 0xffff) < ((state >> 16) & 0xffff); }

  // Shares for as many threads; fewer where there is no memory.
  void share_out(int64_t wanted) noexcept {
    if (wanted > share_room) {
      Share* made = new (std::nothrow) Share[static_cast<size_t>(wanted)];
      if (made != nullptr) {
        shares.reset(made);
        share_room = wanted;
      }
    }
    share_count = std::max<int64_t>(1, std::min({wanted, share_room, pieces}));
    for (int64_t i = 0; i < share_count; ++i) {
      shares[i].next.store(pieces * i / share_count, std::memory_order_relaxed);
      shares[i].end = pieces * (i + 1) / share_count;
    }
  }

  // `place` counts those who joined, the caller being the first.
  void run(int32_t worker, int64_t place) noexcept {
    region_worker = worker;
    const clika_range_fn call = fn;
    void* const with = arg;
    for (int64_t turn = 0; turn < share_count; ++turn) {
      Share& share = shares[(place + turn) % share_count];
      while (share.next.load(std::memory_order_relaxed) < share.end) {
        const int64_t i = share.next.fetch_add(1, std::memory_order_relaxed);
        if (i >= share.end) break;
        const int64_t begin = i * piece;
        run_piece(call, with, begin, i + 1 == pieces ? n : begin + piece, worker);
      }
    }
    region_worker = -1;
    if (region_failure != nullptr) {
      ErrorPtr error = take_failure();
      failure_lock.lock();
      if (failure == nullptr) failure.swap(error);
      failure_lock.unlock();
    }
  }

  void work(int32_t worker) {
    detail::name_thread("clika-pool");
    uint32_t seen = 0;
    for (;;) {
      detail::Spinner spinner(kSpin);
      bool joined = false;
      int64_t place = 0;
      while (!joined) {
        uint64_t now = state.load(std::memory_order_acquire);
        if (open(now) && epoch(now) != seen) {
          joined = state.compare_exchange_weak(now, now + 1, std::memory_order_acq_rel);
          if (joined) {
            seen = epoch(now);
            place = static_cast<int64_t>(now & 0xffff) + 1;
          }
          continue;
        }
        if (stopping.load(std::memory_order_acquire)) return;
        if (spinner.again()) continue;
        std::unique_lock<std::mutex> lock(mutex);
        // Sequentially consistent with the caller, who opens and then counts the sleepers.
        sleepers.fetch_add(1, std::memory_order_seq_cst);
        wake.wait(lock, [&] {
          const uint64_t state_now = state.load(std::memory_order_seq_cst);
          return stopping.load(std::memory_order_relaxed) || (open(state_now) && epoch(state_now) != seen);
        });
        sleepers.fetch_sub(1, std::memory_order_relaxed);
        lock.unlock();
        leave_processor(caller.load(std::memory_order_relaxed));
      }
      run(worker, place);
      finished.fetch_add(1, std::memory_order_release);
    }
  }

  // The workers that exist, at most `wanted`, started if need be.
  int64_t start(int64_t wanted) {
    while (static_cast<int64_t>(threads.size()) < wanted && !no_more_threads) {
      try {
        detail::SignalsBlocked blocked;
        const int32_t worker = static_cast<int32_t>(threads.size()) + 1;
        threads.emplace_back(&Impl::work, this, worker);
      } catch (const std::exception&) {
        no_more_threads = true;  // fewer will do
      }
    }
    return std::min<int64_t>(wanted, static_cast<int64_t>(threads.size()));
  }

  void rouse(int64_t wanted) {
    const int64_t asleep = sleepers.load(std::memory_order_seq_cst);
    if (asleep == 0) return;
    caller.store(this_processor(), std::memory_order_relaxed);
    { std::lock_guard<std::mutex> guard(mutex); }
    if (wanted >= asleep) {
      wake.notify_all();
    } else {
      for (int64_t i = 0; i < wanted; ++i) wake.notify_one();
    }
  }
};

Pool::Pool() : impl_(new Impl()) {}

Pool& Pool::get() {
  static Pool* pool = new Pool();
  return *pool;
}

int32_t Pool::size() const noexcept { return impl_.load(std::memory_order_relaxed)->size(); }

ErrorPtr Pool::check_environment() {
  if (asked_threads() >= 0) return nullptr;
  return make_error(CLIKA_INVALID_ARGUMENT, "INVALID_ARGUMENT",
                    std::string(kThreadsVariable) + " is '" + std::getenv(kThreadsVariable) +
                        "'; it takes a whole number from 1 to " + std::to_string(kMaxThreads));
}

ErrorPtr Pool::take_failure() noexcept {
  if (region_failure == nullptr) return nullptr;
  ErrorPtr error = std::move(*region_failure);
  delete region_failure;
  region_failure = nullptr;
  return error;
}

void Pool::parallel_for(int64_t n, int64_t grain, clika_range_fn fn, void* arg) {
  if (n <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  Impl& impl = *impl_.load(std::memory_order_relaxed);
  const int64_t units = n / grain;
  if (units < 2 || impl.size() == 1 || region_worker >= 0 || impl.busy.load(std::memory_order_relaxed) ||
      impl.busy.exchange(true, std::memory_order_acquire)) {
    run_piece(fn, arg, 0, n, std::max(region_worker, 0));
    return;
  }
  const int64_t helpers = impl.start(std::min<int64_t>(units, impl.size()) - 1);
  const int64_t units_a_piece = (units + (helpers + 1) * kPieces - 1) / ((helpers + 1) * kPieces);
  impl.fn = fn;
  impl.arg = arg;
  impl.n = n;
  impl.piece = units_a_piece * grain;
  impl.pieces = (units + units_a_piece - 1) / units_a_piece;
  impl.share_out(helpers + 1);
  const uint64_t epoch = Impl::epoch(impl.state.load(std::memory_order_relaxed)) + uint64_t{1};
  impl.state.store(epoch << 32 | static_cast<uint64_t>(helpers) << 16, std::memory_order_seq_cst);
  impl.rouse(helpers);
  impl.run(0, 0);
  const uint64_t joined = impl.state.fetch_and(~uint64_t{0xffff0000}, std::memory_order_acq_rel) & 0xffff;
  const uint32_t generation = fork_generation.load(std::memory_order_relaxed);
  detail::Backoff backoff;
  while (impl.finished.load(std::memory_order_acquire) != joined) {
    // In a child that a piece forked, the workers are not there any more.
    if (impl_.load(std::memory_order_relaxed) != &impl || fork_generation != generation) return;
    backoff.wait();
  }
  impl.finished.store(0, std::memory_order_relaxed);
  if (impl.failure != nullptr) {
    note_failure(std::move(impl.failure));
    impl.failure = nullptr;
  }
  impl.busy.store(false, std::memory_order_release);
}

void Pool::shutdown() {
  if (region_worker >= 0) return;
  Impl& impl = *impl_.load(std::memory_order_relaxed);
  detail::Backoff backoff;
  while (impl.busy.exchange(true, std::memory_order_acquire)) backoff.wait();
  {
    std::lock_guard<std::mutex> guard(impl.mutex);
    impl.stopping.store(true, std::memory_order_release);
  }
  impl.wake.notify_all();
  for (std::thread& thread : impl.threads) thread.join();
  impl.threads.clear();
  impl.stopping.store(false, std::memory_order_relaxed);
  impl.busy.store(false, std::memory_order_release);
}

void Pool::after_fork_in_child() noexcept {
  Pool& pool = get();
  // The old one stays where it is: its locks may be held, its threads do not exist.
  Impl* impl = new Impl();
  impl->parents = pool.impl_.load(std::memory_order_relaxed);
  impl->threads_wanted.store(impl->parents->threads_wanted.load(std::memory_order_relaxed),
                             std::memory_order_relaxed);
  pool.impl_.store(impl, std::memory_order_relaxed);
}

}  // namespace clika
