// Small values into device memory.
#include "store.h"

#include <doctest/doctest.h>

#include <vector>

#include "simt/device_buffer.h"

namespace store_test {

using namespace specbound;
using simt::DeviceBuffer;

TEST_CASE("store_words stores as many words as it is given, and none behind them") {
  for (const int n : {1, 31, 32, 33, kernels::kStoredWords}) {
    CAPTURE(n);
    std::vector<uint32_t> expected(kernels::kStoredWords + 1, 7);
    const std::vector<uint32_t> found = simt::for_each_order([&] {
      const DeviceBuffer<uint32_t> to(std::vector<uint32_t>(expected.size(), 7));
      kernels::StoreWords p{to.data(), n, {}};
      for (int i = 0; i < kernels::kStoredWords; ++i) p.words[i] = 0x80000000u + 3 * i;
      kernels::store_words(p, simt::stream());
      return to.read();
    });
    for (int i = 0; i < n; ++i) expected[i] = 0x80000000u + 3 * i;
    CHECK(found == expected);
  }
}

}  // namespace store_test
