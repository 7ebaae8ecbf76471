// Barriers by one arrival counter and one phase counter.
#include "engine/cpu/thread_pool.h"

#include <system_error>

#include "error.h"
#include "numerics/float_mode.h"

namespace specbound {
namespace {

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace

ThreadPool::ThreadPool(int n_threads) {
  SB_CHECK(n_threads >= 1);
  try {
    for (int i = 1; i < n_threads; ++i) workers_.emplace_back([this, i] { worker(i); });
  } catch (const std::system_error&) {
    const int started = size();
    stop();
    throw Error(ErrorCode::kLimit,
                format("cannot start %d threads: the system allows %d here; give fewer with -t",
                       n_threads, started));
  }
}

ThreadPool::~ThreadPool() {
  stop();
}

void ThreadPool::stop() {
  stopping_ = true;
  start_.fetch_add(1, std::memory_order_release);
  start_.notify_all();
  for (std::thread& t : workers_) t.join();
  workers_.clear();
}

void ThreadPool::wait_for_change(const std::atomic<uint32_t>& word, uint32_t old) {
  // About 50 us of spinning: longer than a step of a small model and the gap between two passes.
  constexpr int kSpins = 2000;
  for (int i = 0; i < kSpins; ++i) {
    if (word.load(std::memory_order_acquire) != old) return;
    relax();
  }
  word.wait(old, std::memory_order_acquire);
}

void ThreadPool::worker(int thread) {
  uint32_t seen = 0;
  for (;;) {
    wait_for_change(start_, seen);
    seen = start_.load(std::memory_order_acquire);
    if (stopping_) return;
    const FloatMode mode;
    call_.function(call_.work, thread);
    barrier();
  }
}

void ThreadPool::run(const Call& call) {
  const FloatMode mode;
  if (workers_.empty()) {
    call.function(call.work, 0);
    return;
  }
  call_ = call;
  start_.fetch_add(1, std::memory_order_release);
  start_.notify_all();
  call.function(call.work, 0);
  barrier();
}

void ThreadPool::barrier() {
  if (workers_.empty()) return;
  const uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<uint32_t>(size())) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.fetch_add(1, std::memory_order_release);
    phase_.notify_all();
  } else {
    wait_for_change(phase_, phase);
  }
}

}  // namespace specbound
