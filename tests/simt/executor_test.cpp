// What the SIMT executor promises, on toy kernels: every mistake that it is there for is made here,
// and caught.
#include "simt/executor.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "launch.cuh"
#include "simt/device_buffer.h"
#include "simt/fiber.h"

#ifdef SIMT_TSAN
namespace {
bool dies_of_races = false;
}
// TSan calls it for each race that it has found.
extern "C" void __tsan_on_report(void*) {
  if (!dies_of_races) return;
  std::fputs("data race", stderr);
  _exit(1);
}
#endif

namespace specbound::kernels::executor_test {
namespace {

using simt::DeviceBuffer;
using simt::Fault;
using simt::Order;

// What fn says as it fails: the text of its Fault, or the report of a sanitizer, of which a process
// dies; empty when all is well.
std::string failure_of(const std::function<void()>& fn) {
  const auto fault_of = [&]() -> std::string {
    try {
      fn();
      return "";
    } catch (const Fault& fault) {
      return fault.what();
    }
  };
#if defined(SIMT_ASAN) || defined(SIMT_TSAN)
  // This program again, for this one call: TSan is of little use after a fork.
  static std::string test;
  static int n_calls = 0;
  const char* const now = doctest::getContextOptions()->currentTest->m_name;
  n_calls = test == now ? n_calls + 1 : 0;
  test = now;
  if (const char* wanted = std::getenv("SIMT_FAILURE"); wanted != nullptr) {
    if (std::to_string(n_calls) != wanted) return "";
#ifdef SIMT_TSAN
    dies_of_races = true;
#endif
    std::fputs(fault_of().c_str(), stderr);
    _exit(0);
  }
  std::string filter = "-tc=" + test;
  std::replace(filter.begin(), filter.end(), ',', '?');
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    setenv("SIMT_FAILURE", std::to_string(n_calls).c_str(), 1);
    dup2(ends[1], STDERR_FILENO);
    dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
    execl("/proc/self/exe", "simt_tests", filter.c_str(), nullptr);
    _exit(1);
  }
  close(ends[1]);
  std::string said;
  char part[4096];
  for (ssize_t n; (n = read(ends[0], part, sizeof part)) > 0;) {
    said.append(part, static_cast<size_t>(n));
  }
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return said;
#else
  return fault_of();
#endif
}

void check_says(const std::string& text, const std::vector<std::string>& parts) {
  CAPTURE(text);
  for (const std::string& part : parts) {
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  }
}

// With a sanitizer that sees it at once, another text than from the executor itself.
std::string by_sanitizer([[maybe_unused]] const char* asan, [[maybe_unused]] const char* tsan,
                         const char* otherwise) {
#if defined(SIMT_ASAN)
  return asan != nullptr ? asan : otherwise;
#elif defined(SIMT_TSAN)
  return tsan != nullptr ? tsan : otherwise;
#else
  return otherwise;
#endif
}

constexpr LaunchShape shape(unsigned blocks, int threads, size_t shared_bytes = 0) {
  return {.blocks = {blocks}, .threads = threads, .shared_bytes = shared_bytes};
}

// ---- order ----

unsigned trace[4096], n_traced = 0;

SIMT_UNSEEN void note(unsigned what) {
  trace[n_traced++] = what;
}

struct Nothing {};

__global__ void trace_kernel(Nothing) {
  note(blockIdx.x * 1000 + threadIdx.x);
  __syncthreads();
  note(blockIdx.x * 1000 + threadIdx.x);
  shuffle_xor(1, 1);
  note(blockIdx.x * 1000 + threadIdx.x);
}

std::vector<unsigned> traced(Order order, uint64_t seed = 1) {
  const simt::Options was = simt::options();
  simt::options().order = order;
  simt::options().seed = seed;
  n_traced = 0;
  launch(trace_kernel, "trace", shape(3, 64), nullptr, Nothing{});
  simt::options() = was;
  return {trace, trace + n_traced};
}

TEST_CASE("executor: threads and blocks run forward, in reverse and at random") {
  const auto forward = traced(Order::kForward), reverse = traced(Order::kReverse);
  const auto random = traced(Order::kRandom, 1);
  // A block: all threads to the barrier; then warp by warp, its lanes to the shuffle and on.
  std::vector<unsigned> expected;
  for (unsigned block = 0; block < 3; ++block) {
    for (unsigned i = 0; i < 64; ++i) expected.push_back(1000 * block + i);
    for (unsigned warp = 0; warp < 2; ++warp) {
      for (unsigned i = 0; i < 64; ++i) expected.push_back(1000 * block + 32 * warp + i % 32);
    }
  }
  CHECK(forward == expected);
  for (unsigned& id : expected) id = (2 - id / 1000) * 1000 + 63 - id % 1000;
  CHECK(reverse == expected);

  CHECK(random != forward);
  CHECK(random != traced(Order::kRandom, 2));
  CHECK(random == traced(Order::kRandom, 1));
  for (unsigned block = 0; block < 3; ++block) {  // each thread once before the barrier
    const std::set<unsigned> before(&random[192 * block], &random[192 * block + 64]);
    CHECK(before.size() == 64);
  }
}

struct Indices {
  unsigned* out;  // (blocks, 32, 6)
};

__global__ void indices_kernel(Indices p) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  unsigned* const out = p.out + (block * blockDim.x + threadIdx.x) * 6;
  out[0] = blockIdx.x;
  out[1] = blockIdx.y;
  out[2] = blockIdx.z;
  shuffle_xor(1, 1);
  out[3] = threadIdx.x;
  out[4] = blockDim.x;
  out[5] = gridDim.z;
}

TEST_CASE("executor: every thread of every block runs, and knows which it is") {
  const auto out = simt::for_each_order([] {
    DeviceBuffer<unsigned> all(2 * 3 * 4 * 32 * 6);
    launch(indices_kernel, "indices", {.blocks = {2, 3, 4}, .threads = 32}, nullptr, {all.data()});
    return all.read();
  });
  for (unsigned i = 0; i < out.size(); i += 6) {
    const unsigned thread = i / 6 % 32, block = i / 6 / 32;
    const std::vector<unsigned> expected{block % 2, block / 2 % 3, block / 6, thread, 32, 4};
    REQUIRE(std::vector<unsigned>(&out[i], &out[i] + 6) == expected);
  }
}

// ---- barriers and races ----

struct Reverse {
  const int* in;  // (blocks, threads)
  int* out;
  bool barrier;
};

__global__ void reverse_kernel(Reverse p) {
  int* const row = block_shared<int>();
  const unsigned first = blockIdx.x * blockDim.x;
  row[threadIdx.x] = p.in[first + threadIdx.x];
  if (p.barrier) __syncthreads();
  p.out[first + threadIdx.x] = row[blockDim.x - 1 - threadIdx.x];
}

void reverse(unsigned blocks, int threads, bool barrier) {
  const size_t n = static_cast<size_t>(threads) * blocks;
  std::vector<int> in(n);
  std::iota(in.begin(), in.end(), 7);
  const auto out = simt::for_each_order([&] {
    const DeviceBuffer<int> from(in), to(n);
    launch(reverse_kernel, "reverse", shape(blocks, threads, sizeof(int) * n / blocks), nullptr,
           {from.data(), to.data(), barrier});
    return to.read();
  });
  for (size_t i = 0; i < n; i += static_cast<size_t>(threads)) {
    std::reverse(in.begin() + static_cast<ptrdiff_t>(i),
                 in.begin() + static_cast<ptrdiff_t>(i) + threads);
  }
  CHECK(out == in);
}

TEST_CASE("executor: a barrier orders; a missing one shows") {
  reverse(1, 32, true);
  reverse(5, 256, true);
#ifndef SIMT_TSAN  // which goes slower by the fiber, for all tests that follow
  reverse(2, 1024, true);
#endif
  check_says(failure_of([] { reverse(1, 64, false); }),
             {by_sanitizer(nullptr, "data race", "another result than forward")});
}

struct Neighbor {
  int* out;
  bool barrier;
};

// Lanes pass values through shared memory, which __syncwarp orders and a shuffle does not.
__global__ void neighbor_kernel(Neighbor p) {
  int* const row = block_shared<int>();
  row[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (p.barrier) {
    __syncwarp();
  } else {
    shuffle_xor(1, 1);
  }
  p.out[threadIdx.x] = row[threadIdx.x ^ 1];
}

std::vector<int> neighbors(bool barrier) {
  const DeviceBuffer<int> out(128);
  launch(neighbor_kernel, "neighbor", shape(1, 128, 512), nullptr, {out.data(), barrier});
  return out.read();
}

TEST_CASE("executor: __syncwarp orders memory, a shuffle does not") {
  const auto out = simt::for_each_order([] { return neighbors(true); });
  for (int i = 0; i < 128; ++i) CHECK(out[static_cast<size_t>(i)] == (i ^ 1));
#ifdef SIMT_TSAN
  check_says(failure_of([] { neighbors(false); }), {"data race"});
#endif
}

struct Copied {
  const Word4* in;
  uint32_t* out;
  int waits;  // 0: never, 1: behind the look, 2: before it
};

__global__ void copied_kernel(Copied p) {
  auto* words = block_shared<Word4>();
  words[threadIdx.x] = {7, 7, 7, 7};
  copy_later(words + threadIdx.x, p.in + threadIdx.x);
  if (p.waits == 2) wait_for_copies();
  p.out[threadIdx.x] = words[threadIdx.x].w;
  if (p.waits == 1) wait_for_copies();
}

TEST_CASE("executor: a copy is there when its thread waits, which it must, and not before") {
  const auto copied = [](int waits) {
    const DeviceBuffer<Word4> in(std::vector<Word4>(32, {1, 2, 3, 4}));
    const DeviceBuffer<uint32_t> out(32);
    launch(copied_kernel, "copied", shape(1, 32, 512), nullptr, {in.data(), out.data(), waits});
    return out.read();
  };
  CHECK(copied(2) == std::vector<uint32_t>(32, 4));
  CHECK(copied(1) == std::vector<uint32_t>(32, 7));
  check_says(failure_of([&] { copied(0); }), {"thread 0: exits before its copies are there"});
}

struct Everywhere {
  int* out;
};

__global__ void same_place_kernel(Everywhere p) {
  __syncthreads();
  if (threadIdx.x == 3) p.out[0] = static_cast<int>(blockIdx.x);
}

TEST_CASE("executor: blocks that write one place race") {
  check_says(failure_of([] {
               simt::for_each_order([] {
                 const DeviceBuffer<int> out(1);
                 launch(same_place_kernel, "same_place", shape(4, 32), nullptr, {out.data()});
                 return out.read();
               });
             }),
             {"threads in reverse"});
}

// ---- divergence ----

enum class Mistake {
  kNone,
  kTwoBarriers,
  kExitBeforeBarrier,
  kBarrierInsteadOfShuffle,
  kTwoShuffles,
  kTwoTypes,
  kExitBeforeShuffle,
};

struct Divergent {
  Mistake mistake;
  int first;  // thread that makes it
};

// clang-format off
constexpr int kFirstLine = __LINE__ + 3;
__global__ void divergent_kernel(Divergent p) {
  const bool mine = static_cast<int>(threadIdx.x) >= p.first;
  if (p.mistake == Mistake::kTwoBarriers && !mine) __syncthreads();
  if (p.mistake == Mistake::kTwoBarriers && mine) __syncthreads();
  if (p.mistake == Mistake::kExitBeforeBarrier && mine) return;
  if (p.mistake == Mistake::kBarrierInsteadOfShuffle && mine) __syncthreads();
  if (p.mistake == Mistake::kTwoShuffles && mine) shuffle(1, 0);
  if (p.mistake == Mistake::kExitBeforeShuffle && mine) return;
  p.mistake == Mistake::kTwoTypes && mine ? shuffle(1.0, 0) : shuffle(1, 0);
  if (p.mistake != Mistake::kExitBeforeShuffle) __syncthreads();
}
// clang-format on

std::string divergence(Mistake mistake, int first, Order order = Order::kForward) {
  return failure_of([=] {
    const simt::Options was = simt::options();
    simt::options().order = order;
    try {
      launch(divergent_kernel, "divergent", shape(1, 64), nullptr, {mistake, first});
    } catch (const Fault&) {
      simt::options() = was;
      throw;
    }
    simt::options() = was;
  });
}

TEST_CASE(
    "executor: threads that part at a barrier or a warp operation are named with their lines") {
  const auto line = [](int offset) {
    return specbound::format("executor_test.cpp:%d", kFirstLine + offset);
  };
  CHECK(divergence(Mistake::kNone, 0) == "");
  for (const Order order : {Order::kForward, Order::kReverse, Order::kRandom}) {
    check_says(
        divergence(Mistake::kTwoBarriers, 40, order),
        {"kernel divergent, block (0, 0, 0), thread ", "different barriers", line(0), line(1)});
    check_says(divergence(Mistake::kExitBeforeBarrier, 63, order), {"thread ", "63: exited"});
  }
  check_says(
      divergence(Mistake::kTwoBarriers, 40),
      {"thread 40: threads of a block at different barriers; thread 0-39: at __syncthreads, " +
       line(0) + "; 40: at __syncthreads, " + line(1) + "; 41-63: not there yet"});
  check_says(
      divergence(Mistake::kExitBeforeBarrier, 32),
      {"thread 32: exits while others wait for it; thread 0-31: at __syncthreads, " + line(7)});
  check_says(divergence(Mistake::kBarrierInsteadOfShuffle, 28),
             {"thread 28: a barrier without lanes", "0-27: at a warp operation", line(3)});
  check_says(divergence(Mistake::kTwoShuffles, 1), {"different operations", line(4), line(6)});
  check_says(divergence(Mistake::kTwoTypes, 1),
             {"thread 1: lanes of a warp hand in different types"});
  check_says(divergence(Mistake::kExitBeforeShuffle, 31),
             {"thread 31: exits while its warp waits for it", "0-30: at a warp operation"});
  check_says(divergence(Mistake::kExitBeforeShuffle, 1, Order::kReverse),
             {"thread 0: a warp operation without lanes that have exited"});
}

// ---- memory ----

struct Fill {
  unsigned char* out;
  int first, last;  // bytes
  bool shared;
};

__global__ void fill_kernel(Fill p) {
  unsigned char* const out = p.shared ? block_shared<unsigned char>() : p.out;
  for (int i = p.first + static_cast<int>(threadIdx.x); i <= p.last; i += 32) out[i] = 1;
}

std::string filled(int first, int last, bool shared, bool read = false) {
  return failure_of([=] {
    const DeviceBuffer<unsigned char> out(1000);
    launch(fill_kernel, "fill", shape(shared ? 2 : 1, 32, shared ? 1000 : 0), nullptr,
           {out.data(), first, last, shared});
    if (read) out.read();
  });
}

TEST_CASE("executor: a write next to a buffer or to shared memory is caught") {
  CHECK(filled(0, 999, false) == "");
  CHECK(filled(0, 999, true) == "");
  const std::string asan = "use-after-poison";
  for (const int at : {1000, -1}) {
    const std::string buffer = by_sanitizer(
        asan.c_str(), nullptr,
        specbound::format("device buffer of 1000 bytes: written at byte %d", at).c_str());
    check_says(filled(at, at, false), {buffer});
    check_says(filled(at, at, false, true), {buffer});
    check_says(filled(at, at, true),
               {by_sanitizer(asan.c_str(), nullptr,
                             "kernel fill, block (0, 0, 0): written past its 1000 bytes")});
  }
}

struct Sum {
  int* out;
  int n_written;
};

__global__ void sum_kernel(Sum p) {
  int* const row = block_shared<int>();
  if (static_cast<int>(threadIdx.x) < p.n_written) row[threadIdx.x] = 1;
  __syncthreads();
  int sum = 0;
  for (unsigned i = 0; i < blockDim.x; ++i) sum += row[i];
  p.out[threadIdx.x] = sum;
}

std::vector<int> sums(int n_written) {
  return simt::for_each_order([=] {
    const DeviceBuffer<int> out(64);
    launch(sum_kernel, "sum", shape(1, 64, 256), nullptr, {out.data(), n_written});
    return out.read();
  });
}

TEST_CASE("executor: shared memory and buffers that nobody has written show") {
  CHECK(sums(64) == std::vector<int>(64, 64));
  check_says(failure_of([] { sums(63); }), {"memory filled with 5b: another result"});
  check_says(failure_of([] { simt::for_each_order([] { return DeviceBuffer<float>(3).read(); }); }),
             {"memory filled with 5b: another result"});
}

// ---- what else may happen ----

struct Throwing {
  int thread, block;
};

int n_alive = 0;
struct Alive {
  SIMT_UNSEEN Alive() { ++n_alive; }
  SIMT_UNSEEN ~Alive() { --n_alive; }
};

__global__ void throwing_kernel(Throwing p) {
  const Alive alive;
  const std::vector<int> owned(100);
  if (threadIdx.x % 2 == 0) shuffle_xor(threadIdx.x, 0);
  if (static_cast<int>(blockIdx.x) == p.block && static_cast<int>(threadIdx.x) == p.thread) {
    throw std::runtime_error("mine");
  }
}

__global__ void failing_kernel(Throwing p) {
  const Alive alive;
  const std::vector<int> owned(100);
  if (static_cast<int>(blockIdx.x) == p.block && static_cast<int>(threadIdx.x) == p.thread) {
    throw std::out_of_range("mine");
  }
  shuffle_xor(1, 1);
  __syncthreads();
}

TEST_CASE("executor: what a kernel throws comes out of the launch, and every thread is unwound") {
  for (const int thread : {0, 5, 95}) {
    CHECK_THROWS_WITH_AS(launch(failing_kernel, "failing", shape(3, 96), nullptr, {thread, 1}),
                         "mine", std::out_of_range);
    CHECK(n_alive == 0);
    CHECK_THROWS_AS(launch(throwing_kernel, "throwing", shape(3, 96), nullptr, {thread, 1}), Fault);
    CHECK(n_alive == 0);
  }
  launch(failing_kernel, "failing", shape(3, 96), nullptr, {0, 3});
  CHECK(n_alive == 0);
  reverse(2, 128, true);
}

__global__ void launching_kernel(Nothing) {
  launch(trace_kernel, "inner", shape(1, 32), nullptr, Nothing{});
}

TEST_CASE("executor: impossible launches") {
  const auto says = [](const LaunchShape& wrong, const char* part) {
    check_says(failure_of([&] { launch(trace_kernel, "trace", wrong, nullptr, Nothing{}); }),
               {"kernel trace", part});
  };
  says(shape(1, 48), "whole warps");
  says(shape(1, 0), "1 to 1024");
  says(shape(1, 2048), "1 to 1024");
  says(shape(0, 32), "no blocks");
  says(shape(1, 32, (64 << 10) + 1), "more shared memory than allowed");
  says({.blocks = {1, 1, 65536}, .threads = 32}, "too many blocks");
  check_says(
      failure_of([] { launch(launching_kernel, "outer", shape(1, 32), nullptr, Nothing{}); }),
      {"kernel inner", "launched by a kernel"});
}

#if defined(NDEBUG) && !defined(SIMT_ASAN) && !defined(SIMT_TSAN)

struct Work {
  float* out;
  int n;
};

__global__ void shuffles_kernel(Work p) {
  float x = static_cast<float>(threadIdx.x);
  for (int i = 0; i < p.n; ++i) x = 0.5f * x + shuffle_xor(x, 1 << i % 5);
  if (x < 0) p.out[0] = x;
}

__global__ void barriers_kernel(Work p) {
  for (int i = 0; i < p.n; ++i) __syncthreads();
}

__global__ void mma_kernel(Work p) {
  int32_t c[4] = {};
  for (int i = 0; i < p.n; ++i) mma_16x8x32(c, {threadIdx.x, 1, 2, 3}, {4, 5}, 0);
  if (c[0] == 1) p.out[0] = 1;
}

TEST_CASE("executor: what a rendezvous costs") {
  const DeviceBuffer<float> out(1);
  // Of CPU time, a thread and rendezvous; the best of three.
  const auto microseconds = [&](void (*kernel)(Work), int n) {
    double best = HUGE_VAL;
    for (int i = 0; i < 3; ++i) {
      const clock_t begin = clock();
      launch(kernel, "work", shape(1, 256), nullptr, {out.data(), n});
      best = std::min(best, 1e6 * static_cast<double>(clock() - begin) / CLOCKS_PER_SEC / 256 / n);
    }
    return best;
  };
  // A hundred times what a switch takes here, so that a slow machine passes.
  CHECK(microseconds(shuffles_kernel, 300) < 5);
  CHECK(microseconds(barriers_kernel, 300) < 5);
  CHECK(microseconds(mma_kernel, 300) < 10);
}

#endif

}  // namespace
}  // namespace specbound::kernels::executor_test
