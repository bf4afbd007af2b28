#include <cstring>
#include <mutex>

#include "sync.hpp"

#if !defined(_WIN32)
#include <pthread.h>
#include <signal.h>
#endif

namespace clika {

std::atomic<uint32_t> fork_generation{1};

namespace detail {

#if !defined(_WIN32)
SignalsBlocked::SignalsBlocked() noexcept {
  static_assert(sizeof(sigset_t) <= sizeof(saved_), "sigset_t fits");
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::memcpy(saved_, &before, sizeof(before));
}

SignalsBlocked::~SignalsBlocked() {
  sigset_t before;
  std::memcpy(&before, saved_, sizeof(before));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}
#else
SignalsBlocked::SignalsBlocked() noexcept {}
SignalsBlocked::~SignalsBlocked() {}
#endif

void name_thread(const char* name) noexcept {
#if defined(__APPLE__)
  pthread_setname_np(name);
#elif defined(__linux__)
  pthread_setname_np(pthread_self(), name);
#else
  (void)name;
#endif
}

}  // namespace detail

#if !defined(_WIN32)
namespace {

void prepare() {
  Lane::before_fork();
  detail::lock_allocators();
}

void parent() { detail::unlock_allocators(); }

void child() {
  fork_generation.fetch_add(1, std::memory_order_relaxed);
  detail::unlock_allocators();
  Lane::after_fork_in_child();
  Pool::after_fork_in_child();
}

}  // namespace

void install_fork_handlers() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Made now: the child's handler should not need it for the first time.
    detail::fork_error();
    host_allocator();
    Pool::get();
    pthread_atfork(prepare, parent, child);
  });
}
#else
void install_fork_handlers() {}
#endif

}  // namespace clika
