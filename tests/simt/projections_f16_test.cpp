// FP16 decode: activations in two parts, products whose error is that of the CPU backend, a row the
// same in every slot.
#include "projections_f16.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <string>

#include "simt/f16_rig.h"

namespace projections_f16_test {

using namespace specbound;
using namespace specbound::test;
using namespace specbound::kernels;
using simt::DeviceBuffer;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// What RowsF16 holds, row by row.
struct ReadRows {
  std::vector<float> scale;
  std::vector<float> nearest, rest;  // (8 panels, n_in)
  ReadRows(const HalfRows& rows) : scale(rows.scale.read()) {
    const std::vector<uint16_t> x = rows.x.read();
    const int n_in = rows.n_in, n_rows = static_cast<int>(scale.size());
    for (int r = 0; r < n_rows; ++r) {
      for (int k = 0; k < n_in; ++k) {
        const size_t block = (size_t(r / 8) * (n_in / 16) + k / 16) * 8 + r % 8;
        const uint16_t* four = &x[(block * 4 + k % 16 / 4) * 8];
        nearest.push_back(half_to_float(four[k % 4]));
        rest.push_back(half_to_float(four[4 + k % 4]));
      }
    }
  }
};

// Row r of `rows` is x (n), by the definition in layouts.h.
void check_row(const ReadRows& rows, int r, const float* x, int n, int n_in) {
  CAPTURE(r);
  float largest = 0;
  bool finite = true;
  for (int k = 0; k < n; ++k) {
    finite = finite && std::isfinite(x[k]);
    largest = std::max(largest, std::fabs(x[k]));
  }
  const float scale = rows.scale[r];
  int exponent = 0;
  if (!finite) {
    CHECK(!std::isfinite(scale));
  } else if (largest == 0) {
    CHECK(scale == 1.0f);
  } else {
    REQUIRE(std::frexp(scale, &exponent) == 0.5f);
    CHECK(scale >= 0x1p-126f);
    CHECK(std::ldexp(largest, 1 - exponent) < 0x1p14f);
    if (scale > 0x1p-126f) CHECK(std::ldexp(largest, 1 - exponent) >= 0x1p13f);
  }
  bool as_defined = true;
  for (int k = 0; k < n_in; ++k) {
    const float value = k < n && finite && largest > 0 ? std::ldexp(x[k], 1 - exponent) : 0.0f;
    const float nearest = half_to_float(float_to_half(value));
    const size_t at = size_t(r) * n_in + k;
    as_defined = as_defined && rows.nearest[at] == nearest &&
                 rows.rest[at] == half_to_float(float_to_half(value - nearest));
  }
  CHECK(as_defined);
}

ProjectF16 projection(const DeviceBuffer<Pass>& pass, const HalfRows& x,
                      std::vector<const HalfWeights*> parts, float* y, int ld) {
  ProjectF16 p{};
  p.pass = pass.data();
  p.x = x.on_device();
  for (const HalfWeights* part : parts) p.parts[p.n_parts++] = part->tiles();
  p.y = y;
  p.ld = ld;
  return p;
}

std::vector<float> multiplied(const HalfWeights& w, const std::vector<float>& x) {
  const int n_rows = static_cast<int>(x.size()) / w.n_in;
  const HalfRows rows = scaled(x, w.n_in, 16);
  const DeviceBuffer<Pass> pass = pass_of(n_rows);
  DeviceBuffer<float> y(static_cast<size_t>(n_rows) * w.n_out);
  project_f16(projection(pass, rows, {&w}, y.data(), w.n_out), simt::stream());
  return y.read();
}

}  // namespace

TEST_CASE("rows in two FP16 parts: exact scales, zero rows, infinities, the ends of FP32") {
  const int n_in = 41, n_rows = 11;
  std::vector<float> x = random_floats(n_rows * n_in, 1);
  const auto row = [&](int r) { return &x[r * n_in]; };
  std::fill_n(row(1), n_in, 0.0f);
  row(2)[40] = -kInf;
  row(3)[7] = std::numeric_limits<float>::quiet_NaN();
  row(4)[5] = 1e5f;  // an outlier, beyond FP16
  for (int k = 0; k < n_in; ++k) row(5)[k] *= 0x1p-130f;
  std::fill_n(row(6), n_in, 0.0f);
  row(6)[3] = std::numeric_limits<float>::denorm_min();
  row(7)[9] = -std::numeric_limits<float>::max();
  row(8)[0] = 0x1p13f;
  row(9)[0] = std::nextafter(0x1p14f, 0.0f);
  simt::for_each_order([&] {
    const ReadRows found(scaled(x, n_in, 16));
    for (int r = 0; r < n_rows; ++r) check_row(found, r, row(r), n_in, 64);
    const std::vector<float> zeros(64);
    for (int r = n_rows; r < 16; ++r) check_row(found, r, zeros.data(), 64, 64);
  });
}

TEST_CASE("norm in FP16: the CPU's norm, scaled") {
  for (const int dim : {40, 1028}) {
    const int n_rows = 9;
    const std::vector<float> h = random_floats(n_rows * dim, 2), weight = random_floats(dim, 3);
    HalfRows out(n_rows, dim);
    const DeviceBuffer<Pass> pass = pass_of(n_rows);
    const DeviceBuffer<float> device_h(h), device_weight(weight);
    norm_f16({pass.data(), device_h.data(), device_weight.data(), dim, 1e-5f, out.on_device(), 16},
             simt::stream());
    const ReadRows found(out);
    std::vector<float> normed(padded(dim));
    for (int r = 0; r < n_rows; ++r) {
      cpu().rmsnorm(&h[r * dim], weight.data(), 1e-5f, dim, normed.data());
      check_row(found, r, normed.data(), dim, padded(dim));
    }
    const std::vector<float> zeros(padded(dim));
    for (int r = n_rows; r < 16; ++r) check_row(found, r, zeros.data(), padded(dim), padded(dim));
  }
}

TEST_CASE("FP16 products: error against exact sums at most twice the CPU backend's") {
  for (const int n_in : {40, 64, 256, 1024, 2080, 4096, 11008}) {
    const int n_out = n_in > 4096 ? 48 : 96, n_rows = 8;
    const HalfWeights w(n_out, n_in, n_in);
    for (const bool outliers : {false, true}) {
      std::vector<float> x = random_floats(static_cast<size_t>(n_rows) * n_in, 5);
      for (int r = 0; outliers && r < n_rows; ++r) x[size_t(r) * n_in + 17 + r] = 2000;
      const std::vector<double> exact = w.exactly(x);
      const Errors ours = errors_of(multiplied(w, x), exact), cpus = errors_of(w.times(x), exact);
      const double rms = ours.rms / cpus.rms;
      MESSAGE("n_in " << std::to_string(n_in) << std::string(outliers ? ", outliers" : "")
                      << ": error over the CPU's: rms " << rms << ", largest "
                      << ours.largest / cpus.largest);
      CHECK(rms <= 2);
      CHECK(ours.largest <= 2 * cpus.largest);
    }
  }
}

TEST_CASE("FP16 products: three parts side by side, each row alone as among others") {
  for (const int n_in : {64, 1056, 2048, 4128}) {  // 1, 2, 4, 8 chunks
    CAPTURE(n_in);
    const HalfWeights q(70, n_in, 1), k(16, n_in, 2), v(17, n_in, 3);
    const int ld = 104, n_rows = 16;  // one column is nobody's
    const std::vector<float> x = random_floats(n_rows * n_in, 6);
    const auto run = [&](int first, int n) {
      const HalfRows rows = scaled(some_rows(x, n_in, first, n), n_in, 16);
      const DeviceBuffer<Pass> pass = pass_of(n);
      DeviceBuffer<float> y(std::vector<float>(n_rows * ld, -1.0f));
      project_f16(projection(pass, rows, {&q, &k, &v}, y.data(), ld), simt::stream());
      return y.read();
    };
    const std::vector<float> all =
        n_in == 64 ? simt::for_each_order([&] { return run(0, n_rows); }) : run(0, n_rows);
    for (int n = 1; n <= n_rows; n += n_in > 64 ? 7 : 3) {
      for (int first = 0; first + n <= n_rows; first += n_in > 64 ? 5 : 1) {
        std::vector<float> expected = some_rows(all, ld, first, n);
        expected.resize(n_rows * ld, -1.0f);
        REQUIRE(same_floats(run(first, n), expected));
      }
    }
    int column = 0;
    for (const HalfWeights* part : {&q, &k, &v}) {
      const std::vector<float> alone = multiplied(*part, x);
      bool same = true;
      for (int r = 0; r < n_rows; ++r) {
        same = same && std::equal(&alone[r * part->n_out], &alone[r * part->n_out] + part->n_out,
                                  &all[r * ld + column]);
      }
      CHECK(same);
      column += part->n_out;
    }
  }
}

TEST_CASE("FP16 products: residual, bias, gate and up; infinite rows are NaN and stay alone") {
  const int n_in = 1100, n_out = 50, n_rows = 10;
  const HalfWeights w(n_out, n_in, 1), up(n_out, n_in, 2);
  std::vector<float> x = random_floats(n_rows * n_in, 7);
  x[4 * n_in + 3] = kInf;
  x[9 * n_in] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> bias = random_floats(n_out, 8),
                           before = random_floats(n_rows * n_out, 9);
  const std::vector<float> product = multiplied(w, x), factor = multiplied(up, x);
  const HalfRows rows = scaled(x, n_in, 16);
  const DeviceBuffer<Pass> pass = pass_of(n_rows);
  const DeviceBuffer<float> device_bias(bias);
  for (const bool biased : {false, true}) {
    DeviceBuffer<float> h(before);
    h.from_kernel();
    project_residual_f16(
        {pass.data(), rows.on_device(), w.tiles(), biased ? device_bias.data() : nullptr, h.data()},
        simt::stream());
    std::vector<float> expected = before;
    for (int i = 0; i < n_rows * n_out; ++i) {
      expected[i] += product[i];
      if (biased) expected[i] += bias[i % n_out];
    }
    CHECK(same_floats(h.read(), expected));
  }
  const int ld = 52;
  DeviceBuffer<float> act(std::vector<float>(n_rows * ld, -1.0f));
  gate_up_f16({pass.data(), rows.on_device(), w.tiles(), up.tiles(), act.data(), ld},
              simt::stream());
  std::vector<float> expected(n_rows * ld, -1.0f);
  for (int r = 0; r < n_rows; ++r) {
    std::copy_n(&product[r * n_out], n_out, &expected[r * ld]);
    cpu().silu_mul(&expected[r * ld], &factor[r * n_out], n_out);
  }
  CHECK(same_floats(act.read(), expected));
  for (int r = 0; r < n_rows; ++r) {
    CHECK(std::all_of(&product[r * n_out], &product[r * n_out] + n_out,
                      [&](float y) { return std::isnan(y) == (r == 4 || r == 9); }));
  }
}

}  // namespace projections_f16_test
