// A mixture of experts on the device: its routes, the places of rows and what their experts give,
// bit for bit those of the CPU backend.
#include "experts.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "engine/cpu/experts.h"
#include "engine/cuda/weight_layout.h"
#include "int8_rig.h"
#include "numerics/half.h"

namespace experts_test {

using namespace specbound;
using namespace specbound::test;
using simt::DeviceBuffer;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// Scores with ties, some of them odd.
std::vector<float> odd_scores(int rows, int n_experts, uint64_t seed) {
  std::vector<float> scores = random_floats(static_cast<size_t>(rows) * n_experts, seed, 3);
  std::mt19937_64 random(seed);
  for (float& score : scores) {
    score = std::floor(4 * score) / 4;
    if (random() % 40 == 0) score = std::numeric_limits<float>::quiet_NaN();
    if (random() % 60 == 0) score = random() % 2 ? kInf : -kInf;
    if (random() % 60 == 0) score = random() % 2 ? 0.0f : -0.0f;
  }
  return scores;
}

// The memory of routes.
struct DeviceRoutes {
  int n_experts, used, max_rows;
  DeviceBuffer<float> scores;
  DeviceBuffer<kernels::ExpertShare> shares;
  DeviceBuffer<kernels::ExpertGroup> groups;

  DeviceRoutes(int n_experts, int used, int max_rows)
      : n_experts(n_experts),
        used(used),
        max_rows(max_rows),
        scores(static_cast<size_t>(max_rows) * n_experts),
        shares(static_cast<size_t>(max_rows) * used),
        groups(panels()) {}

  int panels() const { return kernels::most_expert_panels(max_rows, n_experts, used); }
  int places() const { return kernels::kPanelRows * panels(); }
  kernels::ExpertRoutes routes() const {
    return {n_experts, used, scores.data(), shares.data(), groups.data()};
  }
  // Of rows with such scores; the pass that they make.
  DeviceBuffer<kernels::Pass> route(std::vector<float> of, int n_rows) {
    of.resize(scores.size(), -7.0f);
    scores.write(of);
    DeviceBuffer<kernels::Pass> pass = pass_of(n_rows);
    kernels::route_experts({pass.data(), routes(), max_rows}, simt::stream());
    return pass;
  }
};

// What the device routed is what the CPU does, expert by expert.
void check_routes(const DeviceRoutes& device, const std::vector<float>& scores, int n_rows) {
  ExpertRoutes cpu(device.n_experts, device.used, n_rows);
  cpu.choose(scores.data(), n_rows);
  const std::vector<kernels::ExpertShare> shares = device.shares.read();
  const std::vector<kernels::ExpertGroup> groups = device.groups.read();
  size_t group = 0;
  int panel = 0;
  std::vector<int> seen(n_rows, 0);  // shares of each row
  for (int e = 0; e < device.n_experts; ++e) {
    const auto slots = cpu.slots(e);
    const int n = static_cast<int>(slots.size());
    for (int i = 0; i < n; ++i) {
      const kernels::ExpertShare& share =
          shares[static_cast<size_t>(slots[i].row) * device.used + seen[slots[i].row]++];
      REQUIRE(share.expert == e);
      REQUIRE(share.place == 8 * panel + i);
      REQUIRE(same_bits(&share.weight, &slots[i].weight, 1));
    }
    for (int done = 0; done < n; done += 16) {
      REQUIRE(group < groups.size());
      REQUIRE(groups[group].pass.n_rows == std::min(16, n - done));
      REQUIRE(groups[group].expert == e);
      REQUIRE(groups[group].place == 8 * panel + done);
      ++group;
    }
    panel += kernels::panels_of(n);
  }
  CHECK(panel <= device.panels());
  for (; group < groups.size(); ++group) REQUIRE(groups[group].pass.n_rows == 0);
}

}  // namespace

TEST_CASE("experts: routes are the CPU's, with ties, infinities and NaN, for any number of rows") {
  struct Case {
    int n_experts, used;
  };
  for (const Case& c :
       {Case{1, 1}, Case{5, 2}, Case{5, 5}, Case{33, 32}, Case{128, 8}, Case{1024, 3}}) {
    CAPTURE(c.n_experts);
    CAPTURE(c.used);
    for (const int max_rows : {1, 8, 16, 90}) {
      const std::vector<float> scores = odd_scores(max_rows, c.n_experts, max_rows + c.n_experts);
      DeviceRoutes device(c.n_experts, c.used, max_rows);
      for (const int n_rows : {max_rows, 1}) {
        CAPTURE(n_rows);
        device.route(scores, n_rows);
        check_routes(device, scores, n_rows);
      }
    }
  }
}

TEST_CASE("experts: rows that all want the same one, and rows that share none") {
  constexpr int kRows = 40, kExperts = 80;
  std::vector<float> same(size_t{kRows} * kExperts, 0.0f), apart = same;
  for (int r = 0; r < kRows; ++r) {
    same[static_cast<size_t>(r) * kExperts + 7] = 1;
    apart[static_cast<size_t>(r) * kExperts + 2 * r] = 1;
  }
  for (const int used : {1, 2}) {
    for (const std::vector<float>& scores : {same, apart}) {
      DeviceRoutes device(kExperts, used, kRows);
      device.route(scores, kRows);
      check_routes(device, scores, kRows);
    }
  }
}

TEST_CASE("experts: scores are the CPU's bits, for routers of every float type") {
  constexpr int kDim = 96, kExperts = 13, kRows = 9;
  const std::vector<float> x = random_floats(size_t{kRows} * kDim, 3);
  const std::vector<float> w = random_floats(size_t{kExperts} * kDim, 4);
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    CAPTURE(dtype_info(type)->name);
    std::vector<uint8_t> router(w.size() * (type == DType::kF32 ? 4 : 2));
    for (size_t i = 0; i < w.size(); ++i) {
      const uint32_t bits = std::bit_cast<uint32_t>(w[i]);
      const auto half =
          static_cast<uint16_t>(type == DType::kF16 ? float_to_half(w[i]) : bits >> 16);
      if (type == DType::kF32) {
        std::memcpy(&router[4 * i], &bits, 4);
      } else {
        std::memcpy(&router[2 * i], &half, 2);
      }
    }
    const DeviceBuffer<uint8_t> on_device(router);
    const DeviceBuffer<float> rows(x);
    DeviceRoutes device(kExperts, 1, 16);
    const std::vector<float> found = simt::for_each_order([&] {
      const DeviceBuffer<kernels::Pass> pass = pass_of(kRows);
      kernels::score_experts(
          {pass.data(), rows.data(), type, on_device.data(), kDim, device.routes(), 16},
          simt::stream());
      return some_rows(device.scores.read(), kExperts, 0, kRows);
    });
    const Matrix matrix{type, kExperts, kDim, reinterpret_cast<const std::byte*>(router.data())};
    for (const Isa isa : two_isas()) {
      std::vector<float> expected(found.size());
      kernels_for(isa).matmul_float(matrix, 0, kExperts, x.data(), kDim, kRows, expected.data(),
                                    kExperts, false);
      CHECK(same_bits(found.data(), expected.data(), found.size()));
    }
  }
}

TEST_CASE("experts: what they give of a row is the CPU's bits, whatever rows share an expert") {
  struct Case {
    DType gate, down;
    int dim, ffn_dim, n_experts, used;
  };
  for (const Case& c : {Case{DType::kQ8_0, DType::kQ8_0, 96, 64, 5, 2},
                        Case{DType::kQ8_0, DType::kQ8_0, 1056, 32, 3, 3},
                        Case{DType::kQ4_0, DType::kQ4_1, 64, 96, 7, 3},
                        Case{DType::kQ4_K, DType::kQ6_K, 256, 256, 3, 2},
                        Case{DType::kQ5_0, DType::kQ5_K, 96, 256, 4, 1}}) {
    CAPTURE(dtype_info(c.gate)->name);
    CAPTURE(c.dim);
    const Int8Matrix gate(c.n_experts * c.ffn_dim, c.dim, 1, 1e-3f, c.gate);
    const Int8Matrix up(c.n_experts * c.ffn_dim, c.dim, 2, 1e-3f, c.gate);
    const Int8Matrix down(c.n_experts * c.dim, c.ffn_dim, 3, 1e-3f, c.down);
    for (const int n_rows : {1, 8, 9, 16, 41}) {
      CAPTURE(n_rows);
      const int max_rows = n_rows <= 8 ? 8 : n_rows <= 16 ? 16 : 48, slot = n_rows <= 16 ? 2 : 0;
      const std::vector<float> x = odd_rows(n_rows, c.dim, n_rows);
      const std::vector<float> scores = odd_scores(n_rows, c.n_experts, n_rows);
      const std::vector<float> h = random_floats(size_t(n_rows + slot + 1) * c.dim, 9);

      // On the CPU every expert reads every row, and what it gives is added where it is asked.
      const Kernels& cpu = kernels_for(best_isa());
      ExpertRoutes routes(c.n_experts, c.used, n_rows);
      routes.choose(scores.data(), n_rows);
      std::vector<float> acts = gate.times(cpu, x, n_rows), ups = up.times(cpu, x, n_rows);
      cpu.silu_mul(acts.data(), ups.data(), static_cast<int>(acts.size()));
      std::vector<float> expected = h;
      for (int e = 0; e < c.n_experts; ++e) {
        std::vector<float> act;
        for (int r = 0; r < n_rows; ++r) {
          const auto first = acts.begin() + (ptrdiff_t(r) * c.n_experts + e) * c.ffn_dim;
          act.insert(act.end(), first, first + c.ffn_dim);
        }
        const std::vector<float> given = down.times(cpu, act, n_rows);
        for (const auto& taken : routes.slots(e)) {
          for (int k = 0; k < c.dim; ++k) {
            expected[size_t(slot + taken.row) * c.dim + k] +=
                taken.weight * given[(size_t(taken.row) * c.n_experts + e) * c.dim + k];
          }
        }
      }

      DeviceRoutes device(c.n_experts, c.used, max_rows);
      const DeviceRows rows(x, n_rows, c.dim), in(device.places(), c.dim),
          act(device.places(), c.ffn_dim);
      const DeviceBuffer<float> y(size_t(device.places()) * c.dim);
      const auto stacked = [&](const Int8Matrix& all) {
        return stacked_tiles(all.tiles(), c.n_experts);
      };
      const std::vector<float> found = simt::for_each_order([&] {
        const DeviceBuffer<float> device_h(h);
        device.route(scores, n_rows);
        const DeviceBuffer<kernels::Pass> pass(std::vector<kernels::Pass>{{n_rows, 3, slot}});
        kernels::gather_expert_rows(
            {pass.data(), device.routes(), rows.rows(), in.rows(), max_rows}, simt::stream());
        kernels::expert_gate_up({device.routes(), in.rows(), stacked(gate), stacked(up), act.rows(),
                                 Activation::kSilu, max_rows},
                                simt::stream());
        kernels::expert_down({device.routes(), act.rows(), stacked(down), y.data(), max_rows},
                             simt::stream());
        kernels::add_experts(
            {pass.data(), device.routes(), y.data(), c.dim, device_h.data(), max_rows},
            simt::stream());
        return one_nan(device_h.read());
      });
      CHECK(same_floats(found, expected));
    }
  }
}

}  // namespace experts_test
