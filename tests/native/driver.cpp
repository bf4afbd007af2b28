// Stress tests of the execution machinery without Python: pool, lanes, events, storages, allocator, fork.
// Runs plainly and under the sanitizers. `driver` runs everything, `driver NAME...` the tests whose name
// contains one of the words. The last line is "N passed, M failed".
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "sync.hpp"

#if !defined(_WIN32)
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

#if defined(__SANITIZE_THREAD__)
#define CLIKA_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CLIKA_THREAD_SANITIZER 1
#endif
#endif

namespace {

using namespace clika;
using namespace std::chrono_literals;

constexpr int kScale = 5;

// ---------------------------------------------------------------- the frame
int failures_here = 0;
std::mutex failure_mutex;

void fail(const char* file, int line, const std::string& what) {
  std::lock_guard<std::mutex> guard(failure_mutex);
  ++failures_here;
  if (failures_here <= 5) std::printf("  %s:%d: %s\n", file, line, what.c_str());
}
#define CHECK(condition)                                      \
  do {                                                        \
    if (!(condition)) fail(__FILE__, __LINE__, #condition);   \
  } while (false)
#define CHECK_EQUAL(a, b)                                                                              \
  do {                                                                                                 \
    const auto left_value = (a);                                                                       \
    const auto right_value = (b);                                                                      \
    if (!(left_value == right_value)) {                                                                \
      fail(__FILE__, __LINE__, std::string(#a " == " #b ": ") + std::to_string(left_value) + " and " + \
                                   std::to_string(right_value));                                       \
    }                                                                                                  \
  } while (false)

struct Test {
  const char* name;
  void (*run)();
};
std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}
struct Register {
  Register(const char* name, void (*run)()) { tests().push_back({name, run}); }
};
#define TEST(name)                               \
  void test_##name();                            \
  const Register register_##name{#name, test_##name}; \
  void test_##name()

// ---------------------------------------------------------------- tools
struct Call : Task {
  std::function<ErrorPtr()> body;
  ErrorPtr run() override { return body(); }
};

std::unique_ptr<Task> call(std::vector<Access> accesses, std::function<ErrorPtr()> body, size_t bytes = 0) {
  auto task = std::make_unique<Call>();
  task->accesses = std::move(accesses);
  task->body = std::move(body);
  task->pending_bytes = bytes;
  return task;
}

Access read(Storage* storage) { return {storage, AccessKind::kRead}; }
Access update(Storage* storage) { return {storage, AccessKind::kUpdate}; }
Access overwrite(Storage* storage) { return {storage, AccessKind::kOverwrite}; }
Access fresh(Storage* storage) { return {storage, AccessKind::kFresh}; }

Storage* make_storage(size_t nbytes = 8, bool deferred = false) {
  return Storage::create(host_allocator(), nbytes, 0, deferred);
}

int64_t& value(Storage* storage) { return *static_cast<int64_t*>(storage->data()); }

void join_all(std::vector<std::thread>& threads) {
  for (std::thread& thread : threads) thread.join();
}

// A task that others can hold at its place.
struct Gate {
  std::atomic<bool> reached{false};
  std::atomic<bool> open{false};
  ErrorPtr pass() {
    reached = true;
    while (!open) std::this_thread::yield();
    return nullptr;
  }
  void wait_reached() const {
    while (!reached) std::this_thread::yield();
  }
};

// ---------------------------------------------------------------- pool
struct Sum {
  std::atomic<int64_t> total{0};
  std::atomic<int64_t> items{0};
  int64_t n = 0;
  int64_t grain = 1;
  std::atomic<bool> bad{false};
  static void piece(void* arg, int64_t begin, int64_t end, int32_t worker) {
    auto* sum = static_cast<Sum*>(arg);
    int64_t total = 0;
    for (int64_t i = begin; i < end; ++i) total += i;
    sum->total += total;
    sum->items += end - begin;
    if (worker < 0 || worker >= Pool::get().size()) sum->bad = true;
    if (begin % sum->grain != 0 || begin >= end || end > sum->n) sum->bad = true;
    if (end - begin < std::min(sum->grain, sum->n)) sum->bad = true;
  }
  void run(int64_t count, int64_t least) {
    n = count;
    grain = least;
    Pool::get().parallel_for(count, least, piece, this);
    CHECK(!bad);
    CHECK_EQUAL(items.load(), count);
    CHECK_EQUAL(total.load(), count * (count - 1) / 2);
  }
};

TEST(pool_sums) {
  CHECK_EQUAL(Pool::get().size(), std::atoi(std::getenv("CLIKA_RT_NUM_THREADS")));
  for (const int64_t n : {1, 2, 3, 7, 64, 1000, 12345}) {
    for (const int64_t grain : {1, 3, 64, 100000}) {
      Sum sum;
      sum.run(n, grain);
    }
  }
  for (int i = 0; i < 2000 * kScale; ++i) {
    Sum sum;
    sum.run(100, 5);
  }
  Sum none;
  Pool::get().parallel_for(0, 1, Sum::piece, &none);
  Pool::get().parallel_for(-5, 1, Sum::piece, &none);
  CHECK_EQUAL(none.items.load(), 0);
}

TEST(pool_nested) {
  struct Outer {
    std::atomic<int64_t> items{0};
    static void piece(void* arg, int64_t begin, int64_t end, int32_t worker) {
      for (int64_t i = begin; i < end; ++i) {
        struct Inner {
          Outer* outer;
          int32_t worker;
          std::thread::id thread;
        } inner{static_cast<Outer*>(arg), worker, std::this_thread::get_id()};
        Pool::get().parallel_for(
            50, 1,
            [](void* with, int64_t from, int64_t to, int32_t which) {
              auto* in = static_cast<Inner*>(with);
              CHECK(which == in->worker && std::this_thread::get_id() == in->thread);
              in->outer->items += to - from;
            },
            &inner);
      }
    }
  } outer;
  for (int i = 0; i < 100 * kScale; ++i) Pool::get().parallel_for(20, 1, Outer::piece, &outer);
  CHECK_EQUAL(outer.items.load(), 100 * kScale * 20 * 50);
}

TEST(pool_concurrent_regions) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 1000 * kScale; ++i) {
        Sum sum;
        sum.run(500 + t, 7);
        if (i % 100 == t) std::this_thread::sleep_for(200us);  // lets workers fall asleep
      }
    });
  }
  join_all(threads);
}

TEST(pool_exceptions_stay_inside) {
  for (int i = 0; i < 20; ++i) {
    Pool::get().parallel_for(
        64, 1,
        [](void*, int64_t begin, int64_t, int32_t) {
          if (begin == 40) throw std::runtime_error("forty");
        },
        nullptr);
    const ErrorPtr error = Pool::take_failure();
    // A piece may begin before 40 and contain it.
    if (error != nullptr) CHECK(error->message.find("forty") != std::string::npos);
    CHECK(Pool::take_failure() == nullptr);
  }
  Pool::get().parallel_for(1, 1, [](void*, int64_t, int64_t, int32_t) { throw 1; }, nullptr);
  CHECK(Pool::take_failure() != nullptr);
  Pool::get().parallel_for(4096, 1, [](void*, int64_t, int64_t, int32_t) { throw 1; }, nullptr);
  CHECK(Pool::take_failure() != nullptr);
  Sum sum;
  sum.run(1000, 1);
}

TEST(pool_shutdown_and_again) {
  for (int i = 0; i < 20; ++i) {
    Sum sum;
    sum.run(1000, 10);
    Pool::get().shutdown();
  }
  Pool::get().shutdown();
}

TEST(pool_sleeps_when_idle) {
#if !defined(_WIN32)
  Sum sum;
  sum.run(1000, 1);
  std::this_thread::sleep_for(100ms);
  rusage before;
  rusage after;
  getrusage(RUSAGE_SELF, &before);
  std::this_thread::sleep_for(300ms);
  getrusage(RUSAGE_SELF, &after);
  const auto micros = [](const rusage& usage) {
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 + usage.ru_utime.tv_usec +
           usage.ru_stime.tv_usec;
  };
  CHECK(micros(after) - micros(before) < 60000);
  Sum again;
  again.run(100000, 10);
#endif
}

// ---------------------------------------------------------------- allocator
TEST(allocator_sizes) {
  Allocator& host = host_allocator();
  host.trim();
  const MemoryStats before = host.stats();
  CHECK_EQUAL(before.cached_bytes, 0);
  std::vector<size_t> sizes{0, 1, 63, 64, 65, 4096, 100000, (1 << 20) - 1, 1 << 20, (1 << 20) + 1};
  for (size_t n = 1; n < (size_t{200} << 20); n = n * 3 + 1) sizes.push_back(n);
  for (const size_t size : sizes) {
    const MemoryStats start = host.stats();
    void* data = host.allocate(size);
    CHECK(data != nullptr);
    CHECK_EQUAL(reinterpret_cast<uintptr_t>(data) % 64, uintptr_t{0});
    if (size > 0) {
      static_cast<char*>(data)[0] = 1;
      static_cast<char*>(data)[size - 1] = 2;
    }
    const MemoryStats during = host.stats();
    const int64_t block = during.active_bytes - start.active_bytes;
    CHECK(block >= static_cast<int64_t>(size));
    CHECK(block <= static_cast<int64_t>(size + size / 4 + 128));
    CHECK_EQUAL(during.allocations, start.allocations + 1);
    CHECK(during.peak_bytes >= during.active_bytes);
    host.release(data, size);
    const MemoryStats after = host.stats();
    CHECK_EQUAL(after.active_bytes, start.active_bytes);
    void* again = host.allocate(size);
    CHECK_EQUAL(host.stats().system_allocations, after.system_allocations);
    CHECK(again == data);
    host.release(again, size);
    CHECK_EQUAL(static_cast<int64_t>(host.trim()), after.cached_bytes);
    CHECK_EQUAL(host.stats().cached_bytes, 0);
  }
  CHECK_EQUAL(host.stats().active_bytes, before.active_bytes);
}

TEST(allocator_refuses_what_is_not_there) {
  Allocator& host = host_allocator();
  const MemoryStats before = host.stats();
  CHECK(host.allocate(~size_t{0}) == nullptr);
  CHECK(host.allocate(size_t{1} << 61) == nullptr);
  CHECK_EQUAL(host.stats().active_bytes, before.active_bytes);
  CHECK_EQUAL(host.stats().allocations, before.allocations);
}

TEST(allocator_threads) {
  Allocator& host = host_allocator();
  const int64_t active = host.stats().active_bytes;
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::vector<std::pair<unsigned char*, size_t>> shared;  // released by another thread than the one that took
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      std::vector<std::pair<unsigned char*, size_t>> mine;
      for (int i = 0; i < 4000 * kScale; ++i) {
        if (mine.size() < 20 && random() % 2 == 0) {
          const size_t size = size_t{1} << (random() % 15);
          auto* data = static_cast<unsigned char*>(host.allocate(size));
          std::memset(data, static_cast<int>(size % 251), size);
          mine.emplace_back(data, size);
        } else if (!mine.empty()) {
          const auto [data, size] = mine.back();
          mine.pop_back();
          CHECK(data[0] == size % 251 && data[size - 1] == size % 251);
          if (random() % 4 == 0) {
            std::lock_guard<std::mutex> guard(mutex);
            shared.emplace_back(data, size);
          } else {
            host.release(data, size);
          }
        }
        if (i % 500 == 0) {
          std::lock_guard<std::mutex> guard(mutex);
          for (const auto& [data, size] : shared) host.release(data, size);
          shared.clear();
        }
        if (i % 1000 == 0) host.trim();
      }
      for (const auto& [data, size] : mine) host.release(data, size);
    });
  }
  join_all(threads);
  for (const auto& [data, size] : shared) host.release(data, size);
  CHECK_EQUAL(host.stats().active_bytes, active);
  host.trim();
  CHECK_EQUAL(host.stats().cached_bytes, 0);
}

// A device with 1 MiB.
int64_t device_used = 0;
int device_calls = 0;
void* device_allocate(int32_t device, size_t bytes, clika_stream) {
  CHECK_EQUAL(device, 3);
  ++device_calls;
  if (device_used + static_cast<int64_t>(bytes) > (1 << 20)) return nullptr;
  device_used += static_cast<int64_t>(bytes);
  return ::operator new(bytes);
}
void device_release(int32_t device, void* data, size_t bytes, clika_stream) {
  CHECK_EQUAL(device, 3);
  device_used -= static_cast<int64_t>(bytes);
  ::operator delete(data);
}

TEST(allocator_of_a_device) {
  {
    std::unique_ptr<Allocator> pool = make_pooled_allocator(device_allocate, device_release, nullptr, 3);
    void* first = pool->allocate(400 << 10);
    void* second = pool->allocate(400 << 10);
    CHECK(first != nullptr && second != nullptr);
    CHECK(pool->allocate(400 << 10) == nullptr);
    pool->release(first, 400 << 10);
    const int calls = device_calls;
    void* third = pool->allocate(390 << 10);
    CHECK(third == first);
    CHECK_EQUAL(device_calls, calls);
    pool->release(third, 390 << 10);
    // Another size fits only after the idle block has gone back.
    void* fourth = pool->allocate(500 << 10);
    CHECK(fourth != nullptr);
    CHECK_EQUAL(pool->stats().cached_bytes, 0);
    pool->release(second, 400 << 10);
    pool->release(fourth, 500 << 10);
    CHECK_EQUAL(pool->stats().active_bytes, 0);
    CHECK(device_used > 0);
  }
  CHECK_EQUAL(device_used, 0);
}

// ---------------------------------------------------------------- storage
std::atomic<int> released{0};
void count_release(void* owner) {
  ++released;
  if (owner != nullptr) ++*static_cast<std::atomic<int>*>(owner);
}

TEST(storage_releases_once) {
  released = 0;
  std::atomic<int> mine{0};
  char bytes[16] = {};
  Storage* storage = Storage::borrow(bytes, 16, 0, Storage::kBorrowed, count_release, &mine, false);
  CHECK(!storage->writable() && storage->unique() && storage->data() == bytes && storage->nbytes() == 16);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    storage->retain();
    threads.emplace_back([storage] {
      for (int i = 0; i < 1000; ++i) {
        storage->retain();
        storage->drop();
      }
      storage->drop();
    });
  }
  storage->drop();
  join_all(threads);
  CHECK_EQUAL(mine.load(), 1);
  Storage* mapped = Storage::borrow(bytes, 16, 0, Storage::kMapped, nullptr, nullptr, false);
  CHECK(mapped->kind() == Storage::kMapped);
  mapped->drop();
}

TEST(storage_kept_by_tasks) {
  released = 0;
  char bytes[16] = {};
  Storage* storage = Storage::borrow(bytes, 16, 0, Storage::kBorrowed, count_release, nullptr, true);
  Gate gate;
  Lane& lane = Lane::current();
  lane.submit(call({read(storage)}, [&] { return gate.pass(); }));
  lane.submit(call({read(storage), read(storage)}, [] { return nullptr; }));
  gate.wait_reached();
  CHECK(!storage->unique());
  storage->drop();
  CHECK_EQUAL(released.load(), 0);
  gate.open = true;
  lane.synchronize();
  CHECK_EQUAL(released.load(), 1);
  // Who waits for a task finds what it held released.
  for (int i = 0; i < 200 * kScale; ++i) {
    Storage* other = Storage::borrow(bytes, 16, 0, Storage::kBorrowed, count_release, nullptr, true);
    lane.submit(call({read(other)}, [] { return nullptr; }));
    other->drop();
    lane.synchronize();
    CHECK_EQUAL(released.load(), i + 2);
  }
}

TEST(storage_deferred_bytes) {
  Lane& lane = Lane::current();
  const int64_t active = host_allocator().stats().active_bytes;
  Storage* storage = make_storage(1 << 16, true);
  CHECK(storage->data() == nullptr);
  CHECK_EQUAL(host_allocator().stats().active_bytes, active);
  lane.submit(call({fresh(storage)}, [&] {
    std::memset(storage->data(), 7, 1 << 16);
    return nullptr;
  }));
  storage->wait_for_read();
  CHECK(storage->data() != nullptr);
  lane.synchronize();
  storage->drop();
  CHECK_EQUAL(host_allocator().stats().active_bytes, active);
  // More than there is: the result is poisoned, nothing crashes.
  Storage* huge = make_storage(size_t{1} << 60, true);
  std::atomic<bool> ran{false};
  lane.submit(call({fresh(huge)}, [&] {
    ran = true;
    return nullptr;
  }));
  huge->wait_for_read();
  CHECK(!ran && huge->poison() != nullptr && huge->poison()->code == "OUT_OF_MEMORY");
  lane.synchronize();
  huge->drop();
}

TEST(deferred_releases) {
  std::atomic<int> count{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) defer_release(count_release, &count);
    });
  }
  while (count < 1000) run_deferred_releases();
  join_all(threads);
  defer_release([](void* with) { defer_release(count_release, with); }, &count);
  CHECK(has_deferred_releases());
  run_deferred_releases();
  CHECK(!has_deferred_releases());
  CHECK_EQUAL(count.load(), 2001);
}

// ---------------------------------------------------------------- lanes
TEST(lane_keeps_order) {
  Lane& lane = Lane::current();
  std::vector<int> seen;
  uint64_t last = 0;
  for (int i = 0; i < 1000 * kScale; ++i) {
    const Event event = lane.submit(call({}, [&seen, i] {
      seen.push_back(i);
      return nullptr;
    }));
    CHECK(event.sequence > last && event.lane == &lane);
    last = event.sequence;
    if (i % 97 == 0) lane.wait(event.sequence);
  }
  lane.synchronize();
  CHECK(lane.idle());
  CHECK_EQUAL(seen.size(), static_cast<size_t>(1000 * kScale));
  CHECK(std::is_sorted(seen.begin(), seen.end()));
}

TEST(inline_calls) {
  Lane& lane = Lane::current();
  Storage* a = make_storage();
  Storage* b = make_storage();
  value(a) = 0;
  const Access accesses[3] = {read(b), read(a), update(a)};
  for (int i = 0; i < 1000; ++i) {
    const uint64_t sequence = lane.begin_inline(accesses, 3);
    CHECK(sequence != 0);
    CHECK(Lane::running() == &lane);
    ++value(a);
    lane.end_inline(sequence);
  }
  CHECK(Lane::running() == nullptr);
  CHECK_EQUAL(value(a), 1000);
  // Not while the lane has work, nor while another lane uses what the call touches.
  Gate gate;
  lane.submit(call({}, [&] { return gate.pass(); }));
  CHECK_EQUAL(lane.begin_inline(accesses, 3), uint64_t{0});
  gate.open = true;
  lane.synchronize();
  Lane* other = Lane::create();
  Gate reading;
  other->submit(call({read(a)}, [&] { return reading.pass(); }));
  CHECK(a->ready_for_read() && !a->ready_for_write());
  CHECK_EQUAL(lane.begin_inline(accesses, 3), uint64_t{0});
  CHECK(lane.idle());
  const Access only_read[1] = {read(a)};
  const uint64_t sequence = lane.begin_inline(only_read, 1);
  CHECK(sequence != 0);
  lane.end_inline(sequence);
  CHECK(!a->wait_for_write(1000));
  reading.open = true;
  CHECK(a->wait_for_write(10000000));
  other->synchronize();
  other->retire();
  a->drop();
  b->drop();
}

TEST(inline_call_holds_other_lanes) {
  Lane& lane = Lane::current();
  Lane* other = Lane::create();
  Storage* storage = make_storage();
  value(storage) = 1;
  const Access accesses[1] = {update(storage)};
  const uint64_t sequence = lane.begin_inline(accesses, 1);
  CHECK(sequence != 0);
  std::atomic<int64_t> seen{0};
  Event event;
  std::thread([&] {
    event = other->submit(call({read(storage)}, [&] {
      seen = value(storage);
      return nullptr;
    }));
  }).join();
  std::this_thread::sleep_for(2ms);
  CHECK(!event.done());
  value(storage) = 2;
  lane.end_inline(sequence);
  other->wait(event.sequence);
  CHECK_EQUAL(seen.load(), 2);
  // A reader holds a writer.
  const Access reading[1] = {read(storage)};
  const uint64_t reader = lane.begin_inline(reading, 1);
  CHECK(reader != 0);
  std::thread([&] {
    event = other->submit(call({overwrite(storage)}, [&] {
      value(storage) = 3;
      return nullptr;
    }));
  }).join();
  std::this_thread::sleep_for(2ms);
  CHECK(!event.done());
  CHECK_EQUAL(value(storage), 2);
  lane.end_inline(reader);
  storage->wait_for_read();
  CHECK_EQUAL(value(storage), 3);
  other->synchronize();
  other->retire();
  storage->drop();
}

TEST(calls_within_calls) {
  // A kernel that itself issues calls: they go to another lane, so it can wait for them.
  Lane& lane = Lane::current();
  Storage* storage = make_storage();
  value(storage) = 0;
  const auto nested = [&] {
    Lane& inner = Lane::current();
    CHECK(&inner != Lane::running());
    Storage* result = make_storage();
    for (int i = 0; i < 3; ++i) {
      inner.submit(call({read(storage), overwrite(result)}, [=] {
        value(result) = value(storage) + 1;
        return nullptr;
      }));
    }
    const Access accesses[1] = {read(result)};
    result->wait_for_read();
    inner.synchronize();
    const uint64_t sequence = inner.begin_inline(accesses, 1);
    CHECK(sequence != 0);
    CHECK_EQUAL(value(result), 1);
    inner.end_inline(sequence);
    result->drop();
  };
  const Access accesses[1] = {read(storage)};
  const uint64_t sequence = lane.begin_inline(accesses, 1);
  nested();
  lane.synchronize();  // would wait for this very call: returns
  lane.end_inline(sequence);
  lane.submit(call({read(storage)}, [&] {
    nested();
    return nullptr;
  }));
  lane.synchronize();
  storage->drop();
}

// Random programs over a few storages, issued to several lanes by one thread, have the results of running
// them in order.
TEST(random_programs_equal_serial_order) {
  std::mt19937 random(1);
  constexpr int kStorages = 6;
  for (int program = 0; program < 20 * kScale; ++program) {
    std::vector<Lane*> lanes;
    for (int i = 0; i < 3; ++i) lanes.push_back(Lane::create());
    std::vector<Storage*> storages;
    std::vector<int64_t> expected(kStorages);
    std::vector<bool> poisoned(kStorages, false);
    for (int i = 0; i < kStorages; ++i) {
      storages.push_back(make_storage());
      value(storages[i]) = expected[i] = i + 1;
    }
    for (int step = 0; step < 60; ++step) {
      const int x = static_cast<int>(random() % kStorages);
      const int y = static_cast<int>(random() % kStorages);
      const int z = static_cast<int>(random() % kStorages);
      const bool whole = random() % 3 == 0;
      const bool fails = random() % 20 == 0;
      const int64_t factor = static_cast<int64_t>(random() % 100);
      Storage* sx = storages[x];
      Storage* sy = storages[y];
      Storage* sz = storages[z];
      const std::vector<Access> accesses{read(sx), read(sy), whole ? overwrite(sz) : update(sz)};
      const auto body = [=]() -> ErrorPtr {
        if (fails) return make_error(CLIKA_INTERNAL, "INTERNAL", "step");
        const uint64_t sum = static_cast<uint64_t>(value(sx)) * 3 + static_cast<uint64_t>(value(sy));
        value(sz) = static_cast<int64_t>(sum * 7 + static_cast<uint64_t>(factor) +
                                         (whole ? 0 : static_cast<uint64_t>(value(sz))));
        return nullptr;
      };
      if (poisoned[x] || poisoned[y] || (!whole && poisoned[z]) || fails) {
        poisoned[z] = true;
      } else {
        const uint64_t sum = static_cast<uint64_t>(expected[x]) * 3 + static_cast<uint64_t>(expected[y]);
        expected[z] = static_cast<int64_t>(sum * 7 + static_cast<uint64_t>(factor) +
                                           (whole ? 0 : static_cast<uint64_t>(expected[z])));
        poisoned[z] = false;
      }
      Lane& lane = random() % 4 == 0 ? Lane::current() : *lanes[random() % lanes.size()];
      const uint64_t sequence = random() % 2 == 0 ? lane.begin_inline(accesses.data(), accesses.size()) : 0;
      if (sequence != 0) {
        ErrorPtr error = first_poison(accesses.data(), accesses.size());
        if (error == nullptr) error = body();
        settle_writes(accesses.data(), accesses.size(), error);
        lane.end_inline(sequence);
      } else {
        lane.submit(call(accesses, body));
      }
    }
    for (int i = 0; i < kStorages; ++i) {
      if (random() % 2 == 0) {
        storages[i]->wait_for_read();
      } else {
        storages[i]->wait_for_write();
      }
      CHECK_EQUAL(storages[i]->poison() != nullptr, static_cast<bool>(poisoned[i]));
      if (!poisoned[i]) CHECK_EQUAL(value(storages[i]), expected[i]);
    }
    for (Lane* lane : lanes) {
      lane->synchronize();
      lane->retire();
    }
    Lane::current().synchronize();
    for (Storage* storage : storages) storage->drop();
  }
}

// Several threads issue conflicting calls at once: no deadlock, no lost update, every call as if alone.
TEST(conflicting_threads) {
  constexpr int kThreads = 4;
  constexpr int kStorages = 4;
  const int steps = 500 * kScale;
  std::vector<Storage*> storages;
  for (int i = 0; i < kStorages; ++i) {
    storages.push_back(make_storage(16));
    std::memset(storages.back()->data(), 0, 16);
  }
  std::atomic<int64_t> inline_calls{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      Lane& lane = Lane::current();
      for (int i = 0; i < steps; ++i) {
        Storage* a = storages[random() % kStorages];
        Storage* b = storages[random() % kStorages];
        const std::vector<Access> accesses{read(a), update(b)};
        // Both words of a storage move together; a reader sees them equal.
        const auto body = [a, b]() -> ErrorPtr {
          auto* from = static_cast<int64_t*>(a->data());
          CHECK_EQUAL(from[0], from[1]);
          auto* to = static_cast<int64_t*>(b->data());
          ++to[0];
          ++to[1];
          return nullptr;
        };
        const uint64_t sequence = lane.begin_inline(accesses.data(), accesses.size());
        if (sequence != 0) {
          body();
          lane.end_inline(sequence);
          ++inline_calls;
        } else {
          lane.submit(call(accesses, body));
        }
      }
      lane.synchronize();
    });
  }
  join_all(threads);
  int64_t total = 0;
  for (Storage* storage : storages) {
    storage->wait_for_write();
    total += value(storage);
    storage->drop();
  }
  CHECK_EQUAL(total, static_cast<int64_t>(kThreads) * steps);
}

TEST(shared_lane_waits_for_its_inline_call) {
  Lane* lane = Lane::create();
  const uint64_t sequence = lane->begin_inline(nullptr, 0);
  CHECK(sequence != 0);
  std::atomic<bool> ran{false};
  Event event;
  std::thread([&] {
    CHECK_EQUAL(lane->begin_inline(nullptr, 0), uint64_t{0});
    event = lane->submit(call({}, [&] {
      ran = true;
      return nullptr;
    }));
  }).join();
  std::this_thread::sleep_for(5ms);
  CHECK(!ran && !event.done());
  lane->end_inline(sequence);
  lane->wait(event.sequence);
  CHECK(ran.load());
  lane->retire();
}

TEST(shared_lane) {
  Lane* lane = Lane::create();
  Storage* storage = make_storage();
  value(storage) = 0;
  constexpr int kThreads = 4;
  const int steps = 1000 * kScale;
  int64_t unguarded = 0;  // only the lane's order protects it
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      const Access accesses[1] = {update(storage)};
      for (int i = 0; i < steps; ++i) {
        const uint64_t sequence = lane->begin_inline(accesses, 1);
        if (sequence != 0) {
          ++value(storage);
          ++unguarded;
          lane->end_inline(sequence);
        } else {
          lane->submit(call({update(storage)}, [&] {
            ++value(storage);
            ++unguarded;
            return nullptr;
          }));
        }
        if (i % 100 == 0) lane->synchronize();
      }
    });
  }
  join_all(threads);
  lane->synchronize();
  CHECK_EQUAL(value(storage), static_cast<int64_t>(kThreads) * steps);
  CHECK_EQUAL(unguarded, static_cast<int64_t>(kThreads) * steps);
  lane->retire();
  storage->drop();
}

TEST(poison) {
  Lane& lane = Lane::current();
  Storage* a = make_storage();
  Storage* b = make_storage(8, true);
  Storage* c = make_storage(8, true);
  std::atomic<bool> ran{false};
  lane.submit(call({overwrite(a)}, [] { return make_error(CLIKA_INTERNAL, "FIRST", "kernel: failed"); }));
  lane.submit(call({read(a), fresh(b)}, [&] {
    ran = true;
    return nullptr;
  }));
  lane.submit(call({read(b), fresh(c)}, [&] {
    ran = true;
    return nullptr;
  }));
  lane.synchronize();
  CHECK(!ran);
  for (Storage* storage : {a, b, c}) {
    CHECK(storage->poison() != nullptr && storage->poison()->code == "FIRST");
  }
  // A part that is written heals nothing, a whole overwrite does.
  lane.submit(call({update(a)}, [&] {
    ran = true;
    return nullptr;
  }));
  lane.synchronize();
  CHECK(!ran && a->poison() != nullptr);
  lane.submit(call({overwrite(a)}, [&] {
    value(a) = 5;
    return nullptr;
  }));
  lane.synchronize();
  CHECK(a->poison() == nullptr && value(a) == 5);
  // An exception is an error like any other.
  lane.submit(call({overwrite(a)}, []() -> ErrorPtr { throw std::runtime_error("boom"); }));
  lane.synchronize();
  CHECK(a->poison() != nullptr && a->poison()->message.find("boom") != std::string::npos);
  lane.submit(call({overwrite(a)}, [] {
    Pool::get().parallel_for(64, 1, [](void*, int64_t, int64_t, int32_t) { throw 1; }, nullptr);
    return nullptr;
  }));
  lane.synchronize();
  CHECK(a->poison() != nullptr && a->poison()->message.find("parallel_for") != std::string::npos);
  // Poison of a call that ran inline.
  const Access accesses[2] = {read(a), overwrite(b)};
  const uint64_t sequence = lane.begin_inline(accesses, 2);
  CHECK(sequence != 0);
  const ErrorPtr error = first_poison(accesses, 2);
  CHECK(error != nullptr);
  settle_writes(accesses, 2, error);
  lane.end_inline(sequence);
  CHECK(b->poison() == error);
  b->set_poison(nullptr);
  CHECK(b->poison() == nullptr);
  for (Storage* storage : {a, b, c}) storage->drop();
}

TEST(bounds) {
  Lane* lane = Lane::create();
  lane->set_bounds(1000, 8);
  Gate gate;
  lane->submit(call({}, [&] { return gate.pass(); }));
  gate.wait_reached();
  std::atomic<int> issued{0};
  std::thread thread([&] {
    for (int i = 0; i < 20; ++i) {
      lane->submit(call({}, [] { return nullptr; }));
      ++issued;
    }
  });
  std::this_thread::sleep_for(20ms);
  CHECK(issued <= 7);
  gate.open = true;
  thread.join();
  lane->synchronize();
  CHECK_EQUAL(issued.load(), 20);

  Gate bytes_gate;
  lane->submit(call({}, [&] { return bytes_gate.pass(); }, 600));
  std::atomic<bool> passed{false};
  std::thread second([&] {
    lane->submit(call({}, [] { return nullptr; }, 600));
    passed = true;
  });
  std::this_thread::sleep_for(20ms);
  CHECK(!passed);
  bytes_gate.open = true;
  second.join();
  // A task over the bound on its own still runs.
  lane->submit(call({}, [] { return nullptr; }, 1 << 20));
  lane->synchronize();
  CHECK(passed);
  lane->set_bounds(size_t{1} << 30, 4096);
  lane->retire();
}

TEST(cancel) {
  Lane& lane = Lane::current();
  Storage* storage = make_storage();
  std::atomic<bool> started{false};
  lane.submit(call({overwrite(storage)}, [&]() -> ErrorPtr {
    started = true;
    while (!Lane::running()->cancelled()) std::this_thread::yield();
    return make_error(CLIKA_UNAVAILABLE, "CANCELLED", "run: cancelled");
  }));
  while (!started) std::this_thread::yield();
  lane.cancel();
  lane.synchronize();
  CHECK(storage->poison() != nullptr && storage->poison()->code == "CANCELLED");
  // It was for that task only.
  lane.submit(call({overwrite(storage)}, []() -> ErrorPtr {
    return Lane::running()->cancelled() ? make_error(CLIKA_INTERNAL, "INTERNAL", "still cancelled") : nullptr;
  }));
  lane.synchronize();
  CHECK(storage->poison() == nullptr);
  lane.cancel();
  const uint64_t sequence = lane.begin_inline(nullptr, 0);
  CHECK(sequence != 0 && !lane.cancelled());
  lane.end_inline(sequence);
  storage->drop();
}

TEST(lanes_are_handed_on) {
  Lane* first = nullptr;
  std::thread([&] { first = &Lane::current(); }).join();
  for (int i = 0; i < 50; ++i) {
    std::thread([&] {
      Lane& lane = Lane::current();
      CHECK(&lane == first);
      lane.submit(call({}, [] { return nullptr; }));
      lane.synchronize();
    }).join();
  }
  CHECK(&Lane::current() != first);
}

TEST(lane_sleeps_and_wakes) {
  Lane& lane = Lane::current();
  Storage* storage = make_storage();
  for (int i = 0; i < 30; ++i) {
    std::this_thread::sleep_for(500us);  // longer than the worker spins
    lane.submit(call({overwrite(storage)}, [&, i] {
      if (i % 3 == 0) std::this_thread::sleep_for(500us);  // longer than the waiter spins
      value(storage) = i;
      return nullptr;
    }));
    storage->wait_for_read();
    CHECK_EQUAL(value(storage), i);
  }
  CHECK(lane.wait_for(lane.issued(), 0) || lane.wait_for(lane.issued(), 1000000));
  Gate gate;
  const Event event = lane.submit(call({}, [&] { return gate.pass(); }));
  CHECK(!lane.wait_for(event.sequence, 0));
  CHECK(!lane.wait_for(event.sequence, 2000));
  gate.open = true;
  lane.synchronize();
  storage->drop();
}

TEST(pool_inside_lanes) {
  std::vector<Lane*> lanes;
  for (int i = 0; i < 3; ++i) lanes.push_back(Lane::create());
  for (int round = 0; round < 100 * kScale; ++round) {
    for (Lane* lane : lanes) {
      lane->submit(call({}, [] {
        Sum sum;
        sum.run(2000, 50);
        return nullptr;
      }));
    }
  }
  for (Lane* lane : lanes) {
    lane->synchronize();
    lane->retire();
  }
}

TEST(drain) {
  std::atomic<int> ran{0};
  std::vector<Lane*> lanes;
  for (int i = 0; i < 3; ++i) lanes.push_back(Lane::create());
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 300; ++i) {
      Lane* next = lanes[static_cast<size_t>(i + 1) % 3];
      lanes[static_cast<size_t>(i) % 3]->submit(call({}, [&ran, next] {
        ++ran;
        // A task may issue more.
        next->submit(call({}, [&ran] {
          ++ran;
          return nullptr;
        }));
        return nullptr;
      }));
    }
    drain_all_lanes();
    CHECK_EQUAL(ran.load(), 600 * (round + 1));
    for (Lane* lane : lanes) CHECK(lane->idle());
  }
  drain_all_lanes();
  for (Lane* lane : lanes) lane->retire();
}

// ---------------------------------------------------------------- fork
// Not under ThreadSanitizer: its bookkeeping cannot start threads in the child of a program with threads
// ("dup thread with used id").
#if !defined(_WIN32) && !defined(CLIKA_THREAD_SANITIZER)
// Runs `body` in a forked child; its failed checks, or 99 when it hangs or crashes.
int in_child(const std::function<void()>& body) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    failures_here = 0;
    alarm(20);
    body();
    std::fflush(stdout);
    _exit(std::min(failures_here, 50));
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) return 99;
  return WEXITSTATUS(status);
}

void use_everything() {
  Sum sum;
  sum.run(10000, 10);
  Lane& lane = Lane::current();
  Storage* storage = make_storage(8, true);
  lane.submit(call({fresh(storage)}, [=] {
    value(storage) = 1;
    return nullptr;
  }));
  for (int i = 0; i < 50; ++i) {
    lane.submit(call({update(storage)}, [=] {
      ++value(storage);
      return nullptr;
    }));
  }
  storage->wait_for_read();
  CHECK_EQUAL(value(storage), 51);
  storage->drop();
  for (size_t size = 1; size < (4 << 20); size *= 3) {
    host_allocator().release(host_allocator().allocate(size), size);
  }
  std::thread([] {
    Lane& other = Lane::current();
    other.submit(call({}, [] { return nullptr; }));
    other.synchronize();
  }).join();
  drain_all_lanes();
  Pool::get().shutdown();
}

TEST(fork_takes_locks_of_lost_threads) {
  SpinLock lock;
  lock.lock();
  CHECK_EQUAL(in_child([&] {
    CHECK(lock.lock());  // its holder is not here: taken, and said so
    lock.unlock();
    CHECK(!lock.lock());
    lock.unlock();
  }), 0);
  lock.unlock();
  CHECK(!lock.lock());
  lock.unlock();
}

TEST(fork_waits_for_work_under_way) {
  Storage* storage = make_storage(8, true);
  Lane::current().submit(call({fresh(storage)}, [=] {
    std::this_thread::sleep_for(50ms);
    value(storage) = 4;
    return nullptr;
  }));
  CHECK_EQUAL(in_child([&] {
    CHECK(storage->poison() == nullptr);
    CHECK_EQUAL(value(storage), 4);
  }), 0);
  Lane::current().synchronize();
  storage->drop();
}

TEST(fork_while_quiet) {
  use_everything();
  CHECK_EQUAL(in_child(use_everything), 0);
  use_everything();
}

// Not under AddressSanitizer: the locks of its own allocator stay taken in the child when a thread of the
// parent was allocating.
#if !defined(CLIKA_ADDRESS_SANITIZER)
TEST(fork_while_busy) {
  std::atomic<bool> stop{false};
  Storage* storage = make_storage();
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      Lane& lane = Lane::current();
      while (!stop) {
        Sum sum;
        sum.run(5000, 10);
        for (int i = 0; i < 20; ++i) {
          lane.submit(call({update(storage)}, [=] {
            ++value(storage);
            host_allocator().release(host_allocator().allocate(100), 100);
            return nullptr;
          }));
        }
      }
      lane.synchronize();
    });
  }
  for (int i = 0; i < 5 * kScale; ++i) {
    CHECK_EQUAL(in_child([&] {
      // What was under way is poisoned or whole; either way it can be looked at and overwritten.
      storage->wait_for_write();
      storage->poison();
      Lane::current().submit(call({overwrite(storage)}, [=] {
        value(storage) = 3;
        return nullptr;
      }));
      storage->wait_for_read();
      CHECK(storage->poison() == nullptr);
      CHECK_EQUAL(value(storage), 3);
      use_everything();
    }), 0);
  }
  stop = true;
  join_all(threads);
  storage->drop();
}

#endif

TEST(fork_abandons_unfinished_work) {
  Storage* storage = make_storage();
  Storage* other = make_storage();
  Storage* result = make_storage();
  Gate gate;
  Lane& lane = Lane::current();
  lane.submit(call({overwrite(storage)}, [&] { return gate.pass(); }));
  lane.submit(call({read(storage), overwrite(other)}, [] { return nullptr; }));
  gate.wait_reached();
  CHECK_EQUAL(in_child([&] {
    CHECK(storage->ready_for_write() && lane.idle());
    CHECK(storage->poison() != nullptr && storage->poison()->code == "UNAVAILABLE");
    CHECK(other->poison() != nullptr);
    // It spreads like any poison, and an overwrite ends it.
    Lane::current().submit(call({read(other), overwrite(result)}, [] { return nullptr; }));
    result->wait_for_read();
    CHECK(result->poison() != nullptr);
    const Access accesses[1] = {overwrite(other)};
    const uint64_t sequence = lane.begin_inline(accesses, 1);
    CHECK(sequence != 0);
    settle_writes(accesses, 1, nullptr);
    lane.end_inline(sequence);
    CHECK(other->poison() == nullptr);
    // A child of the child sees the same.
    CHECK_EQUAL(in_child([&] {
      CHECK(storage->poison() != nullptr && other->poison() == nullptr);
      use_everything();
    }), 0);
    use_everything();
  }), 0);
  gate.open = true;
  lane.synchronize();
  CHECK(storage->poison() == nullptr && other->poison() == nullptr);
  for (Storage* one : {storage, other, result}) one->drop();
}

TEST(fork_inside_a_call) {
  Lane& lane = Lane::current();
  const uint64_t sequence = lane.begin_inline(nullptr, 0);
  CHECK_EQUAL(in_child([&] {
    lane.end_inline(sequence);
    use_everything();
  }), 0);
  lane.end_inline(sequence);
  std::atomic<int> result{-1};
  lane.submit(call({}, [&] {
    result = in_child([&] {
      // The lane of this very task is free in the child. Who takes it waits for what it runs there.
      Lane* taken = Lane::create();
      for (int i = 0; i < 1000 && taken != &lane; ++i) taken = Lane::create();
      taken->retire();
      CHECK(&Lane::current() == &lane);
      use_everything();
    });
    return nullptr;
  }));
  lane.synchronize();
  CHECK_EQUAL(result.load(), 0);
}

TEST(exit_with_work_queued) {
  // The order of an interpreter's exit: drain, then the pool, then the statics.
  CHECK_EQUAL(in_child([] {
    for (int i = 0; i < 100; ++i) {
      Lane::current().submit(call({}, [] {
        Sum sum;
        sum.run(100, 1);
        return nullptr;
      }));
    }
    drain_all_lanes();
    Pool::get().shutdown();
    std::fflush(stdout);
    if (failures_here == 0) std::exit(0);
  }), 0);
}
#endif

TEST(processors) {
  CHECK(detail::usable_processors() >= 1);
  const unsigned all = std::max(1u, std::thread::hardware_concurrency());
  CHECK(detail::usable_processors() <= static_cast<int32_t>(all));
}

#if defined(__linux__)
TEST(cgroup_quotas) {
  char root[] = "/tmp/clika_cgroup_XXXXXX";
  CHECK(mkdtemp(root) != nullptr);
  const std::string base = root;
  const auto write = [&](const std::string& file, const char* text) {
    std::FILE* out = std::fopen((base + file).c_str(), "w");
    CHECK(out != nullptr);
    std::fputs(text, out);
    std::fclose(out);
  };
  mkdir((base + "/a").c_str(), 0700);
  mkdir((base + "/a/b").c_str(), 0700);
  CHECK_EQUAL(detail::cgroup_quota(base, "/a/b", true), 0.0);
  write("/a/b/cpu.max", "max 100000\n");
  CHECK_EQUAL(detail::cgroup_quota(base, "/a/b", true), 0.0);
  write("/a/cpu.max", "250000 100000\n");  // a limit above counts too
  CHECK_EQUAL(detail::cgroup_quota(base, "/a/b", true), 2.5);
  write("/a/b/cpu.max", "50000 100000\n");
  CHECK_EQUAL(detail::cgroup_quota(base, "/a/b", true), 0.5);
  CHECK_EQUAL(detail::cgroup_quota(base, "/a", true), 2.5);
  CHECK_EQUAL(detail::cgroup_quota(base, "/", true), 0.0);
  write("/a/b/cpu.max", "garbage");
  CHECK_EQUAL(detail::cgroup_quota(base, "/a/b", true), 2.5);
  write("/a/cpu.cfs_quota_us", "-1\n");
  write("/a/cpu.cfs_period_us", "100000\n");
  CHECK_EQUAL(detail::cgroup_quota(base, "/a", false), 0.0);
  write("/a/cpu.cfs_quota_us", "150000\n");
  CHECK_EQUAL(detail::cgroup_quota(base, "/a/b", false), 1.5);
  for (const char* file : {"/a/b/cpu.max", "/a/cpu.max", "/a/cpu.cfs_quota_us", "/a/cpu.cfs_period_us"}) {
    unlink((base + file).c_str());
  }
  for (const char* folder : {"/a/b", "/a", ""}) rmdir((base + folder).c_str());
}
#endif

}  // namespace

int main(int argc, char** argv) {
  install_fork_handlers();
  install_fork_handlers();
  // Several workers also where there is one processor, so that the tests mean something there. The variable
  // counts until the first question.
  if (std::getenv("CLIKA_RT_NUM_THREADS") == nullptr) setenv("CLIKA_RT_NUM_THREADS", "3", 1);
  int passed = 0;
  int failed = 0;
  for (const Test& test : tests()) {
    bool wanted = argc < 2;
    for (int i = 1; i < argc; ++i) wanted = wanted || std::strstr(test.name, argv[i]) != nullptr;
    if (!wanted) continue;
    failures_here = 0;
    const auto start = std::chrono::steady_clock::now();
    test.run();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    std::printf("%-40s %s %6.2f s\n", test.name, failures_here == 0 ? "ok    " : "FAILED", took.count());
    std::fflush(stdout);
    ++(failures_here == 0 ? passed : failed);
  }
  drain_all_lanes();
  Pool::get().shutdown();
#if defined(CLIKA_THREAD_SANITIZER)
  std::printf("fork tests left out: ThreadSanitizer cannot start threads in a forked child\n");
#elif defined(CLIKA_ADDRESS_SANITIZER)
  std::printf("fork_while_busy left out: AddressSanitizer's allocator may stay locked in a forked child\n");
#endif
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
