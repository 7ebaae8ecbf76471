// A team of threads that runs one function in step, with barriers inside. Waiting spins a bounded
// time, then sleeps in the kernel: a spin without bound collapses when threads outnumber the free
// cores, and an idle program must use no CPU.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

namespace specbound {

class ThreadPool {
 public:
  // `n_threads` >= 1, the caller of run() included. Throws Error(kLimit) when threads cannot be
  // had.
  explicit ThreadPool(int n_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls work(thread) on every thread, 0 being the caller; returns when all are done. `work` must
  // not throw.
  template <class Work>
  void run(const Work& work) {
    run({[](const void* w, int thread) { (*static_cast<const Work*>(w))(thread); }, &work});
  }

  // The same for work without barriers, which may throw, as memory may run out: one of the
  // exceptions is thrown again here, after all threads are done.
  template <class Work>
  void run_parts(const Work& work) {
    std::atomic<bool> failed{false};
    std::exception_ptr exception;
    run([&](int thread) {
      try {
        work(thread);
      } catch (...) {
        if (!failed.exchange(true)) exception = std::current_exception();
      }
    });
    if (exception) std::rethrow_exception(exception);
  }

  // From inside `work`: nobody passes until all have arrived.
  void barrier();

 private:
  // A call without the allocation of std::function: a run may be a few microseconds.
  struct Call {
    void (*function)(const void* work, int thread);
    const void* work;
  };

  void run(const Call& call);
  void worker(int thread);
  void wait_for_change(const std::atomic<uint32_t>& word, uint32_t old);
  void stop();

  std::vector<std::thread> workers_;
  Call call_{};
  bool stopping_ = false;
  // Apart from one another: each is written by one thread and watched by the others.
  alignas(64) std::atomic<uint32_t> start_{0};    // counts runs
  alignas(64) std::atomic<uint32_t> phase_{0};    // counts barriers passed
  alignas(64) std::atomic<uint32_t> arrived_{0};  // at the barrier under way
};

// The half-open part of 0..n that `thread` of `n_threads` works on, a multiple of `unit` where it
// can be.
struct Slice {
  int begin, end;
};
inline Slice slice(int n, int thread, int n_threads, int unit = 1) {
  const int units = (n + unit - 1) / unit;
  const int begin = static_cast<int>(static_cast<int64_t>(units) * thread / n_threads) * unit;
  const int end = static_cast<int>(static_cast<int64_t>(units) * (thread + 1) / n_threads) * unit;
  return {begin < n ? begin : n, end < n ? end : n};
}

}  // namespace specbound
