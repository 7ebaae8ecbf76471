// What the executor promises as the engine's GPU: it runs nothing before somebody waits, and finds
// what would be a mistake on any GPU.
#include "simt/simt_device.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/cuda/read_bandwidth.h"
#include "launch.cuh"
#include "store.h"

namespace simt_device_host_test {

using namespace specbound;
using simt::DeviceLog;
using simt::DeviceOptions;
using simt::Fault;
using simt::SimtDevice;
using Words = std::vector<uint32_t>;

namespace {

struct Tell {
  const uint32_t* from;
  uint32_t* to;
};
__global__ void tell_kernel(Tell p) {
  if (threadIdx.x == 0) *p.to = *p.from;
}
__global__ void diverging_kernel(Tell) {
  if (threadIdx.x == 0) __syncthreads();
}

void store(SimtDevice& device, uint32_t* to, uint32_t value) {
  kernels::store_words({to, 1, {value}}, device.stream());
}
void tell(SimtDevice& device, const uint32_t* from, uint32_t* to) {
  kernels::launch(tell_kernel, "tell", {.blocks = {1}, .threads = 32}, device.stream(),
                  Tell{from, to});
}

std::string error_of(ErrorCode code, const std::function<void()>& fn) {
  try {
    fn();
  } catch (const Error& e) {
    CHECK(e.code() == code);
    return e.what();
  }
  return "";
}

std::string fault_of(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const Fault& e) {
    return e.what();
  }
  return "";
}

bool says(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("nothing runs before somebody waits, and no further than to what is waited for") {
  SimtDevice device;
  const DeviceMemory<uint32_t> word(device, 1);
  const PinnedMemory<uint32_t> from(device, 1), told(device, 3);
  for (int i = 0; i < 3; ++i) told.data()[i] = 0;
  from.data()[0] = 1;
  device.copy_in(word.data(), from.data(), 4);
  from.data()[0] = 2;  // too early: this is what is copied
  tell(device, word.data(), &told.data()[0]);
  const auto first = device.mark();
  tell(device, word.data(), &told.data()[1]);
  const auto second = device.mark();
  tell(device, word.data(), &told.data()[2]);
  CHECK(device.log().kernels_run == 0);

  SUBCASE("a mark") {
    device.wait(*first);
    CHECK(told.data()[0] == 2);
    CHECK(told.data()[1] == 0);
    CHECK(device.seconds_between(*first, *second) > 0);
    CHECK(told.data()[1] == 2);
    CHECK(told.data()[2] == 0);
  }
  SUBCASE("a word") {
    device.wait_for(&told.data()[1], 2);
    CHECK(device.log().kernels_run == 2);
    CHECK(says(fault_of([&] { device.wait_for(&told.data()[1], 3); }), "and it is 2"));
    CHECK(device.log().kernels_run == 3);
  }
  device.synchronize();
  CHECK(told.data()[2] == 2);
  CHECK(device.log().launches == 3);
  CHECK(device.log().copies == 1);
}

TEST_CASE("a graph's launches run as often as it is launched, with memory as it then is") {
  DeviceLog log;
  {
    SimtDevice device({.log = &log});
    const DeviceMemory<uint32_t> word(device, 1), out(device, 1);
    store(device, word.data(), 5);
    const auto graph = device.record([&] {
      tell(device, word.data(), out.data());
      device.clear(word.data(), 4);
    });
    CHECK(device.log().kernels_run == 0);
    device.launch(*graph);
    CHECK(device.read(out.data(), 1) == Words{5});
    CHECK(device.read(word.data(), 1) == Words{0});
    device.write(word.data(), Words{6});
    device.launch(*graph);
    device.launch(*graph);
    CHECK(device.read(out.data(), 1) == Words{0});
    CHECK(log.kernels_run == 4);
    CHECK(log.launches == 2);
    CHECK(log.graph_launches == 3);
    CHECK(log.live == 3);
  }
  CHECK(log.live == 0);
  CHECK(log.wrong.empty());
}

TEST_CASE("graphs are recorded while they leave memory for others") {
  DeviceLog log;
  {
    SimtDevice device({.log = &log});
    specbound::GraphCache<int> graphs(device, true);
    const DeviceMemory<uint32_t> word(device, 1);
    int launched = 0;
    const auto run_thrice = [&] {
      for (int i = 0; i < 3; ++i) {
        graphs.run(7, [&] {
          ++launched;
          store(device, word.data(), 1);
        });
      }
    };
    device.options().taken_bytes = device.options().total_bytes - (size_t{32} << 20);
    run_thrice();
    CHECK(launched == 3);
    CHECK(log.records == 0);
    device.options().taken_bytes = 0;
    run_thrice();
    CHECK(launched == 4);
    CHECK(log.records == 1);
    device.synchronize();
  }
  CHECK(log.wrong == "");
}

TEST_CASE("what no GPU allows while a graph is recorded") {
  SimtDevice device;
  const PinnedMemory<uint32_t> word(device, 1);
  const auto graph = device.record([] {});
  const std::function<void()> calls[] = {
      [&] { device.record([] {}); },
      [&] { device.launch(*graph); },
      [&] { device.synchronize(); },
      [&] { device.wait_for(word.data(), 0); },
      [&] { device.mark(); },
      [&] { device.allocate(4); },
      [&] { device.allocate_pinned(4); },
  };
  for (const auto& call : calls) {
    CHECK(says(fault_of([&] { device.record(call); }), "graph"));
    device.synchronize();  // no longer recording
  }
}

TEST_CASE("memory is where it should be, and holds nothing that anyone could count on") {
  SimtDevice device;
  const DeviceMemory<uint32_t> there(device, 4);
  const PinnedMemory<uint32_t> here(device, 4);
  Words pageable(4);
  CHECK(reinterpret_cast<uintptr_t>(there.data()) % 256 == 0);
  CHECK(device.read(there.data(), 1) == Words{0xffffffffu});
  CHECK(here.data()[3] == 0xffffffffu);
  CHECK(device.allocate(0) == nullptr);
  CHECK(says(fault_of([&] { device.copy_in(there.data(), pageable.data(), 16); }), "not pinned"));
  CHECK(says(fault_of([&] { device.copy_out(pageable.data(), there.data(), 16); }), "not pinned"));
  CHECK(says(fault_of([&] { device.copy_in(here.data(), here.data(), 16); }), "not device"));
  CHECK(says(fault_of([&] { device.copy_in(there.data() + 1, here.data(), 16); }), "reach past"));
  CHECK(says(fault_of([&] { device.clear(there.data(), 17); }), "reach past"));
  CHECK(says(fault_of([&] { device.wait_for(pageable.data(), 0); }), "not pinned"));
  device.synchronize();
}

#if !defined(SIMT_ASAN) && !defined(SIMT_TSAN)  // they take the signal
TEST_CASE("the host cannot touch the device's memory") {
  SimtDevice device;
  const DeviceMemory<uint32_t> used(device, 1);
  store(device, used.data(), 3);
  device.synchronize();
  const DeviceMemory<uint32_t> fresh(device, 1);
  for (const volatile uint32_t* word : {used.data(), fresh.data()}) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      std::signal(SIGSEGV, SIG_DFL);
      _exit(*word == 3 ? 0 : 1);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
  }
}
#endif

TEST_CASE("released while it is still to be used: the next call that waits says so") {
  DeviceLog log;
  auto device = std::make_unique<SimtDevice>(DeviceOptions{.log = &log});
  SUBCASE("by a kernel") {
    DeviceMemory<uint32_t> word(*device, 8);
    store(*device, word.data() + 3, 1);
    word = {};
    CHECK(says(fault_of([&] { device->synchronize(); }), "before kernel store_words has run"));
    CHECK(says(error_of(ErrorCode::kDevice, [&] { device->synchronize(); }), "lost"));
  }
  SUBCASE("by a copy, and nobody waits") {
    const DeviceMemory<uint32_t> word(*device, 1);
    PinnedMemory<uint32_t> from(*device, 1);
    device->copy_in(word.data(), from.data(), 4);
    from = {};
  }
  SUBCASE("by a graph") {
    DeviceMemory<uint32_t> word(*device, 1);
    const auto graph = device->record([&] { store(*device, word.data(), 1); });
    word = {};
    CHECK(says(fault_of([&] { device->launch(*graph); }), "memory that was released"));
  }
  SUBCASE("not when something else is to be used") {
    const DeviceMemory<uint32_t> word(*device, 1);
    DeviceMemory<uint32_t> other(*device, 1);
    store(*device, word.data(), 1);
    other = {};
    CHECK(device->read(word.data(), 1) == Words{1});
  }
  SUBCASE("not on the way out of an error, when a release waits") {
    const PinnedMemory<uint32_t> told(*device, 1);
    const std::string error = error_of(ErrorCode::kLimit, [&] {
      const DeviceMemory<uint32_t> word(*device, 1);
      store(*device, word.data(), 4);
      tell(*device, word.data(), told.data());
      throw Error(ErrorCode::kLimit, "on purpose");
    });
    CHECK(error == "on purpose");
    CHECK(told.data()[0] == 4);
    device->synchronize();
  }
  CHECK(log.live == 0);
  const bool nobody_waited = log.copies > 0 && log.synchronizations == 0;
  device.reset();
  CHECK(log.wrong.empty() != nobody_waited);
}

TEST_CASE("what is left at the device's end is known") {
  DeviceLog log;
  {
    SimtDevice device({.log = &log});
    device.allocate(16);
  }
  CHECK(log.live == 1);
  CHECK(says(log.wrong, "1 allocations, graphs or marks are left"));
}

TEST_CASE("a kernel's fault comes out of the next call that waits, as it is; then all is lost") {
  DeviceLog log;
  SimtDevice device({.log = &log});
  const DeviceMemory<uint32_t> word(device, 1);
  const auto run = [&](void (*kernel)(Tell)) {
    kernels::launch(kernel, "faulty", {.blocks = {1}, .threads = 64}, device.stream(),
                    Tell{word.data(), word.data()});
  };
  run(diverging_kernel);
  store(device, word.data(), 1);
  CHECK(says(fault_of([&] { device.synchronize(); }), "kernel faulty"));
  CHECK(log.kernels_run == 1);
  CHECK(says(error_of(ErrorCode::kDevice, [&] { device.free_bytes(); }), "device is lost"));
  CHECK(says(error_of(ErrorCode::kDevice, [&] { store(device, word.data(), 1); }), "lost"));
}

#ifndef SIMT_ASAN  // the access itself is an error there
__global__ void past_the_end_kernel(Tell p) {
  p.to[threadIdx.x] = 7;
}

TEST_CASE("a write past the end of memory is found when it is released") {
  SimtDevice device;
  {
    const DeviceMemory<uint32_t> words(device, 31);
    kernels::launch(past_the_end_kernel, "past", {.blocks = {1}, .threads = 32}, device.stream(),
                    Tell{nullptr, words.data()});
    device.synchronize();
  }
  CHECK(says(fault_of([&] { device.synchronize(); }), "124 bytes: written at byte 124"));
}
#endif

TEST_CASE("failures on demand: memory, launches, kernels, the whole device") {
  DeviceLog log;
  {
    SimtDevice device({.total_bytes = 4096, .taken_bytes = 96, .log = &log});
    DeviceMemory<std::byte> memory(device, 3000);
    CHECK(device.free_bytes() == 1000);
    CHECK(says(error_of(ErrorCode::kLimit, [&] { DeviceMemory<char>(device, 1001); }),
               "expected 0.0 MB of free memory, found 0.0 MB"));
    memory = {};
    CHECK(device.free_bytes() == 4000);

    device.options().refuse_allocation = log.allocations + 2;
    const PinnedMemory<uint32_t> words(device, 1);
    CHECK_FALSE(error_of(ErrorCode::kLimit, [&] { PinnedMemory<char>(device, 1); }).empty());
    const PinnedMemory<char> again(device, 1);

    device.options().fail_launch = log.launches + 2;
    store(device, words.data(), 1);
    CHECK(error_of(ErrorCode::kDevice, [&] { store(device, words.data(), 2); }) ==
          "kernel store_words: launch failure");
    store(device, words.data(), 3);
    device.synchronize();
    CHECK(words.data()[0] == 3);

    device.options().fail_kernel = log.kernels_run + 2;
    const auto graph = device.record([&] { store(device, words.data(), 4); });
    device.launch(*graph);
    device.launch(*graph);
    CHECK(says(error_of(ErrorCode::kDevice, [&] { device.synchronize(); }),
               "GPU 0 (SIMT executor): kernel store_words: unspecified launch failure"));
    CHECK(words.data()[0] == 4);
    CHECK_FALSE(error_of(ErrorCode::kDevice, [&] { device.mark(); }).empty());
  }
  CHECK(log.live == 0);
  CHECK(log.wrong.empty());

  for (int at = 1; at <= 6; ++at) {
    SimtDevice device({.lose_at = at, .log = &log});
    const std::string error = error_of(ErrorCode::kDevice, [&] {
      const DeviceMemory<uint32_t> word(device, 1);
      const PinnedMemory<uint32_t> told(device, 1);
      store(device, word.data(), 1);
      device.copy_out(told.data(), word.data(), 4);
      device.wait_for(told.data(), 1);
      device.free_bytes();
    });
    CHECK(says(error, "the device is lost"));
    CHECK(log.operations == at);
    CHECK(log.live == 0);
  }
}

TEST_CASE("read bandwidth is measured and leaves nothing behind") {
  DeviceLog log;
  {
    SimtDevice device({.log = &log});
    const std::optional<double> rate = read_bandwidth(device, 0);
    REQUIRE(rate);
    CHECK(*rate > 1e6);
    CHECK(*rate < 1e12);
  }
  CHECK(log.live == 0);
  CHECK(log.wrong.empty());
}

TEST_CASE("read bandwidth is not that of a cache, where little memory is free") {
  const size_t l2 = SimtDevice().info().l2_bytes;
  for (const size_t caches : {0, 1, 7, 8, 9}) {
    CAPTURE(caches);
    DeviceLog log;
    {
      SimtDevice device({.taken_bytes = (size_t{8} << 30) - caches * l2, .log = &log});
      CHECK(read_bandwidth(device, 0).has_value() == (caches >= 8));
    }
    CHECK((log.allocations > 0) == (caches >= 8));
    CHECK(log.wrong.empty());
  }
}

}  // namespace simt_device_host_test
