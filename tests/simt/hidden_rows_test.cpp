// Where a pass finds its hidden rows: H[slot..], all of them or the last one alone.
#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "projections.h"
#include "projections_f16.h"
#include "rows.h"
#include "simt/device_buffer.h"

namespace hidden_rows_test {

using namespace specbound;
using namespace specbound::kernels;
using simt::DeviceBuffer;

namespace {

constexpr int kDim = 96, kSlots = 16;

std::vector<float> hidden_rows_of_all() {
  std::vector<float> h(kSlots * kDim);
  for (size_t i = 0; i < h.size(); ++i) h[i] = static_cast<float>((i * 37) % 101) - 50.0f;
  return h;
}

// Rows of a pass, quantized: q of the first n_rows and their scales.
struct Quantized {
  std::vector<int8_t> q;
  std::vector<float> d;
  bool operator==(const Quantized&) const = default;
};

Quantized normed(const Pass& pass, int max_rows, bool last_row, int n_rows) {
  const DeviceBuffer<Pass> device_pass(std::vector<Pass>{pass});
  const DeviceBuffer<float> h(hidden_rows_of_all()), weight(std::vector<float>(kDim, 0.5f));
  const int panels = panels_of(max_rows);
  const DeviceBuffer<int8_t> q(size_t(panels) * kPanelRows * kDim);
  const DeviceBuffer<float> d(size_t(panels) * kPanelRows * kDim / 32);
  norm_quantize({device_pass.data(),
                 h.data(),
                 weight.data(),
                 1e-5f,
                 {kDim, q.data(), d.data()},
                 max_rows,
                 last_row},
                simt::stream());
  const std::vector<int8_t> all = q.read();
  const std::vector<float> scales = d.read();
  Quantized rows;
  for (int r = 0; r < n_rows; ++r) {
    for (int b = 0; b < kDim / 32; ++b) {
      const size_t block = (size_t(r / 8) * (kDim / 32) + b) * 8 + r % 8;
      rows.q.insert(rows.q.end(), all.begin() + block * 32, all.begin() + (block + 1) * 32);
      rows.d.push_back(scales[block]);
    }
  }
  return rows;
}

struct HalfRow {
  std::vector<uint16_t> x;  // of the first panel
  float scale;
};

HalfRow normed_half(const Pass& pass, int max_rows, bool last_row) {
  const DeviceBuffer<Pass> device_pass(std::vector<Pass>{pass});
  const DeviceBuffer<float> h(hidden_rows_of_all()), weight(std::vector<float>(kDim, 0.5f));
  const int rows = panels_of(max_rows) * kPanelRows;
  const DeviceBuffer<uint16_t> x(size_t(rows) * kDim * 2);
  const DeviceBuffer<float> scale(rows);
  norm_f16({device_pass.data(),
            h.data(),
            weight.data(),
            kDim,
            1e-5f,
            {kDim, x.data(), scale.data()},
            max_rows,
            last_row},
           simt::stream());
  const std::vector<uint16_t> all = x.read();
  HalfRow row{{}, scale.read()[0]};
  for (int at = 0; at < kDim * 2; ++at) {  // 16 of k, two parts: 32 halves a row of 8
    row.x.push_back(all[size_t(at / 32) * 8 * 32 + at % 32]);
  }
  return row;
}

}  // namespace

TEST_CASE("hidden rows: a pass's rows begin at its slot, or are its last one alone") {
  const Quantized all = normed({kSlots, 0, 0}, 16, false, kSlots);
  const size_t row_scales = kDim / 32;
  for (const int slot : {0, 1, 7, 11}) {
    for (const int n_rows : {1, 3, 5}) {
      const Quantized some = normed({n_rows, 40, slot}, 16, false, n_rows);
      for (int r = 0; r < n_rows; ++r) {
        CHECK(std::memcmp(&some.q[size_t(r) * kDim], &all.q[size_t(slot + r) * kDim], kDim) == 0);
        CHECK(std::memcmp(&some.d[r * row_scales], &all.d[(slot + r) * row_scales],
                          row_scales * 4) == 0);
      }
      const Quantized last = normed({n_rows, 40, slot}, 1, true, 1);
      CHECK(last == normed({1, 40, slot + n_rows - 1}, 1, false, 1));
      // A launch for fewer rows than the pass has takes the first ones.
      CHECK(normed({n_rows, 40, slot}, 1, false, 1) == normed({1, 40, slot}, 1, false, 1));
      const HalfRow last_half = normed_half({n_rows, 40, slot}, 1, true);
      const HalfRow alone = normed_half({1, 40, slot + n_rows - 1}, 16, false);
      CHECK(last_half.x == alone.x);
      CHECK(last_half.scale == alone.scale);
    }
  }
}

TEST_CASE("hidden rows: what a layer adds goes to the slots of the pass, no others") {
  const int n_rows = 3, slot = 5;
  const DeviceBuffer<Pass> pass(std::vector<Pass>{{n_rows, 9, slot}});
  const DeviceBuffer<int8_t> x(std::vector<int8_t>(8 * kDim, 1)),
      w(std::vector<int8_t>(size_t(kDim) * kDim, 1));
  const DeviceBuffer<float> dx(std::vector<float>(8 * kDim / 32, 1.0f));
  const DeviceBuffer<uint16_t> dw(std::vector<uint16_t>(kDim * kDim / 32, 0x3c00));  // 1
  const DeviceBuffer<float> h(hidden_rows_of_all());
  project_residual({pass.data(),
                    {kDim, x.data(), dx.data()},
                    {kDim, kDim, w.data(), dw.data()},
                    nullptr,
                    h.data()},
                   simt::stream());
  const std::vector<float> before = hidden_rows_of_all(), after = h.read();
  for (int i = 0; i < kSlots * kDim; ++i) {
    const bool of_pass = i / kDim >= slot && i / kDim < slot + n_rows;
    REQUIRE(after[i] == before[i] + (of_pass ? float(kDim) : 0.0f));
  }

  const DeviceBuffer<float> embedded(hidden_rows_of_all());
  const DeviceBuffer<int32_t> tokens(std::vector<int32_t>{1, 0, 1});
  std::vector<float> rows(2 * kDim, 3.0f);
  rows[0] = 7.0f;
  const DeviceBuffer<float> table(rows);
  embed_rows({pass.data(), tokens.data(), DType::kF32, table.data(), kDim, embedded.data(), 16},
             simt::stream());
  const std::vector<float> found = embedded.read();
  for (int i = 0; i < kSlots * kDim; ++i) {
    const bool of_pass = i / kDim >= slot && i / kDim < slot + n_rows;
    REQUIRE(found[i] == (!of_pass ? before[i] : i == (slot + 1) * kDim ? 7.0f : 3.0f));
  }
}

}  // namespace hidden_rows_test
