// Keys and values of a path, moved to their positions.
#include "keep_path.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "rig.h"

namespace keep_path_test {

using namespace specbound;
using simt::DeviceBuffer;

TEST_CASE("the keys and values of a path go to its positions, and nothing else changes") {
  constexpr int kContext = 128;
  std::mt19937_64 random(1);
  for (const int root : {0, 9, 57, 112}) {
    for (const int head_dim : {8, 40, 136, 256}) {
      for (const bool int8 : {false, true}) {
        const int layers = 1 + random() % 3, heads = 1 + random() % 2;
        const size_t block = kernels::kv_bytes(int8, head_dim, 1);  // of 16 positions
        const size_t of_head = kContext / 16 * block, each = heads * of_head;
        std::vector<uint8_t> before(layers * 2 * each);
        for (uint8_t& x : before) x = static_cast<uint8_t>(random());
        std::vector<int> slots = {0};
        while (slots.back() < 15) slots.push_back(slots.back() + 1 + random() % 4);
        slots.pop_back();
        if (slots.size() == 1) slots.push_back(15);

        std::vector<uint8_t> expected = before;
        uint64_t path = 0;
        const int number = int8 ? 1 : 2;  // bytes
        for (size_t at = 0; at < slots.size(); ++at) {
          path |= static_cast<uint64_t>(slots[at]) << (4 * at);
          const int to = root + static_cast<int>(at), from = root + slots[at];
          // `n` things of `bytes` from `first` on in a block: number `i` of a place is at step * i.
          const auto move = [&](size_t head, int first, int n, int bytes, int of_place, int step) {
            const auto place = [&](int place, int i) {
              return head + place / 16 * block + first + place % 16 * of_place + i * step;
            };
            for (int i = 0; i < n; ++i) {
              std::copy_n(before.begin() + place(from, i), bytes, expected.begin() + place(to, i));
            }
          };
          for (int h = 0; h < layers * heads; ++h) {
            const size_t k = h / heads * 2 * each + h % heads * of_head, v = k + each;
            move(k, 0, head_dim, number, number, 16 * number);
            move(v, 0, head_dim, number, head_dim * number, number);
            for (const size_t kv : {k, v}) {
              const int scales = int8 ? (head_dim + 31) / 32 : 0;
              move(kv, 16 * head_dim, scales, 2, 2, 32);
            }
          }
        }
        const std::vector<uint8_t> found = simt::for_each_order([&] {
          const DeviceBuffer<uint8_t> kv(before);
          kernels::keep_path({{kv.data(), kv.data() + each, kContext, int8},
                              2 * each,
                              layers,
                              heads,
                              head_dim,
                              root,
                              static_cast<int>(slots.size()) - 1,
                              path},
                             simt::stream());
          return kv.read();
        });
        CHECK(found == expected);
      }
    }
  }
}

TEST_CASE("rows of a path go to its places, and nothing else changes") {
  for (const int dim : {4, 128, 200}) {
    const std::vector<int> slots = {0, 1, 4, 9, 15};
    std::vector<float> before;
    for (int i = 0; i < 16 * dim; ++i) before.push_back(static_cast<float>(i));
    std::vector<float> expected = before;
    uint64_t path = 0;
    for (size_t d = 0; d < slots.size(); ++d) {
      path |= static_cast<uint64_t>(slots[d]) << (4 * d);
      std::copy_n(before.begin() + slots[d] * dim, dim, expected.begin() + d * dim);
    }
    const std::vector<float> found = simt::for_each_order([&] {
      const DeviceBuffer<float> rows(before);
      kernels::keep_rows({rows.data(), dim, static_cast<int>(slots.size()) - 1, path},
                         simt::stream());
      return rows.read();
    });
    CHECK(found == expected);
  }
}

}  // namespace keep_path_test
