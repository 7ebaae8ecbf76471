// Gates of GELU in every kernel that ends in one: the CPU's bits, over products that other tests
// compare.
#include <doctest/doctest.h>

#include "expand.h"
#include "prefill_gemm.h"
#include "projections.h"
#include "simt/f16_rig.h"
#include "simt/int8_rig.h"

namespace activation_test {

using namespace specbound;
using namespace specbound::test;
using namespace specbound::kernels;
using simt::DeviceBuffer;

namespace {

constexpr Activation kGelu = Activation::kGelu;

// act (n) = gelu(gate) * up, by the CPU.
std::vector<float> gelu_mul(std::vector<float> gate, const std::vector<float>& up,
                            Isa isa = best_isa()) {
  kernels_for(isa).gelu_mul(gate.data(), up.data(), static_cast<int>(gate.size()));
  return gate;
}

}  // namespace

TEST_CASE("GELU, INT8: decode's and prefill's gate and up end as the CPU's quantized rows") {
  for (const int n_in : {64, 1056, 4096}) {
    for (const int n_rows : {1, 9, 16}) {
      CAPTURE(n_in);
      CAPTURE(n_rows);
      const int ffn_dim = 96;
      const Int8Matrix gate(ffn_dim, n_in, 41), up(ffn_dim, n_in, 42);
      const std::vector<float> x = odd_rows(n_rows, n_in, 43);
      const DeviceBuffer<Pass> pass = pass_of(n_rows);
      const DeviceRows rows(x, n_rows, n_in), decoded(n_rows, ffn_dim), prefilled(n_rows, ffn_dim);
      gate_up({pass.data(), rows.rows(), gate.tiles(), up.tiles(), decoded.rows(), kGelu},
              simt::stream());
      prefill_gate_up_i8(
          {pass.data(), n_rows, gate.tiles(), up.tiles(), rows.rows(), prefilled.rows(), kGelu},
          simt::stream());
      for (const Isa isa : two_isas()) {
        const Kernels& k = kernels_for(isa);
        const std::vector<float> act =
            gelu_mul(gate.times(k, x, n_rows), up.times(k, x, n_rows), isa);
        const QuantizedRows expected = quantized(k, act, ffn_dim, n_rows, ffn_dim);
        CHECK(decoded.read(n_rows) == expected);
        CHECK(prefilled.read(n_rows) == expected);
      }
    }
  }
}

TEST_CASE("GELU, FP16: decode's and prefill's gate and up are the CPU's over the same products") {
  const int n_in = 1056, ffn_dim = 70, n_rows = 11;
  const HalfWeights gate(ffn_dim, n_in, 21), up(ffn_dim, n_in, 22);
  std::vector<float> x = random_floats(static_cast<size_t>(n_rows) * n_in, 23, 3);
  x[n_in] = HUGE_VALF;
  const HalfRows rows = scaled(x, n_in, n_rows);
  const DeviceBuffer<Pass> pass = pass_of(n_rows);
  const size_t n = static_cast<size_t>(n_rows) * ffn_dim;
  const DeviceBuffer<float> both(2 * n), decoded(n), prefilled(n);
  ProjectF16 project{};
  project.pass = pass.data();
  project.x = rows.on_device();
  project.parts[0] = gate.tiles();
  project.parts[1] = up.tiles();
  project.n_parts = 2;
  project.y = both.data();
  project.ld = 2 * ffn_dim;
  project_f16(project, simt::stream());
  gate_up_f16(
      {pass.data(), rows.on_device(), gate.tiles(), up.tiles(), decoded.data(), ffn_dim, kGelu},
      simt::stream());
  prefill_gate_up_f16({pass.data(), n_rows, gate.tiles(), up.tiles(), rows.on_device(),
                       prefilled.data(), ffn_dim, kGelu},
                      simt::stream());
  const std::vector<float> products = both.read();
  std::vector<float> gates, ups;
  for (int r = 0; r < n_rows; ++r) {
    const auto row = products.begin() + static_cast<ptrdiff_t>(r) * 2 * ffn_dim;
    gates.insert(gates.end(), row, row + ffn_dim);
    ups.insert(ups.end(), row + ffn_dim, row + 2 * ffn_dim);
  }
  for (const Isa isa : two_isas()) {
    const std::vector<float> expected = gelu_mul(gates, ups, isa);
    CHECK(same_floats(decoded.read(), expected));
    CHECK(same_floats(prefilled.read(), expected));
  }
}

TEST_CASE("GELU behind a foreign GEMM: products times their row's scale, then the CPU's gate") {
  const int n_rows = 3, n = 70;
  const size_t values = static_cast<size_t>(n_rows) * n;
  const std::vector<float> c = random_floats(values, 1, 2), y = random_floats(values, 2);
  const std::vector<float> scale = {4, 0.25f, 1};
  const DeviceBuffer<float> device_c(c), device_y(y), device_scale(scale);
  finish_rows({Finish::kGate, device_c.data(), n_rows, n, n, device_scale.data(), nullptr,
               device_y.data(), n, kGelu},
              simt::stream());
  std::vector<float> gate = c, up = y;
  for (size_t i = 0; i < values; ++i) {  // powers of two: exact
    gate[i] *= scale[i / n];
    up[i] *= scale[i / n];
  }
  CHECK(same_floats(device_y.read(), gelu_mul(gate, up)));
}

}  // namespace activation_test
