// The cost model's arithmetic, and that measuring gives numbers that can be what they say.
#include "trace/cost_model.h"

#include <doctest/doctest.h>

#include <chrono>
#include <utility>

#include "engine_rig.h"
#include "forwarding_backend.h"
#include "sanitized.h"
#include "tune/measure_costs.h"

namespace cost_model_test {

using namespace specbound;
using namespace specbound::test;

TEST_CASE("a check costs what lies on the line between and beyond the measured sizes") {
  CostModel costs;
  CHECK(costs.check("folded", 1024) == 0);
  costs.checks = {{"folded", 1024, 5}, {"chained", 64, 100}, {"folded", 512, 3}};
  CHECK(costs.check("folded", 512) == 3);
  CHECK(costs.check("folded", 768) == 4);
  CHECK(costs.check("folded", 1024) == 5);
  CHECK(costs.check("folded", 2048) == 9);
  CHECK(costs.check("folded", 256) == 2);
  CHECK(costs.check("chained", 1) == 100);  // one point: nothing to slope by
  CHECK(costs.check("full", 512) == 0);
  costs.checks.push_back({"folded", 2048, 4});  // noise: it costs less than 1024
  CHECK(costs.check("folded", 1536) == 4.5);
  CHECK(costs.check("folded", 1 << 20) == 0);
}

TEST_CASE("the geometric series, with the token that verification gives for free") {
  CHECK(expected_tokens(0, 5) == 1);
  CHECK(expected_tokens(1, 5) == 5);
  CHECK(expected_tokens(0.5, 3) == 1.75);
  CHECK(expected_tokens(0.5, 1) == 1);
}

TEST_CASE("predicted speedup: rows alone in the shallow layers, together in the deep ones") {
  CostModel costs;
  costs.n_layers = 8;
  costs.layer.fill(1);
  costs.logits.fill(2);
  costs.plain_token = 10;
  CHECK(predicted_speedup(costs, 2, 0, 1, 1) == 1);
  // 4 rows through 2 layers each, 6 layers once, the logits once.
  CHECK(predicted_speedup(costs, 2, 0, 1, 4) == doctest::Approx(40.0 / 16));
  CHECK(predicted_speedup(costs, 2, 1, 1, 4) == doctest::Approx(40.0 / 19));
  CHECK(predicted_speedup(costs, 0, 0, 0.5, 2) == doctest::Approx(15.0 / 10));
  costs.pass = 1;
  costs.row = 0.5;
  costs.round = 3;
  costs.argmax = 0.25;
  CHECK(predicted_speedup(costs, 2, 0, 1, 4) == doctest::Approx(40.0 / (16 + 5 + 2 + 3 + 1)));
  CHECK(costs.verify(3) == 1 + 8 + 2);
  costs.vocab_size = 100;
  costs.checks = {{CostModel::kDraw, 100, 1.25}};
  CHECK(costs.plain(true) == 10);
  CHECK(costs.plain(false) == 11);
}

TEST_CASE("first layers elsewhere cost what they cost there, in drafts most of all") {
  CostModel costs;
  costs.n_layers = 8;
  costs.layer.fill(1);
  costs.logits.fill(2);
  costs.plain_token = 10;
  costs.pass = 0.5;
  CHECK(costs.run(1, 8, 1) == 8.5);
  CHECK(costs.run(3, 2, 1) == 0);
  costs.first_layers = 5;
  costs.first_layer.fill(0.125);
  costs.first_pass = 0.25;
  CHECK(costs.run(1, 8, 1) == 0.25 + 5 * 0.125 + 0.5 + 3);
  CHECK(costs.run(2, 5, 4) == 0.25 + 4 * 0.125);
  CHECK(costs.run(6, 8, 4) == 3.5);
  CHECK(costs.run(1, 0, 4) == 0);  // a draft from before any layer
  CHECK(costs.run(5, 6, 4) == 0.25 + 0.125 + 0.5 + 1);
  CHECK(costs.verify(16) == costs.run(1, 8, 16) + 2);
  costs.plain_token = costs.verify(1);
  // Exits among the cheap layers: 4 rows of 2 layers, then the rest of the model once.
  const double round = 4 * 0.5 + (0.25 + 3 * 0.125 + 3.5) + 2;
  CHECK(predicted_speedup(costs, 2, 0, 1, 4) == doctest::Approx(4 * costs.plain_token / round));
}

TEST_CASE("another number of first layers elsewhere costs what these and the rest cost") {
  CostModel costs;
  costs.n_layers = 8;
  costs.layer.fill(1);
  costs.first_layers = 2;
  costs.first_layer.fill(0.125);
  costs.first_pass = 0.25;
  costs.pass = 0.5;
  costs.logits.fill(2);
  costs.plain_token = costs.verify(1) + 0.75;  // and what no part of it is
  for (const int n : {1, 2, 5, 8}) {
    const CostModel other = costs.with_first_layers(n);
    CHECK(other.first_layers == n);
    CHECK(other.plain_token == 0.25 + n * 0.125 + (n < 8 ? 0.5 : 0) + (8 - n) + 2 + 0.75);
    CHECK(other.verify(4) == other.plain_token - 0.75);
  }
}

TEST_CASE("measured costs are positive, grow with the rows, and add up to a plain token") {
  TinySpec spec;
  spec.n_layers = 4;
  spec.type = DType::kQ8_0;
  const TinyModel model(spec);
  for (const int n_ctx : {0, 8}) {  // a context that holds no run of 16 rows
    const auto backend = model.backend(best_isa(), 1, true, n_ctx);
    MeasureOptions options;
    options.seconds = 0.05;
    const CostModel costs = measure_costs(*backend, nullptr, options);
    CHECK(costs.n_layers == 4);
    CHECK(costs.vocab_size == 97);
    for (int rows = 1; rows <= CostModel::kRows; ++rows) {
      CHECK(costs.layer[rows] > 0);
      CHECK(costs.logits[rows] > 0);
    }
    CHECK(costs.layer[16] > costs.layer[1]);
    CHECK(costs.check("lens", 97) > 0);
    CHECK(costs.check(CostModel::kDraw, 97) > 0);
    CHECK(costs.pass >= 0);
    CHECK(costs.round >= 0);
    const double parts = costs.verify(1) + costs.row + costs.argmax + costs.round;
    CHECK(costs.plain_token == doctest::Approx(parts));
    for (int l = 1; l <= 4; ++l) CHECK(backend->kv_len(l) == 0);
  }
}

namespace {

// Returns from layers before they are done: whoever waits next pays for them.
class LateBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  static constexpr double kLayerSeconds = 2e-4;

  void run_layers(int slot, int n, int pos, int from, int to) override {
    inner_->run_layers(slot, n, pos, from, to);
    layers_ += to - from + 1;
  }
  void logits(int slot, int n, float* out) override {
    wait();
    inner_->logits(slot, n, out);
  }
  void wait() override {
    const auto until = std::chrono::steady_clock::now() +
                       std::chrono::duration<double>(kLayerSeconds * std::exchange(layers_, 0));
    while (std::chrono::steady_clock::now() < until) continue;
  }

 private:
  int layers_ = 0;
};

}  // namespace

TEST_CASE("measured costs: what is still under way when a call returns is its cost") {
  TinySpec spec;
  spec.n_layers = 8;
  const TinyModel model(spec);
  LateBackend backend(model.backend(best_isa(), 1));
  MeasureOptions options;
  options.seconds = 0.3;
  options.context = 20;
  const CostModel costs = measure_costs(backend, nullptr, options);
  // Half of it where plain tokens came out faster than their parts.
  CHECK(costs.layer[1] + costs.pass > 0.4 * LateBackend::kLayerSeconds);
  if (kSanitized) return;                                   // all else takes as long then
  CHECK(costs.logits[1] < 4 * LateBackend::kLayerSeconds);  // of 8 that may have been pending
  CHECK(costs.check("lens", 97) < 0.5 * LateBackend::kLayerSeconds);  // of 1
}

TEST_CASE("measuring can be stopped") {
  const TinyModel model(TinySpec{});
  const auto backend = model.backend(best_isa(), 1);
  MeasureOptions options;
  options.seconds = 100;
  options.progress = [](double) { return false; };
  CHECK(measure_costs(*backend, nullptr, options).n_layers == 0);
  CHECK(backend->kv_len(1) == 0);
}

}  // namespace cost_model_test
