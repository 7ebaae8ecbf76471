// Which experts rows go through: by their scores, ties to the lower index, whatever the scores are;
// and that a row's bits know nothing of the rows that share its experts (invariance_test.cpp has
// whole models).
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "engine/cpu/cpu_backend.h"
#include "engine/cpu/experts.h"
#include "model/config.h"
#include "model/gguf.h"
#include "model/weights.h"
#include "numerics/exact_math.h"
#include "tiny_gguf.h"

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

struct Taken {
  int expert;
  float weight;
  bool operator==(const Taken&) const = default;
};

std::vector<Taken> taken_by(const ExpertRoutes& routes, int n_experts, int row) {
  std::vector<Taken> taken;
  for (int e = 0; e < n_experts; ++e) {
    for (const auto& slot : routes.slots(e)) {
      if (slot.row == row) taken.push_back({e, slot.weight});
    }
  }
  return taken;
}

std::vector<Taken> routed(std::vector<float> scores, int used) {
  const int n = static_cast<int>(scores.size());
  ExpertRoutes routes(n, used, 1);
  routes.choose(scores.data(), 1);
  return taken_by(routes, n, 0);
}

}  // namespace

TEST_CASE("experts: the highest scores are taken, weighted by their softmax") {
  const std::vector<Taken> two = routed({0.5f, -1, 2, 1.25f}, 2);
  const double other = exact_exp(1.25 - 2.0);
  CHECK(two == std::vector<Taken>{{2, static_cast<float>(1 / (1 + other))},
                                  {3, static_cast<float>(other / (1 + other))}});
  CHECK(routed({-3, -2}, 1) == std::vector<Taken>{{1, 1.0f}});
  CHECK(routed({7}, 1) == std::vector<Taken>{{0, 1.0f}});
  CHECK(routed({1, 1, 1, 1}, 4) ==
        std::vector<Taken>{{0, 0.25f}, {1, 0.25f}, {2, 0.25f}, {3, 0.25f}});
}

TEST_CASE("experts: ties go to the lower index") {
  CHECK(routed({1, 2, 2, 1, 2}, 2) == std::vector<Taken>{{1, 0.5f}, {2, 0.5f}});
  CHECK(routed({0, 0, 0, 0}, 1) == std::vector<Taken>{{0, 1.0f}});
  CHECK(routed({-0.0f, 0.0f, -5}, 1) == std::vector<Taken>{{0, 1.0f}});
}

TEST_CASE("experts: scores that are no numbers count as the lowest, infinite ones share all") {
  CHECK(routed({kNan, 1, kNan, 0}, 1) == std::vector<Taken>{{1, 1.0f}});
  CHECK(routed({kNan, 1, kNan}, 2) == std::vector<Taken>{{0, 0.0f}, {1, 1.0f}});
  CHECK(routed({kNan, kNan, kNan}, 2) == std::vector<Taken>{{0, 0.5f}, {1, 0.5f}});
  CHECK(routed({-kInf, -kInf, kNan}, 2) == std::vector<Taken>{{0, 0.5f}, {1, 0.5f}});
  CHECK(routed({3, kInf, kInf, 1e30f}, 3) == std::vector<Taken>{{1, 0.5f}, {2, 0.5f}, {3, 0.0f}});
  CHECK(routed({-3e38f, 3e38f}, 2) == std::vector<Taken>{{0, 0.0f}, {1, 1.0f}});
}

TEST_CASE("experts: slots hold every row once for each of its experts, both ascending") {
  constexpr int kExperts = 11, kUsed = 4, kRows = 70;
  TinyRandom random(7);
  std::vector<float> scores(size_t{kRows} * kExperts);
  for (float& score : scores) score = std::floor(4 * random.normal()) / 4;  // with ties
  ExpertRoutes routes(kExperts, kUsed, kRows);
  for (const int n : {kRows, 1, 9, kRows}) {
    routes.choose(scores.data(), n);
    CHECK(routes.n_slots() == n * kUsed);
    int next = 0;
    for (int e = 0; e < kExperts; ++e) {
      CHECK(routes.first(e) == next);
      next += static_cast<int>(routes.slots(e).size());
      int row = -1;
      for (const auto& slot : routes.slots(e)) {
        CHECK(slot.row > row);
        row = slot.row;
      }
    }
    for (int row = 0; row < n; ++row) {
      const float* first = &scores[static_cast<size_t>(row) * kExperts];
      const std::vector<Taken> alone = routed({first, first + kExperts}, kUsed);
      CHECK(alone.size() == kUsed);
      CHECK(taken_by(routes, kExperts, row) == alone);
      double total = 0;
      for (const Taken& t : alone) total += t.weight;
      CHECK(total == doctest::Approx(1).epsilon(1e-6));
      // Nobody who was left out beats one that was taken.
      for (int e = 0; e < kExperts; ++e) {
        const bool in = std::ranges::any_of(alone, [e](const Taken& t) { return t.expert == e; });
        if (in) continue;
        for (const Taken& t : alone) {
          CHECK((first[t.expert] > first[e] || (first[t.expert] == first[e] && t.expert < e)));
        }
      }
    }
  }
}

TEST_CASE("experts: a router of no numbers takes the first experts, and the model runs") {
  TinySpec spec;
  spec.architecture = "qwen3moe";
  spec.type = DType::kQ8_0;
  spec.types = {{"ffn_gate_inp.weight", DType::kF32}};
  std::vector<TinyTensor> tensors = tiny_tensors(spec);
  for (const float value : {kNan, kInf, -kInf, 0.0f, 3e38f}) {
    CAPTURE(value);
    for (TinyTensor& tensor : tensors) {
      if (!tensor.name.ends_with("ffn_gate_inp.weight")) continue;
      for (size_t at = 0; at < tensor.bytes.size(); at += sizeof value) {
        std::memcpy(&tensor.bytes[at], &value, sizeof value);
      }
    }
    const std::vector<std::byte> bytes = tiny_file(spec, tensors);
    const Gguf gguf = Gguf::parse(bytes, "tiny.gguf");
    const ModelConfig config = read_config(gguf);
    const Weights weights = map_weights(gguf, config);
    CpuOptions options;
    options.n_ctx = 32;
    options.n_threads = 2;
    std::vector<float> alone(static_cast<size_t>(spec.vocab_size)), together(3 * alone.size());
    for (const int n : {1, 3}) {
      const auto backend = make_cpu_backend(config, weights, options);
      for (int slot = 0; slot < n; ++slot) backend->embed(slot, 5 + slot);
      backend->run_layers(0, n, 0, 1, config.n_layers);
      backend->logits(0, n, n == 1 ? alone.data() : together.data());
    }
    CHECK(std::ranges::all_of(alone, [](float z) { return std::isfinite(z); }));
    CHECK(std::memcmp(alone.data(), together.data(), alone.size() * sizeof(float)) == 0);
  }
}
