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
      const int layers = 1 + random() % 3, heads = 1 + random() % 2;
      const size_t each = static_cast<size_t>(kContext) * heads * head_dim;
      std::vector<uint16_t> before(layers * 2 * each);
      for (uint16_t& x : before) x = static_cast<uint16_t>(random());
      std::vector<int> slots = {0};
      while (slots.back() < 15) slots.push_back(slots.back() + 1 + random() % 4);
      slots.pop_back();
      if (slots.size() == 1) slots.push_back(15);

      std::vector<uint16_t> expected = before;
      uint64_t path = 0;
      const auto k_at = [&](size_t head, int place, int d) {
        return head * kContext * head_dim + (place / 16 * head_dim + d) * 16 + place % 16;
      };
      const auto v_at = [&](size_t head, int place, int d) {
        return each + (head * kContext + place) * head_dim + d;
      };
      for (size_t at = 0; at < slots.size(); ++at) {
        path |= static_cast<uint64_t>(slots[at]) << (4 * at);
        const int to = root + static_cast<int>(at), from = root + slots[at];
        for (int l = 0; l < layers; ++l) {
          for (int h = 0; h < heads; ++h) {
            for (int d = 0; d < head_dim; ++d) {
              const size_t layer = l * 2 * each;
              expected[layer + k_at(h, to, d)] = before[layer + k_at(h, from, d)];
              expected[layer + v_at(h, to, d)] = before[layer + v_at(h, from, d)];
            }
          }
        }
      }
      const std::vector<uint16_t> found = simt::for_each_order([&] {
        const DeviceBuffer<uint16_t> kv(before);
        kernels::keep_path({{kv.data(), kv.data() + each, kContext},
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
