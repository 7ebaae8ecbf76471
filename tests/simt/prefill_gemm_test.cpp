// Prefill's matmuls: INT8 bit for bit those of the CPU backend, FP16 those of decode, and a row the
// same wherever it lies and whatever else runs.
#include "prefill_gemm.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "simt/f16_rig.h"
#include "simt/int8_rig.h"

namespace prefill_gemm_test {

using namespace specbound;
using namespace specbound::test;
using namespace specbound::kernels;
using simt::DeviceBuffer;

namespace {

std::vector<float> multiplied(const Int8Matrix& w, const std::vector<float>& x) {
  const int n_rows = static_cast<int>(x.size()) / w.n_in;
  const DeviceBuffer<Pass> pass = pass_of(n_rows);
  const DeviceRows rows(x, n_rows, w.n_in);
  DeviceBuffer<float> y(static_cast<size_t>(n_rows) * w.n_out);
  prefill_matmul_i8(
      {pass.data(), kMaxPrefillRows, w.tiles(), rows.rows(), nullptr, false, y.data(), w.n_out},
      simt::stream());
  return y.read();
}

std::vector<float> multiplied(const HalfWeights& w, const std::vector<float>& x) {
  const int n_rows = static_cast<int>(x.size()) / w.n_in;
  const DeviceBuffer<Pass> pass = pass_of(n_rows);
  const HalfRows rows = scaled(x, w.n_in, n_rows);
  DeviceBuffer<float> y(static_cast<size_t>(n_rows) * w.n_out);
  prefill_matmul_f16(
      {pass.data(), n_rows, w.tiles(), rows.on_device(), nullptr, false, y.data(), w.n_out},
      simt::stream());
  return y.read();
}

}  // namespace

TEST_CASE("prefill INT8 has the CPU's bits: chunks, tiles and rows that do not fill a block") {
  struct Shape {
    int n_in, n_out, n_rows;
  };
  // 1, 2, 4 and 8 chunks; blocks that no stage divides; rows across panels and blocks.
  for (const Shape s : {Shape{32, 1, 1},
                        {64, 16, 7},
                        {96, 40, 8},
                        {992, 33, 9},
                        {1024, 130, 65},
                        {1056, 16, 64},
                        {2080, 17, 63},
                        {4096, 16, 3},
                        {4128, 144, 20}}) {
    CAPTURE(s.n_in);
    CAPTURE(s.n_rows);
    const Int8Matrix w(s.n_out, s.n_in, s.n_in + s.n_out);
    const std::vector<float> x = random_floats(static_cast<size_t>(s.n_rows) * s.n_in, 3);
    CHECK(same_floats(multiplied(w, x), w.times(cpu(), x, s.n_rows)));
  }
}

TEST_CASE("prefill of packed weights has the CPU's bits: chunks that end inside 256 k, odd rows") {
  struct Shape {
    DType type;
    int n_in, n_out, n_rows;
  };
  for (const Shape s :
       {Shape{DType::kQ4_0, 32, 1, 1}, {DType::kQ4_0, 96, 40, 9},     {DType::kQ4_0, 1056, 130, 65},
        {DType::kQ4_0, 4128, 17, 20},  {DType::kQ4_1, 32, 1, 1},      {DType::kQ4_1, 96, 40, 9},
        {DType::kQ4_1, 1056, 130, 65}, {DType::kQ4_1, 4128, 17, 20},  {DType::kQ5_0, 32, 1, 1},
        {DType::kQ5_0, 1056, 130, 65}, {DType::kQ5_1, 96, 40, 9},     {DType::kQ5_1, 4128, 17, 20},
        {DType::kQ5_K, 256, 33, 7},    {DType::kQ5_K, 2304, 17, 63},  {DType::kQ4_K, 256, 33, 7},
        {DType::kQ4_K, 1280, 130, 66}, {DType::kQ4_K, 2304, 17, 63},  {DType::kQ4_K, 4352, 16, 9},
        {DType::kQ6_K, 256, 33, 7},    {DType::kQ6_K, 1280, 130, 66}, {DType::kQ6_K, 2304, 17, 63},
        {DType::kQ6_K, 4352, 16, 9}}) {
    CAPTURE(dtype_info(s.type)->name);
    CAPTURE(s.n_in);
    CAPTURE(s.n_rows);
    const Int8Matrix w(s.n_out, s.n_in, s.n_in + s.n_out, 1e-3f, s.type);
    const std::vector<float> x = odd_rows(s.n_rows, s.n_in, 3);
    const std::vector<float> found =
        s.n_in < 1000 ? simt::for_each_order([&] { return one_nan(multiplied(w, x)); })
                      : multiplied(w, x);
    CHECK(same_floats(found, w.times(cpu(), x, s.n_rows)));
  }
}

TEST_CASE("prefill: gate and up of 4 bits, or of different types, as the CPU does it in steps") {
  constexpr DType kQ8_0 = DType::kQ8_0, kQ4_0 = DType::kQ4_0, kQ4_K = DType::kQ4_K;
  for (const auto& types : {std::pair{kQ4_0, kQ4_0},
                            {kQ4_K, kQ4_K},
                            {DType::kQ4_1, DType::kQ4_1},
                            {DType::kQ5_0, DType::kQ5_0},
                            {DType::kQ5_1, DType::kQ5_1},
                            {DType::kQ5_K, DType::kQ5_K},
                            {DType::kQ6_K, DType::kQ6_K},
                            {kQ8_0, kQ4_K},
                            {DType::kQ5_0, kQ4_0},
                            {DType::kQ4_1, DType::kQ6_K},
                            {DType::kQ5_1, DType::kQ5_K}}) {
    CAPTURE(dtype_info(types.first)->name);
    const int n_in = 1280, n_out = 96, n_rows = 66;
    const Int8Matrix gate(n_out, n_in, 7, 1e-3f, types.first);
    const Int8Matrix up(n_out, n_in, 8, 1e-3f, types.second);
    const std::vector<float> x = odd_rows(n_rows, n_in, 9);
    std::vector<float> act = gate.times(cpu(), x, n_rows);
    const std::vector<float> factor = up.times(cpu(), x, n_rows);
    cpu().silu_mul(act.data(), factor.data(), static_cast<int>(act.size()));
    const DeviceRows rows(x, n_rows, n_in);
    const DeviceBuffer<Pass> pass = pass_of(n_rows);
    simt::for_each_order([&] {
      const DeviceRows found(n_rows, n_out);
      prefill_gate_up_i8({pass.data(), n_rows, gate.tiles(), up.tiles(), rows.rows(), found.rows()},
                         simt::stream());
      CHECK(found.read(n_rows) == quantized(cpu(), act, n_out, n_rows, n_out));
    });
  }
}

TEST_CASE("prefill INT8: y is added to, then the bias; other columns and rows are left alone") {
  const int n_in = 160, n_out = 21, n_rows = 11, ld = 24;
  const Int8Matrix w(n_out, n_in, 1);
  const std::vector<float> x = random_floats(n_rows * n_in, 2);
  const DeviceRows rows(x, n_rows, n_in);
  const std::vector<float> bias = random_floats(n_out, 4), before = random_floats(16 * ld, 5);
  for (const bool add : {false, true}) {
    for (const bool biased : {false, true}) {
      const std::vector<float> found = simt::for_each_order([&] {
        const DeviceBuffer<Pass> pass = pass_of(n_rows);
        const DeviceBuffer<float> device_bias(bias);
        DeviceBuffer<float> y(before);
        prefill_matmul_i8({pass.data(), 16, w.tiles(), rows.rows(),
                           biased ? device_bias.data() : nullptr, add, y.data(), ld},
                          simt::stream());
        return y.read();
      });
      const std::vector<float> product = w.times(cpu(), x, n_rows);
      std::vector<float> expected = before;
      for (int r = 0; r < n_rows; ++r) {
        for (int o = 0; o < n_out; ++o) {
          float& y = expected[r * ld + o];
          y = add ? y + product[r * n_out + o] : product[r * n_out + o];
          if (biased) y += bias[o];
        }
      }
      CHECK(same_floats(found, expected));
    }
  }
}

TEST_CASE("prefill INT8: gate and up, quantized at once, as the CPU does it in steps") {
  struct Shape {
    int n_in, n_out, n_rows;
  };
  for (const Shape s : {Shape{64, 32, 3}, {1024, 96, 66}, {2048, 64, 8}}) {
    const Int8Matrix gate(s.n_out, s.n_in, 7), up(s.n_out, s.n_in, 8);
    std::vector<float> x = random_floats(static_cast<size_t>(s.n_rows) * s.n_in, 9);
    x[s.n_in + 1] = std::numeric_limits<float>::quiet_NaN();  // row 1
    std::fill_n(x.begin() + 2 * s.n_in, s.n_in, 0.0f);        // row 2
    const DeviceRows rows(x, s.n_rows, s.n_in);
    std::vector<float> act = gate.times(cpu(), x, s.n_rows);
    const std::vector<float> factor = up.times(cpu(), x, s.n_rows);
    for (int r = 0; r < s.n_rows; ++r) {
      cpu().silu_mul(&act[size_t(r) * s.n_out], &factor[size_t(r) * s.n_out], s.n_out);
    }
    const QuantizedRows expected = quantized(cpu(), act, s.n_out, s.n_rows, s.n_out);

    const DeviceBuffer<Pass> pass = pass_of(s.n_rows);
    std::vector<float> d;
    const auto run = [&] {
      const DeviceRows found(s.n_rows, s.n_out);
      prefill_gate_up_i8(
          {pass.data(), s.n_rows, gate.tiles(), up.tiles(), rows.rows(), found.rows()},
          simt::stream());
      d = found.d.read();
      return found.q.read();
    };
    const std::vector<int8_t> q = s.n_in == 64 ? simt::for_each_order(run) : run();
    CHECK(q == expected.q);
    CHECK(same_floats(d, expected.d));
    CHECK(std::isnan(d[1]));
  }
}

TEST_CASE("prefill: a row's bits are its own, INT8 and FP16") {
  const int n_in = 1088, n_out = 48, n_rows = 130;
  const std::vector<float> x = random_floats(static_cast<size_t>(n_rows) * n_in, 11);
  const Int8Matrix w(n_out, n_in, 12);
  const Int8Matrix nibbles(n_out, n_in, 14, 1e-3f, DType::kQ4_0);
  const HalfWeights half(n_out, n_in, 13);
  const std::vector<float> all = multiplied(w, x), all_half = multiplied(half, x);
  const std::vector<float> all_nibbles = multiplied(nibbles, x);
  for (const int first : {0, 7, 8, 63, 64, 100, 129}) {
    const int n = std::min(n_rows - first, 3);
    const std::vector<float> alone = some_rows(x, n_in, first, n);
    CHECK(same_floats(multiplied(w, alone), some_rows(all, n_out, first, n)));
    CHECK(same_floats(multiplied(nibbles, alone), some_rows(all_nibbles, n_out, first, n)));
    CHECK(same_floats(multiplied(half, alone), some_rows(all_half, n_out, first, n)));
  }
}

TEST_CASE("prefill FP16 has the bits of decode, and gate and up too") {
  struct Shape {
    int n_in, n_out, n_rows;
  };
  for (const Shape s : {Shape{40, 1, 2}, {64, 33, 16}, {1024, 140, 67}, {4128, 20, 9}}) {
    CAPTURE(s.n_in);
    const HalfWeights w(s.n_out, s.n_in, 21), up(s.n_out, s.n_in, 22);
    std::vector<float> x = random_floats(static_cast<size_t>(s.n_rows) * s.n_in, 23);
    x[s.n_in] = std::numeric_limits<float>::infinity();  // row 1
    const std::vector<float> found = multiplied(w, x);
    const HalfRows rows = scaled(x, s.n_in, s.n_rows);
    const DeviceBuffer<Pass> all = pass_of(s.n_rows);
    DeviceBuffer<float> act(found.size());
    prefill_gate_up_f16(
        {all.data(), s.n_rows, w.tiles(), up.tiles(), rows.on_device(), act.data(), s.n_out},
        simt::stream());
    const std::vector<float> found_act = act.read();
    for (int first = 0; first < s.n_rows; first += 16) {
      const int n = std::min(s.n_rows - first, 16);
      const HalfRows part = scaled(some_rows(x, s.n_in, first, n), s.n_in, n);
      const DeviceBuffer<Pass> pass = pass_of(n);
      DeviceBuffer<float> y(static_cast<size_t>(n) * s.n_out), part_act(y.size());
      ProjectF16 project{};
      project.pass = pass.data();
      project.x = part.on_device();
      project.parts[0] = w.tiles();
      project.n_parts = 1;
      project.y = y.data();
      project.ld = s.n_out;
      project_f16(project, simt::stream());
      gate_up_f16({pass.data(), part.on_device(), w.tiles(), up.tiles(), part_act.data(), s.n_out},
                  simt::stream());
      CHECK(same_floats(y.read(), some_rows(found, s.n_out, first, n)));
      CHECK(same_floats(part_act.read(), some_rows(found_act, s.n_out, first, n)));
    }
    CHECK(std::isnan(found[s.n_out]));
    CHECK(!std::isnan(found[0]));
  }
}

TEST_CASE("prefill FP16: any order of threads, bias, adding") {
  const int n_in = 72, n_out = 18, n_rows = 10;
  const HalfWeights w(n_out, n_in, 31);
  const std::vector<float> x = random_floats(n_rows * n_in, 32), bias = random_floats(n_out, 33),
                           before = random_floats(n_rows * n_out, 34);
  const std::vector<float> found = simt::for_each_order([&] {
    const HalfRows rows = scaled(x, n_in, n_rows);
    const DeviceBuffer<Pass> pass = pass_of(n_rows);
    const DeviceBuffer<float> device_bias(bias);
    DeviceBuffer<float> y(before);
    prefill_matmul_f16({pass.data(), n_rows, w.tiles(), rows.on_device(), device_bias.data(), true,
                        y.data(), n_out},
                       simt::stream());
    return y.read();
  });
  const std::vector<float> product = multiplied(w, x);
  std::vector<float> expected = before;
  for (int i = 0; i < n_rows * n_out; ++i) expected[i] = (before[i] + product[i]) + bias[i % n_out];
  CHECK(same_floats(found, expected));
}

}  // namespace prefill_gemm_test
