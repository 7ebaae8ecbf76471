// Norm, quantization and embedding of rows: the CPU backend's bits.
#include "rows.h"

#include <doctest/doctest.h>

#include "int8_rig.h"

namespace rows_test {

using namespace specbound;
using namespace specbound::test;
using kernels::Pass;
using simt::DeviceBuffer;

namespace {

constexpr float kEps = 1e-5f;

QuantizedRows norm_on_device(const std::vector<float>& h, const std::vector<float>& weight,
                             int n_rows, int max_rows, int dim) {
  const DeviceBuffer<Pass> pass = pass_of(n_rows);
  const DeviceBuffer<float> device_h(h), device_weight(weight);
  const DeviceRows out(max_rows, dim);
  device_h.from_kernel();
  kernels::norm_quantize(
      {pass.data(), device_h.data(), device_weight.data(), kEps, out.rows(), max_rows},
      simt::stream());
  return out.read(n_rows);
}

QuantizedRows norm_on_cpu(const Kernels& cpu, std::vector<float> h,
                          const std::vector<float>& weight, int n_rows, int dim) {
  for (int r = 0; r < n_rows; ++r) {
    float* row = &h[size_t(r) * dim];
    cpu.rmsnorm(row, weight.data(), kEps, dim, row);
  }
  return quantized(cpu, h, dim, n_rows, dim);
}

}  // namespace

TEST_CASE("norm and quantization give the CPU's bits, rows of every kind") {
  struct Case {
    int dim, n_rows, max_rows;
  };
  for (const Case& c :
       {Case{32, 16, 16}, Case{64, 1, 16}, Case{96, 5, 16}, Case{160, 8, 16}, Case{1024, 9, 16},
        Case{4128, 4, 16}, Case{8192 + 96, 3, 3}, Case{64, 77, 512}, Case{1024, 40, 512}}) {
    const int dim = c.dim, n_rows = c.n_rows, max_rows = c.max_rows;
    CAPTURE(dim);
    CAPTURE(n_rows);
    const std::vector<float> h = odd_rows(n_rows, dim, dim + n_rows);
    std::vector<float> weight = random_floats(dim, 3);
    weight[dim / 2] = 0;
    const auto run = [&] { return norm_on_device(h, weight, n_rows, max_rows, dim); };
    const QuantizedRows found = run();
    for (Isa isa : two_isas()) {
      CHECK(found == norm_on_cpu(kernels_for(isa), h, weight, n_rows, dim));
    }
    simt::for_each_order([&] { CHECK(run() == found); });
  }
}

TEST_CASE("a row's norm and quantization do not depend on the rows around it") {
  constexpr int kDim = 288;
  const std::vector<float> h = odd_rows(16, kDim, 5), weight = random_floats(kDim, 6);
  const QuantizedRows together = norm_on_device(h, weight, 16, 16, kDim);
  const size_t blocks = kDim / 32;
  for (int r = 0; r < 16; ++r) {
    CAPTURE(r);
    const QuantizedRows alone = norm_on_device(some_rows(h, kDim, r, 1), weight, 1, 16, kDim);
    for (size_t b = 0; b < blocks; ++b) {
      const size_t at = (r / 8 * blocks + b) * 8 + r % 8;
      CHECK(std::memcmp(&together.q[at * 32], &alone.q[b * 8 * 32], 32) == 0);
      CHECK(std::memcmp(&together.d[at], &alone.d[b * 8], sizeof(float)) == 0);
    }
  }
}

TEST_CASE("norms that stay floats have the CPU's bits, of all rows or the last one") {
  struct Case {
    int dim, n_rows;
  };
  for (const Case& c : {Case{36, 5}, Case{1024, 16}, Case{8192 + 96, 3}, Case{64, 40}}) {
    const int dim = c.dim, n_rows = c.n_rows;
    CAPTURE(dim);
    constexpr int kSlot = 2;
    std::vector<float> h = odd_rows(n_rows + kSlot, dim, dim), expected = h;
    const std::vector<float> weight = random_floats(dim, 3);
    for (int r = 0; r < n_rows + kSlot; ++r) {
      float* row = &expected[size_t(r) * dim];
      cpu().rmsnorm(row, weight.data(), kEps, dim, row);
    }
    expected.erase(expected.begin(), expected.begin() + size_t(kSlot) * dim);
    const DeviceBuffer<Pass> pass(std::vector<Pass>{{n_rows, 7, kSlot}});
    const DeviceBuffer<float> device_h(h), device_weight(weight);
    const auto found = [&](bool last) {
      DeviceBuffer<float> out(size_t(last ? 1 : n_rows) * dim);
      kernels::norm_floats({pass.data(), device_h.data(), device_weight.data(), dim, kEps,
                            out.data(), last ? 1 : n_rows, last},
                           simt::stream());
      return out.read();
    };
    CHECK(same_floats(simt::for_each_order([&] { return found(false); }), expected));
    const std::vector<float> last(expected.end() - dim, expected.end());
    CHECK(same_floats(found(true), last));

    // Beside what else a row has; normed and as they are.
    const int ld = dim + 8;
    for (const bool normed : {true, false}) {
      const float* rows = normed ? expected.data() : h.data() + size_t(kSlot) * dim;
      const std::vector<float> apart = simt::for_each_order([&] {
        const DeviceBuffer<float> out(std::vector<float>(size_t(n_rows) * ld, 7.5f));
        kernels::norm_floats({pass.data(), device_h.data(), normed ? device_weight.data() : nullptr,
                              dim, kEps, out.data() + 4, n_rows - 1, false, ld},
                             simt::stream());
        return out.read();
      });
      std::vector<float> beside(size_t(n_rows) * ld, 7.5f);
      for (int r = 0; r < n_rows - 1; ++r) {
        std::copy_n(rows + size_t(r) * dim, dim, &beside[size_t(r) * ld + 4]);
      }
      CHECK(same_floats(apart, beside));
    }
  }
}

TEST_CASE("quantization of rows gives the CPU's bits and touches no panel it has no row for") {
  struct Case {
    int n_in, ld, n_rows, max_rows;
  };
  for (const Case& c : {Case{32, 32, 16, 16}, Case{64, 84, 7, 16}, Case{64, 64, 8, 16},
                        Case{4128, 4132, 2, 16}, Case{96, 96, 203, 512}}) {
    const int n_in = c.n_in, ld = c.ld, n_rows = c.n_rows, max_rows = c.max_rows;
    CAPTURE(n_in);
    CAPTURE(n_rows);
    const std::vector<float> x = odd_rows(n_rows, ld, n_in);
    simt::for_each_order([&] {
      const DeviceBuffer<Pass> pass = pass_of(n_rows);
      const DeviceBuffer<float> device_x(x);
      const DeviceRows out(max_rows, n_in);
      kernels::quantize_rows({pass.data(), device_x.data(), ld, out.rows(), max_rows},
                             simt::stream());
      for (Isa isa : two_isas()) {
        CHECK(out.read(n_rows) == quantized(kernels_for(isa), x, ld, n_rows, n_in));
      }
      const std::vector<int8_t> all = out.q.read();
      const size_t used = size_t(kernels::panels_of(n_rows)) * 8 * n_in;
      for (size_t i = used; i < all.size(); ++i) {
        REQUIRE(static_cast<uint8_t>(all[i]) == simt::poison());
      }
    });
  }
}

TEST_CASE("embedding rows of each type are those that the CPU reads, times the scale") {
  constexpr int kVocab = 37;
  for (DType type : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0,
                     DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ2_K, DType::kQ3_K,
                     DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kIQ4_NL}) {
    const DTypeInfo& info = *dtype_info(type);
    CAPTURE(info.name);
    const int dim = info.block == 1 ? 301 : info.block == 32 ? 320 : 768;
    // Any bytes: infinite scales and subnormal numbers too.
    std::vector<std::byte> table(size_t(kVocab) * dim / info.block * info.bytes);
    std::mt19937_64 random(9);
    for (std::byte& byte : table) byte = static_cast<std::byte>(random());
    const Matrix matrix{type, kVocab, dim, table.data()};
    const std::vector<int32_t> tokens = {0, 36, 7, 7, 35, 1, 20, 3, 11};
    const int n_rows = static_cast<int>(tokens.size());
    for (const float scale : {1.0f, 27.7128f}) {
      std::vector<float> expected(tokens.size() * dim);
      for (int r = 0; r < n_rows; ++r) read_row(matrix, tokens[r], &expected[size_t(r) * dim]);
      for (float& x : expected) x *= scale;
      simt::for_each_order([&] {
        const DeviceBuffer<Pass> pass = pass_of(n_rows);
        const DeviceBuffer<int32_t> device_tokens(tokens);
        const DeviceBuffer<std::byte> device_table(table);
        const DeviceBuffer<float> h(expected.size());
        kernels::embed_rows({pass.data(), device_tokens.data(), type, device_table.data(), dim,
                             h.data(), 16, scale},
                            simt::stream());
        CHECK(same_floats(h.read(), expected));
      });
    }
  }
}

}  // namespace rows_test
