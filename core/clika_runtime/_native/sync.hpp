// Small tools of the execution machinery: spinning, thread set-up, the seams that fork needs.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

#include "runtime.hpp"

#if defined(_MSC_VER)
#include <intrin.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define CLIKA_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CLIKA_ADDRESS_SANITIZER 1
#endif
#endif

namespace clika {
namespace detail {

inline void cpu_relax() noexcept {
#if defined(_MSC_VER) && (defined(_M_X64) || defined(_M_IX86))
  _mm_pause();
#elif defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) && !defined(_MSC_VER)
  asm volatile("yield" ::: "memory");
#endif
}

// The processors this process may use: affinity and the cgroup quota, at least 1.
int32_t usable_processors() noexcept;
// Processors that the cgroup `folder` under `root` and those above it grant, 0 without a limit. Version 2 has
// one file "quota period" ("max period" without a limit), version 1 has two.
double cgroup_quota(const std::string& root, std::string folder, bool version2);
// Spinning for another thread is a waste when there is only one processor.
bool worth_spinning() noexcept;

// Busy waiting with an end: `again()` pauses and says whether the time is still running.
class Spinner {
 public:
  explicit Spinner(int64_t nanoseconds) noexcept : budget_(worth_spinning() ? nanoseconds : 0) {}
  bool again() noexcept {
    cpu_relax();
    if ((++turns_ & 31u) != 0) return budget_ > 0;
    const auto now = std::chrono::steady_clock::now();
    if (turns_ == 32) {
      end_ = now + std::chrono::nanoseconds(budget_);
      return budget_ > 0;
    }
    return now < end_;
  }

 private:
  int64_t budget_;
  uint32_t turns_ = 0;
  std::chrono::steady_clock::time_point end_;
};

// Waits for a thread that is sure to come soon: pauses, and gives the processor away when it takes longer.
class Backoff {
 public:
  void wait() noexcept {
    if (turns_ < 256 && worth_spinning()) {
      ++turns_;
      cpu_relax();
    } else {
      std::this_thread::yield();
    }
  }

 private:
  uint32_t turns_ = 0;
};

// Blocks every signal while it lives: threads made meanwhile inherit that, so handlers run on the
// program's own threads.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept;
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
#if !defined(_WIN32)
  unsigned char saved_[256];  // a sigset_t, without its header here
#endif
};
void name_thread(const char* name) noexcept;

// The poison of values whose computation a fork left in the parent.
const ErrorPtr& fork_error();

// Around fork every allocator is locked, so that the child finds whole free lists.
void lock_allocators() noexcept;
void unlock_allocators() noexcept;

}  // namespace detail
}  // namespace clika
