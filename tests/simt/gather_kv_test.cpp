// Keys and values of a position, out of the layouts in which the cache has them.
#include "gather_kv.h"

#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "simt/device_buffer.h"

namespace gather_kv_test {

using namespace specbound;
using simt::DeviceBuffer;

constexpr int kContext = 64, kHeads = 3;

// Keys, then values (kHeads, head_dim) of a position.
std::vector<uint16_t> gathered(const kernels::KvLayer& kv, int head_dim, int pos) {
  return simt::for_each_order([&] {
    const size_t n = size_t{kHeads} * head_dim;
    const DeviceBuffer<uint16_t> out(2 * n);
    kernels::gather_kv({kv, kHeads, head_dim, pos, out.data(), out.data() + n}, simt::stream());
    return out.read();
  });
}

TEST_CASE("gather_kv takes a position's keys and values, head by head") {
  std::mt19937 random(1);
  for (const int head_dim : {8, 40, 256}) {
    std::vector<uint16_t> k(size_t{kHeads} * kContext * head_dim), v(k.size());
    for (uint16_t& x : k) x = static_cast<uint16_t>(random());
    for (uint16_t& x : v) x = static_cast<uint16_t>(random());
    const DeviceBuffer<uint16_t> device_k(k), device_v(v);
    for (const int pos : {0, 15, 16, 63}) {
      CAPTURE(head_dim);
      CAPTURE(pos);
      std::vector<uint16_t> expected;
      for (int h = 0; h < kHeads; ++h) {
        for (int d = 0; d < head_dim; ++d) {
          expected.push_back(
              k[(size_t(h) * kContext + pos / 16 * 16) * head_dim + d * 16 + pos % 16]);
        }
      }
      for (int h = 0; h < kHeads; ++h) {
        for (int d = 0; d < head_dim; ++d) {
          expected.push_back(v[(size_t(h) * kContext + pos) * head_dim + d]);
        }
      }
      CHECK(gathered({device_k.data(), device_v.data(), kContext}, head_dim, pos) == expected);
    }
  }
}

TEST_CASE("gather_kv of INT8: numbers below, bytes of their scales above") {
  std::mt19937 random(2);
  for (const int head_dim : {8, 40, 256}) {
    const size_t block = kernels::kv_bytes(true, head_dim, 1), blocks = kContext / 16;
    std::vector<uint8_t> k(kHeads * blocks * block), v(k.size());
    for (uint8_t& x : k) x = static_cast<uint8_t>(random());
    for (uint8_t& x : v) x = static_cast<uint8_t>(random());
    const DeviceBuffer<uint8_t> device_k(k), device_v(v);
    for (const int pos : {0, 15, 16, 63}) {
      CAPTURE(head_dim);
      CAPTURE(pos);
      std::vector<uint16_t> expected;
      const auto expect = [&](const std::vector<uint8_t>& from, int first, int step) {
        for (int h = 0; h < kHeads; ++h) {
          const uint8_t* at = &from[(h * blocks + pos / 16) * block];
          const uint8_t* scales = at + 16 * head_dim;
          for (int d = 0; d < head_dim; ++d) {
            const int scale = 2 * (d / 32 * 16 + pos % 16) + d % 2;
            expected.push_back(static_cast<uint16_t>(at[first + step * d] | scales[scale] << 8));
          }
        }
      };
      expect(k, pos % 16, 16);
      expect(v, pos % 16 * head_dim, 1);
      CHECK(gathered({device_k.data(), device_v.data(), kContext, true}, head_dim, pos) ==
            expected);
    }
  }
}

}  // namespace gather_kv_test
