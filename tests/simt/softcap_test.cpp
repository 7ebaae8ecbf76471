// Capped logits: the CPU's bits, whichever kernel makes them, and the peaks of those.
#include "softcap.h"

#include <doctest/doctest.h>

#include <limits>

#include "exit_head.h"
#include "simt/int8_rig.h"

namespace softcap_test {

using namespace specbound;
using namespace specbound::test;
using simt::DeviceBuffer;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> capped(std::vector<float> z, float cap, Isa isa) {
  kernels_for(isa).softcap(z.data(), cap, static_cast<int>(z.size()));
  return z;
}

}  // namespace

TEST_CASE("cap_logits: the CPU's bits; rows and values past the last are not touched") {
  const int n = 1000, ld = 1004, n_rows = 3;
  std::vector<float> z = random_floats(size_t(16) * ld, 1, 40);
  const float odd[] = {0.0f, -0.0f, 1e-30f,        -1e-42f, 1e30f, -1e30f,
                       kInf, -kInf, std::nanf(""), 30.0f,   -30.0f};
  std::copy(std::begin(odd), std::end(odd), z.begin() + ld + 5);
  for (const float cap : {30.0f, 0.1f, 1e4f}) {
    CAPTURE(cap);
    const std::vector<float> found = simt::for_each_order([&] {
      const DeviceBuffer<kernels::Pass> pass = pass_of(n_rows);
      const DeviceBuffer<float> device_z(z);
      kernels::cap_logits({pass.data(), device_z.data(), ld, n, cap, 16}, simt::stream());
      return one_nan(device_z.read());
    });
    for (const Isa isa : two_isas()) {
      std::vector<float> expected = z;
      for (int r = 0; r < n_rows; ++r) {
        const auto row = expected.begin() + size_t(r) * ld;
        const std::vector<float> cut = capped({row, row + n}, cap, isa);
        std::copy(cut.begin(), cut.end(), row);
      }
      CHECK(same_floats(found, expected));
    }
    for (int i = 0; i < n; ++i) {  // and it is the cap of the papers
      const double wanted = cap * std::tanh(static_cast<double>(z[i]) / cap);
      REQUIRE(std::abs(found[i] - wanted) <= 2e-6 * cap);
    }
  }
}

TEST_CASE("exit_logits caps what it makes, then takes the peaks") {
  for (const int n_out : {1, 64, 150}) {
    const int n_in = 1056;
    const Int8Matrix w(n_out, n_in, 5, 0.02f);
    const std::vector<float> x = random_floats(n_in, 6);
    const DeviceRows row(x, 1, n_in);
    const float temperature = 0.7f, cap = 3;
    const DeviceBuffer<kernels::ExitRule> rule(
        std::vector<kernels::ExitRule>{{temperature, 0.5f, 1}});
    const DeviceBuffer<float> z(n_out);
    const DeviceBuffer<kernels::PeakChunk> peaks(kernels::peak_chunks_of(n_out));
    kernels::exit_logits({rule.data(), w.tiles(), row.rows(), z.data(), peaks.data(), cap},
                         simt::stream());
    const std::vector<float> expected = capped(w.times(cpu(), x, 1), cap, Isa::kPortable);
    CHECK(same_floats(z.read(), expected));
    std::vector<PeakChunk> chunks(kernels::peak_chunks_of(n_out));
    cpu().peak_chunks(expected.data(), n_out, temperature, chunks.data());
    const std::vector<kernels::PeakChunk> found = peaks.read();
    CHECK(std::memcmp(found.data(), chunks.data(), found.size() * sizeof found[0]) == 0);
  }
}

}  // namespace softcap_test
