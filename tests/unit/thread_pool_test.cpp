// The pool: every thread takes part, barriers hold, more threads than cores still finish soon.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <new>
#include <stdexcept>
#include <vector>

#include "engine/cpu/thread_pool.h"

namespace thread_pool_test {

using namespace specbound;

TEST_CASE("slices cover every item once, in whole units") {
  for (int n : {0, 1, 5, 16, 17, 100, 4097}) {
    for (int threads : {1, 2, 3, 7, 64}) {
      for (int unit : {1, 16}) {
        int next = 0;
        for (int t = 0; t < threads; ++t) {
          const Slice s = slice(n, t, threads, unit);
          CHECK(s.begin == next);
          CHECK(s.end >= s.begin);
          CHECK((s.end % unit == 0 || s.end == n));
          next = s.end;
        }
        CHECK(next == n);
      }
    }
  }
}

TEST_CASE("barriers hold, also with more threads than cores") {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    CHECK(pool.size() == threads);
    std::vector<int> round(threads, 0);
    std::atomic<int> errors{0};
    const auto start = std::chrono::steady_clock::now();
    for (int call = 0; call < 20; ++call) {
      pool.run([&](int thread) {
        for (int i = 0; i < 10; ++i) {
          ++round[thread];
          pool.barrier();
          for (int other : round) errors += other != round[thread];
          pool.barrier();
        }
      });
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    CHECK(errors == 0);
    for (int r : round) CHECK(r == 200);
    CHECK(took.count() < 10);  // 400 barriers; unbounded spinning took seconds each
  }
}

TEST_CASE("an exception of any thread comes out of the call, and the pool goes on") {
  ThreadPool pool(3);
  for (int thrower = 0; thrower < 3; ++thrower) {
    std::atomic<int> others{0};
    const auto work = [&](int thread) {
      if (thread == thrower) throw std::bad_alloc();
      ++others;
    };
    CHECK_THROWS_AS(pool.run_parts(work), std::bad_alloc);
    CHECK(others == 2);
  }
  const auto fail = [](int) { throw std::runtime_error("all of them"); };
  CHECK_THROWS_WITH_AS(pool.run_parts(fail), "all of them", std::runtime_error);
  std::atomic<int> calls{0};
  pool.run_parts([&](int) { ++calls; });
  CHECK(calls == 3);
}

}  // namespace thread_pool_test
