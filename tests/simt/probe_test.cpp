// What GPUs are measured with: every byte is read once, and random words are what they should be.
#include "probe.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <vector>

#include "simt/device_buffer.h"

namespace probe_test {

using namespace specbound;
using simt::DeviceBuffer;

namespace {

std::vector<uint32_t> random_words(size_t n, uint32_t mask, uint32_t bits, uint64_t seed) {
  const DeviceBuffer<uint32_t> words(n);
  kernels::fill_random({words.data(), n, mask, bits, seed}, simt::stream());
  return words.read();
}

}  // namespace

TEST_CASE("read_words sums every word once: lengths around the loads in flight, any grid") {
  for (const auto& [blocks, threads] : {std::pair{1, 32}, std::pair{3, 64}, std::pair{2, 256}}) {
    const size_t at_once = size_t{8} * blocks * threads;  // of 16 bytes
    for (const size_t n : {size_t{1}, at_once - 1, at_once, at_once + 1, 2 * at_once + 33}) {
      CAPTURE(n);
      std::vector<uint32_t> values(n * 4);
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint32_t>(i * i + 7);
      const DeviceBuffer<uint32_t> words(values);
      const std::vector<uint32_t> sums = simt::for_each_order([&, b = blocks, t = threads] {
        const DeviceBuffer<uint32_t> all(static_cast<size_t>(b) * t);
        kernels::read_words({words.data(), n * 16, all.data(), b, t}, simt::stream());
        return all.read();
      });
      CHECK(std::accumulate(sums.begin(), sums.end(), uint32_t{0}) ==
            std::accumulate(values.begin(), values.end(), uint32_t{0}));
    }
  }
}

TEST_CASE("fill_random: the same words for a seed, others for another; mask and bits") {
  for (const size_t n : {1, 255, 257, 1024 * 256 + 5}) {
    CAPTURE(n);
    const std::vector<uint32_t> words = random_words(n, ~0u, 0, 5);
    CHECK(words == random_words(n, ~0u, 0, 5));
    CHECK(words != random_words(n, ~0u, 0, uint64_t{5} << 32));
    CHECK(std::set<uint32_t>(words.begin(), words.end()).size() >= n - n / 1000);
    if (n < 1000) continue;
    for (int bit = 0; bit < 32; ++bit) {
      const auto ones = std::count_if(words.begin(), words.end(),
                                      [bit](uint32_t word) { return word >> bit & 1; });
      CHECK(std::abs(static_cast<double>(ones) / static_cast<double>(n) - 0.5) < 0.01);
    }
  }
  const std::vector<uint32_t> plain = random_words(1000, ~0u, 0, 9);
  const std::vector<uint32_t> masked = random_words(1000, 0x0ff0ff00u, 0x80000001u, 9);
  for (size_t i = 0; i < plain.size(); ++i) {
    CHECK(masked[i] == ((plain[i] & 0x0ff0ff00u) | 0x80000001u));
  }
}

}  // namespace probe_test
