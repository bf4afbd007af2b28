// Costs of the execution machinery: the least of many short batches, so that other work on the machine does
// not count. Not a test: `build/bench` prints nanoseconds a call.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

#include "runtime.hpp"

namespace {

using namespace clika;
using Clock = std::chrono::steady_clock;

struct Nothing : Task {
  ErrorPtr run() override { return nullptr; }
};

void keep(void* pointer) { asm volatile("" : : "r"(pointer) : "memory"); }

template <class Fn>
void measure(const char* what, int batches, int calls, Fn&& fn) {
  double least = 1e18;
  for (int batch = 0; batch < batches; ++batch) {
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) fn();
    const std::chrono::duration<double, std::nano> took = Clock::now() - start;
    if (took.count() / calls < least) least = took.count() / calls;
  }
  std::printf("%-44s %8.1f ns\n", what, least);
}

std::unique_ptr<Task> nothing(Storage* a, Storage* b, Storage* c) {
  std::unique_ptr<Task> task(new Nothing());
  task->accesses = {{a, AccessKind::kRead}, {b, AccessKind::kRead}, {c, AccessKind::kOverwrite}};
  return task;
}

void empty_piece(void*, int64_t, int64_t, int32_t) {}

}  // namespace

int main() {
  Allocator& host = host_allocator();
  Storage* a = Storage::create(host, 32, 0, false);
  Storage* b = Storage::create(host, 32, 0, false);
  Storage* c = Storage::create(host, 32, 0, false);
  Lane& lane = Lane::current();
  const Access fresh[3] = {{a, AccessKind::kRead}, {b, AccessKind::kRead}, {c, AccessKind::kFresh}};
  const Access known[3] = {{a, AccessKind::kRead}, {b, AccessKind::kRead}, {c, AccessKind::kOverwrite}};

  measure("inline call, 2 inputs, fresh output", 2000, 1000, [&] {
    lane.end_inline(lane.begin_inline(fresh, 3));
  });
  measure("inline call, 2 inputs, known output", 2000, 1000, [&] {
    lane.end_inline(lane.begin_inline(known, 3));
  });
  measure("  with poison looked at and cleared", 2000, 1000, [&] {
    const uint64_t sequence = lane.begin_inline(known, 3);
    if (first_poison(known, 3) == nullptr) settle_writes(known, 3, nullptr);
    lane.end_inline(sequence);
  });
  measure("Lane::current", 1000, 1000, [&] { keep(&Lane::current()); });
  measure("storage of 32 bytes, create and drop", 2000, 1000, [&] {
    Storage* storage = Storage::create(host, 32, 0, false);
    keep(storage);
    storage->drop();
  });
  measure("allocate and release 32 bytes", 2000, 1000, [&] {
    void* data = host.allocate(32);
    keep(data);
    host.release(data, 32);
  });
  measure("allocate and release 8 MiB", 200, 1000, [&] {
    void* data = host.allocate(8 << 20);
    keep(data);
    host.release(data, 8 << 20);
  });
  double least = 1e18;
  for (int batch = 0; batch < 2000; ++batch) {
    lane.wait(lane.submit(nothing(a, b, c)).sequence);  // the worker is awake
    const auto start = Clock::now();
    for (int i = 0; i < 50; ++i) lane.submit(nothing(a, b, c));
    const std::chrono::duration<double, std::nano> took = Clock::now() - start;
    if (took.count() / 50 < least) least = took.count() / 50;
    lane.synchronize();
  }
  std::printf("%-44s %8.1f ns\n", "enqueue, 3 accesses, the task made too", least);
  measure("queued round trip, worker awake", 20000, 3, [&] {
    lane.wait(lane.submit(nothing(a, b, c)).sequence);
  });
  least = 1e18;
  for (int batch = 0; batch < 50; ++batch) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const auto start = Clock::now();
    lane.wait(lane.submit(nothing(a, b, c)).sequence);
    const std::chrono::duration<double, std::nano> took = Clock::now() - start;
    if (took.count() < least) least = took.count();
  }
  std::printf("%-44s %8.1f ns\n", "queued round trip, worker asleep", least);
  std::printf("%-44s %8d\n", "pool size", Pool::get().size());
  measure("region of 16 empty pieces", 2000, 100, [&] {
    Pool::get().parallel_for(1600, 100, empty_piece, nullptr);
  });
  measure("region of one piece", 2000, 1000, [&] {
    Pool::get().parallel_for(100, 100, empty_piece, nullptr);
  });
  // The caller's piece waits until a worker has run one: two ways between two cores at the least.
  std::atomic<bool> helped{false};
  measure("region until a worker has helped", 20000, 4, [&] {
    helped = false;
    Pool::get().parallel_for(
        16, 1,
        [](void* arg, int64_t, int64_t, int32_t worker) {
          auto* flag = static_cast<std::atomic<bool>*>(arg);
          if (worker != 0) flag->store(true);
          for (int i = 0; i < 100000 && worker == 0 && !flag->load(); ++i) {
          }
        },
        &helped);
  });
  for (Storage* storage : {a, b, c}) storage->drop();
  drain_all_lanes();
  Pool::get().shutdown();
  return 0;
}
