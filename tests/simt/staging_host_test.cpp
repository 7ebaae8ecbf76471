// Two pinned buffers in turn: nothing is overwritten on its way, nothing is waited for too early.
#include "engine/cuda/device.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "error.h"
#include "kernels/store.h"
#include "simt/simt_device.h"

namespace staging_host_test {

using namespace specbound;

namespace {

constexpr size_t kBytes = 1024;

// A buffer of `value`, and a kernel behind it: log().kernels_run then tells how far the stream is.
// memory (9, kBytes): the last one is the kernel's.
void send_all(simt::SimtDevice& device, Staging& staging, const DeviceMemory<std::byte>& memory,
              int value) {
  const auto room = staging.room(kBytes);
  REQUIRE(room.size() == kBytes);
  std::fill(room.begin(), room.end(), std::byte(value));
  staging.send(memory.data() + value * kBytes, kBytes);
  kernels::store_words({reinterpret_cast<uint32_t*>(memory.data() + 8 * kBytes), 1, {7}},
                       device.stream());
}

std::vector<std::byte> numbered(int n) {
  std::vector<std::byte> bytes;
  for (int i = 0; i < n; ++i) bytes.insert(bytes.end(), kBytes, std::byte(i));
  return bytes;
}

}  // namespace

TEST_CASE("staging: waits for what was sent from the same buffer, and for no more") {
  simt::DeviceLog log;
  simt::SimtDevice device({.log = &log});
  const DeviceMemory<std::byte> memory(device, 9 * kBytes);
  {
    Staging staging(device, kBytes);
    for (int i = 0; i < 6; ++i) {
      send_all(device, staging, memory, i);
      CHECK(log.synchronizations == std::max(0, i - 1));
      CHECK(log.kernels_run == std::max(0, i - 1));
    }
  }  // all has arrived, without finish()
  CHECK(log.kernels_run == 6);
  CHECK(device.read(memory.data(), 6 * kBytes) == numbered(6));
  CHECK(log.wrong == "");
}

TEST_CASE("staging: rooms are aligned, at least as large as asked for, and share a buffer") {
  simt::SimtDevice device;
  const DeviceMemory<std::byte> memory(device, kBytes);
  Staging staging(device, 200);
  CHECK(staging.bytes() == 200);
  const auto first = staging.room(1);
  CHECK(first.size() == 200);
  first[0] = first[1] = first[2] = std::byte{5};
  staging.send(memory.data(), 1);
  staging.send(memory.data() + 1, 2);
  const auto second = staging.room(136);
  CHECK(second.data() == first.data() + 64);
  CHECK(second.size() == 136);
  std::fill(second.begin(), second.end(), std::byte{6});
  staging.send(memory.data() + 3, 136);
  const auto third = staging.room(1);  // the other buffer: nothing is left of this one
  CHECK(third.size() == 200);
  CHECK((third.data() < first.data() || third.data() >= first.data() + 200));
  staging.finish();
  std::vector<std::byte> expected(139, std::byte{6});
  std::fill_n(expected.begin(), 3, std::byte{5});
  CHECK(device.read(memory.data(), 139) == expected);
}

TEST_CASE("staging: a lost device comes out of finish(), and of nothing after it") {
  simt::DeviceLog log;
  {
    simt::SimtDevice device({.log = &log});
    const DeviceMemory<std::byte> memory(device, 9 * kBytes);
    Staging staging(device, kBytes);
    send_all(device, staging, memory, 1);
    device.options().lose_at = log.operations + 1;
    CHECK_THROWS_AS(staging.finish(), Error);
  }
  CHECK(log.live == 0);
  CHECK(log.wrong == "");
}

}  // namespace staging_host_test
