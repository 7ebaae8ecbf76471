// Operands for a foreign GEMM against what they are made of.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "engine/cuda/weight_layout.h"
#include "expand.h"
#include "model/codec.h"
#include "numerics/dtype.h"
#include "numerics/half.h"
#include "simt/f16_rig.h"
#include "simt/int8_rig.h"
#include "simt/rig.h"

namespace expand_test {

using namespace specbound;
using namespace specbound::test;
using simt::DeviceBuffer;

namespace {

constexpr uint16_t kUntouched = 0x1234;

}  // namespace

TEST_CASE("expanded INT8 weights are d q to nearest even, row after row") {
  const int n_out = 37, n_in = 96, ld = 104;
  const std::vector<BlockQ8_0> blocks = random_blocks(size_t(n_out) * n_in / 32, 3);
  const Matrix matrix{DType::kQ8_0, n_out, n_in, reinterpret_cast<const std::byte*>(blocks.data())};
  const FragmentShape shape = int8_fragments(matrix);
  std::vector<int8_t> q(shape.bytes_of(shape.n_tiles));
  std::vector<uint16_t> d(shape.scales_of(shape.n_tiles));
  repack_int8(matrix, 0, shape.n_tiles, q.data(), d.data());
  std::vector<uint16_t> expected(size_t(n_out) * ld, kUntouched);
  for (int o = 0; o < n_out; ++o) {
    for (int k = 0; k < n_in; ++k) {
      const BlockQ8_0& block = blocks[size_t(o) * n_in / 32 + k / 32];
      expected[size_t(o) * ld + k] = float_to_half(half_to_float(block.d) * block.q[k % 32]);
    }
  }
  simt::for_each_order([&] {
    const DeviceBuffer<int8_t> device_q(q);
    const DeviceBuffer<uint16_t> device_d(d);
    const DeviceBuffer<uint16_t> to(std::vector<uint16_t>(expected.size(), kUntouched));
    kernels::expand_i8({{n_out, n_in, device_q.data(), device_d.data()}, to.data(), ld},
                       simt::stream());
    CHECK(to.read() == expected);
  });
}

TEST_CASE("expanded packed weights are dequantized, then to nearest even") {
  for (DType type : kPackedForms) {
    CAPTURE(dtype_info(type)->name);
    const int n_out = 37, n_in = 512, ld = 520;
    const Int8Matrix w(n_out, n_in, 6, 1e-3f, type);
    std::vector<float> values(size_t(n_out) * n_in);
    dequantize(w.bytes.data(), type, values.size(), values.data());
    std::vector<uint16_t> expected(size_t(n_out) * ld, kUntouched);
    for (int o = 0; o < n_out; ++o) {
      for (int k = 0; k < n_in; ++k) {
        expected[size_t(o) * ld + k] = float_to_half(values[size_t(o) * n_in + k]);
      }
    }
    simt::for_each_order([&] {
      const DeviceBuffer<uint16_t> to(std::vector<uint16_t>(expected.size(), kUntouched));
      kernels::expand_i8({w.tiles(), to.data(), ld}, simt::stream());
      CHECK(to.read() == expected);
    });
  }
}

TEST_CASE("expanded FP16 weights are the file's, padded with zeros") {
  const int n_out = 21, n_in = 75, ld = 96;
  std::vector<uint16_t> half;
  for (const float x : random_floats(size_t(n_out) * n_in, 8)) half.push_back(float_to_half(x));
  const Matrix matrix{DType::kF16, n_out, n_in, reinterpret_cast<const std::byte*>(half.data())};
  const FragmentShape shape = half_fragments(matrix);
  std::vector<uint16_t> w(shape.bytes_of(shape.n_tiles) / 2);
  repack_half(matrix, 0, shape.n_tiles, w.data());
  std::vector<uint16_t> expected(size_t(n_out) * ld);
  for (int o = 0; o < n_out; ++o) {
    for (int k = 0; k < n_in; ++k) expected[size_t(o) * ld + k] = half[size_t(o) * n_in + k];
  }
  simt::for_each_order([&] {
    const DeviceBuffer<uint16_t> device_w(w);
    const DeviceBuffer<uint16_t> to(std::vector<uint16_t>(expected.size(), kUntouched));
    kernels::expand_f16({{n_out, n_in, device_w.data()}, to.data(), ld}, simt::stream());
    CHECK(to.read() == expected);
  });
}

#ifndef __CUDACC__  // a stream of the executor's

// Takes what a GPU could launch, and runs nothing.
struct IdleStream final : CUstream_st {
  void submit(simt::Launch, const void*, size_t) override { ++n_launches; }
  int n_launches = 0;
};

TEST_CASE("a matrix as wide as a file may have one is expanded by one launch") {
  const int n_out = 1 << 20, n_in = 32;
  const DeviceBuffer<int8_t> q(16);
  const DeviceBuffer<uint16_t> d(16), w(16), to(16);
  IdleStream stream;
  kernels::expand_i8({{n_out, n_in, q.data(), d.data()}, to.data(), n_in}, &stream);
  kernels::expand_f16({{n_out, n_in, w.data()}, to.data(), n_in}, &stream);
  CHECK(stream.n_launches == 2);
}

#endif

TEST_CASE("rows become FP16 with a power of two each, normed or as they are") {
  const int n_rows = 5, n = 44, ld = 48, ld_out = 64;
  std::vector<float> x = random_floats(size_t(n_rows) * ld, 4);
  for (int k = 0; k < ld; ++k) {
    x[k] *= 1e6f;             // beyond FP16
    x[ld + k] = 0;            // nothing
    x[2 * ld + k] *= 1e-20f;  // far below it
  }
  x[3 * ld + 7] = 30000;  // an outlier
  x[4 * ld + 1] = std::nanf("");
  const std::vector<float> weight = random_floats(n, 5, 0.2f, 1);
  for (const bool normed : {false, true}) {
    CAPTURE(normed);
    simt::for_each_order([&] {
      const DeviceBuffer<float> device_x(x), device_weight(weight), scale(n_rows);
      const DeviceBuffer<uint16_t> out(size_t(n_rows) * ld_out);
      kernels::halve_scaled_rows(
          {device_x.data(), n_rows, ld, n, normed ? device_weight.data() : nullptr, 1e-5f,
           out.data(), ld_out, scale.data()},
          simt::stream());
      const std::vector<float> scales = scale.read();
      const std::vector<uint16_t> halves = out.read();
      for (int r = 0; r < n_rows; ++r) {
        CAPTURE(r);
        const float* row = &x[size_t(r) * ld];
        double squares = 0;
        for (int k = 0; k < n; ++k) squares += double(row[k]) * row[k];
        const double inverse = 1 / std::sqrt(squares / n + 1e-5);
        int exponent;
        if (r < 4) CHECK(std::frexp(scales[r], &exponent) == 0.5f);
        for (int k = 0; k < ld_out; ++k) {
          const float found = half_to_float(halves[size_t(r) * ld_out + k]);
          if (k >= n || r == 1 || r == 4) {
            REQUIRE(found == 0);
            continue;
          }
          const double wanted = normed ? row[k] * inverse * weight[k] : row[k];
          REQUIRE(std::abs(double(found) * scales[r] - wanted) <=
                  1e-6 * std::abs(double(scales[r])) + 0x1.01p-11 * std::abs(wanted));
        }
      }
      CHECK(std::isnan(scales[4]));
    });
  }
}

TEST_CASE("products are multiplied by their row's scale, then stored, added or gated") {
  using kernels::Finish;
  const int n_rows = 3, n = 70, ldc = 71, ldy = 80;
  const std::vector<float> c = random_floats(size_t(n_rows) * ldc, 1);
  const std::vector<float> y = random_floats(size_t(n_rows) * ldy, 2), bias = random_floats(n, 3);
  const std::vector<float> scale = {4, 0.25f, 1};
  for (const Finish finish : {Finish::kScale, Finish::kAdd, Finish::kGate}) {
    for (const bool biased : {false, true}) {
      if (biased && finish != Finish::kAdd) continue;
      simt::for_each_order([&] {
        const DeviceBuffer<float> device_c(c), device_y(y), device_scale(scale), device_bias(bias);
        kernels::finish_rows({finish, device_c.data(), n_rows, n, ldc, device_scale.data(),
                              biased ? device_bias.data() : nullptr, device_y.data(), ldy},
                             simt::stream());
        const std::vector<float> found = device_y.read();
        for (int r = 0; r < n_rows; ++r) {
          for (int i = 0; i < ldy; ++i) {
            const size_t at = size_t(r) * ldy + i;
            const double before = y[at], product = i < n ? c[size_t(r) * ldc + i] * scale[r] : 0;
            const double wanted = i >= n                     ? before
                                  : finish == Finish::kScale ? product
                                  : finish == Finish::kAdd
                                      ? before + product + (biased ? bias[i] : 0)
                                      : product / (1 + std::exp(-product)) * (before * scale[r]);
            REQUIRE(found[at] == doctest::Approx(wanted).epsilon(1e-5));
          }
        }
      });
    }
  }
}

}  // namespace expand_test
