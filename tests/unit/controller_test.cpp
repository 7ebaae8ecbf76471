// The controller in worlds of which everything is known: against the best of a grid of fixed
// settings, where drafts cannot pay, where that changes, and in the loop, whose text it must not
// touch.
#include "decode/controller.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "controller_rig.h"
#include "decode/forced_head.h"
#include "decode/generate.h"
#include "decode/measured_switch.h"
#include "decode/specbound.h"
#include "engine_rig.h"

namespace controller_test {

using namespace specbound;
using namespace specbound::test;

namespace {

double as_easy(double easy, double) {
  return easy;
}

World honest() {
  return {"honest", {0}, as_easy, [](double sure, double) { return sure; }};
}
World too_sure() {
  return {"too sure", {0}, as_easy, [](double sure, double) { return sure * sure; }};
}
World too_modest() {
  return {"too modest",
          {0},
          [](double easy, double) { return 0.6 * easy; },
          [](double sure, double) { return 0.5 + 0.8 * sure; }};
}
World short_sighted() {
  World world = too_modest();
  world.name = "far drafts are wrong";
  world.further = 0.7;
  return world;
}
World dear_rows() {
  World world = honest();
  world.name = "dear rows";
  world.layer_slope = 0.3;
  world.rest_slope = 1;
  world.check = 0.05;
  return world;
}
World deep() {
  return {"deep",
          {4, 8, 12},
          [](double easy, double depth) { return easy * (0.6 + 0.5 * depth); },
          [](double sure, double depth) { return 0.3 + 0.7 * sure * (0.8 + 0.2 * depth); },
          0.03};
}
World all_lengths() {
  World world = dear_rows();
  world.name = "texts of all lengths";
  world.length_slope = 0.006;
  return world;
}
World useless_first() {
  return {"a first check that is wrong",
          {2, 8},
          [](double easy, double depth) { return depth < 0.3 ? 0.9 * easy : std::sqrt(easy); },
          [](double sure, double depth) { return depth < 0.3 ? 0.2 * sure : 0.2 + 0.8 * sure; }};
}
World hopeless(std::vector<int> layers) {
  return {"hopeless", std::move(layers), as_easy, [](double, double) { return 0.02; }};
}

Controller controller_for(const World& world, int width = kMaxRows) {
  ControllerSettings settings;
  settings.n_layers = WorldLoop::kLayers;
  settings.check_layers = world.check_layers;
  settings.width = width;
  settings.first_width = 3;
  return Controller(settings);
}

Tally run(WorldLoop& loop, const World& world, DraftPolicy* policy, int rounds, double tau = 0.5,
          int width = kMaxRows) {
  Tally tally;
  for (int i = 0; i < rounds; ++i) loop.round(world, policy, tau, width, tally);
  return tally;
}

// Some plain rounds, as the switch asks for them, then on until it knows its way.
void learn(WorldLoop& loop, const World& world, Controller& controller, int rounds = 3000) {
  run(loop, world, &controller, 8, 0.5, 1);
  run(loop, world, &controller, rounds);
}

double best_fixed(const World& world) {
  double best = 0, best_tau = 0;
  int best_width = 1;
  for (const double tau : {0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95}) {
    for (const int width : {1, 2, 3, 4, 6, 8, 12}) {
      WorldLoop loop(3);
      const double rate = run(loop, world, nullptr, 2000, tau, width).rate();
      if (rate <= best) continue;
      best = rate;
      best_tau = tau;
      best_width = width;
    }
  }
  WorldLoop loop(5);  // other rounds than those that chose it
  return run(loop, world, nullptr, 12000, best_tau, best_width).rate();
}

}  // namespace

TEST_CASE("the controller: within 1 percent of the best fixed tau and w_max") {
  for (const World& world : {honest(), too_sure(), too_modest(), short_sighted(), dear_rows(),
                             all_lengths(), deep(), useless_first()}) {
    CAPTURE(world.name);
    Controller controller = controller_for(world);
    WorldLoop loop(5);
    learn(loop, world, controller);
    const double rate = run(loop, world, &controller, 12000).rate();
    CHECK(rate >= 0.99 * best_fixed(world));
    CHECK(rate * loop.plain(world) > 1.05);
  }
}

TEST_CASE("the controller: where no draft pays it all but stops, at 0.99 of plain speed") {
  for (const World& world : {hopeless({0}), hopeless({4, 8, 12})}) {
    Controller controller = controller_for(world);
    WorldLoop loop(7);
    learn(loop, world, controller);
    const Control before = controller.control();
    const Tally tally = run(loop, world, &controller, 12000);
    Control since;
    since.add(before, controller.control());
    CHECK(tally.rate() * loop.plain(world) >= 0.99);
    CHECK(since.rounds == 12000);
    CHECK(since.declined > 11000);
    CHECK(since.asked > 0);  // it tries again now and then
    CHECK(since.asked < 1000);
  }
}

TEST_CASE("the controller: drafts that turn bad are left, and found again when they are good") {
  const World good = honest(), bad = hopeless({0});
  Controller controller = controller_for(good);
  WorldLoop loop(9);
  learn(loop, good, controller);
  const double before = run(loop, good, &controller, 4000).rate();
  run(loop, bad, &controller, 1500);
  CHECK(run(loop, bad, &controller, 4000).rate() * loop.plain(bad) >= 0.98);
  run(loop, good, &controller, 8000);
  CHECK(run(loop, good, &controller, 4000).rate() >= 0.98 * before);

  // Rows get dearer in the middle: other settings are best then.
  const World dear = dear_rows();
  run(loop, dear, &controller, 4000);
  CHECK(run(loop, dear, &controller, 12000).rate() >= 0.99 * best_fixed(dear));
}

TEST_CASE("the controller: it begins as tau says, and stays within its width") {
  const World world = too_modest();
  Controller controller = controller_for(world, 5);
  CHECK(controller.width() == 3);
  controller.start();
  CHECK(controller.should_check(0));
  CHECK(!controller.should_exit(0, 0.9f, false));
  CHECK(!controller.should_exit(0, std::numeric_limits<float>::quiet_NaN(), true));
  CHECK(controller.should_exit(0, 0.1f, true));
  CHECK(controller.should_check(0));
  CHECK(controller.should_exit(0, 0.1f, true));
  CHECK(!controller.should_check(0));  // three rows
  CHECK(controller.control().rate == 0);
  WorldLoop loop(11);
  learn(loop, world, controller);
  CHECK(controller.width() == 5);
  CHECK(controller.control().rate > 0);
  CHECK(controller.control().other_exits > 0);
  CHECK(controller.table().acceptance(0, AcceptanceTable::bin(0.25f), 0) ==
        doctest::Approx(0.7).epsilon(0.1).scale(0));
}

TEST_CASE("the controller: where tau lets no row leave, drafts that pay are found all the same") {
  const World world = {"never sure",
                       {0},
                       [](double easy, double) { return 0.45 * easy; },
                       [](double, double) { return 0.9; }};
  Controller controller = controller_for(world);
  WorldLoop loop(19);
  run(loop, world, &controller, 8, 0.5, 1);
  CHECK(controller.control().rate == 0);  // nothing but plain rounds
  run(loop, world, &controller, 1000);
  CHECK(controller.control().rate > 0);
  CHECK(run(loop, world, &controller, 4000).rate() * loop.plain(world) > 1.5);
}

TEST_CASE("the controller: what steps cost is found from whole rounds") {
  for (const World& world : {dear_rows(), all_lengths(), deep()}) {
    CAPTURE(world.name);
    Controller controller = controller_for(world);
    WorldLoop loop(13);
    learn(loop, world, controller, 6000);
    const RoundCosts& costs = controller.costs();
    for (const int rows : {1, 2, 3}) {
      const double verify = WorldLoop::kLayers * loop.layer(world, rows) + loop.rest(world, rows);
      CHECK(loop.plain(world) * costs.verify(rows) ==
            doctest::Approx(verify).epsilon(0.05).scale(0));
    }
    const int alone = world.check_layers[0];
    const double row =
        alone * loop.layer(world, 1) +
        (WorldLoop::kLayers - alone) * (loop.layer(world, 2) - loop.layer(world, 1)) +
        loop.rest(world, 2) - loop.rest(world, 1);
    CHECK(loop.plain(world) * costs.row(1, 0) == doctest::Approx(row).epsilon(0.15).scale(0));
  }
}

TEST_CASE("the controller: rounds wider than any cost what narrower ones let expect") {
  const World world = dear_rows();
  Controller controller = controller_for(world, 4);
  WorldLoop loop(13);
  learn(loop, world, controller);
  const double wide = WorldLoop::kLayers * loop.layer(world, 10) + loop.rest(world, 10);
  CHECK(loop.plain(world) * controller.costs().verify(10) ==
        doctest::Approx(wide).epsilon(0.2).scale(0));
}

TEST_CASE("the controller: bins of confidence, and rows behind a reject say nothing") {
  CHECK(AcceptanceTable::bin(-1.0f) == 0);
  CHECK(AcceptanceTable::bin(0.0f) == 0);
  CHECK(AcceptanceTable::bin(0.1f) == 1);
  CHECK(AcceptanceTable::bin(1.0f) == AcceptanceTable::kBins - 1);
  CHECK(AcceptanceTable::bin(2.0f) == AcceptanceTable::kBins - 1);
  CHECK(AcceptanceTable::bin(std::numeric_limits<float>::quiet_NaN()) == -1);
  AcceptanceTable table(1);
  const int sure = AcceptanceTable::bin(0.97f), unsure = AcceptanceTable::bin(0.15f);
  const double before = table.acceptance(0, sure, 0), low = table.acceptance(0, unsure, 0);
  for (int i = 0; i < 200; ++i) table.learn(0, sure, 0, i % 4 == 0);
  CHECK(table.acceptance(0, sure, 0) == before);  // until it decays
  table.decay(1);
  CHECK(table.acceptance(0, sure, 0) == doctest::Approx(0.27).epsilon(0.1).scale(0));
  CHECK(table.acceptance(0, sure, 5) == doctest::Approx(table.acceptance(0, sure, 0)));
  CHECK(table.acceptance(0, unsure, 0) < low);  // the layer's word is worth less
  for (int i = 0; i < 2000; ++i) table.decay(0.98);
  CHECK(table.acceptance(0, sure, 0) == doctest::Approx(before));
}

TEST_CASE("the controller: far drafts are not taken for near ones of the same confidence") {
  AcceptanceTable table(1);
  const int bin = AcceptanceTable::bin(0.75f);
  const double before = table.acceptance(0, bin, 3);
  CHECK(before == table.acceptance(0, bin, 0));
  for (int i = 0; i < 600; ++i) {
    table.learn(0, bin, 0, i % 10 != 0);
    table.learn(0, bin, 3, i % 10 < 3);
    CHECK(table.acceptance(0, bin, 3) == before);  // until it decays
  }
  table.decay(1);
  for (int i = 0; i < 600; ++i) {
    table.learn(0, bin, 0, i % 10 != 0);
    table.learn(0, bin, 3, i % 10 < 3);
    if (i % 20 == 0) table.decay(1);
  }
  const double near = table.acceptance(0, bin, 0), far = table.acceptance(0, bin, 3);
  CHECK(near == doctest::Approx(0.9).epsilon(0.1).scale(0));
  CHECK(far == doctest::Approx(0.3).epsilon(0.2).scale(0));
  CHECK(table.acceptance(0, bin, 1) == doctest::Approx(near));  // nothing seen there
  CHECK(table.acceptance(0, bin, 15) == doctest::Approx(far));
}

TEST_CASE("the controller in the loop: the same text, greedy and sampled") {
  TinySpec spec;
  spec.type = DType::kQ8_0;
  spec.n_layers = 6;
  const TinyModel model(spec);
  const std::unique_ptr<Backend> backend = model.backend(Isa::kPortable, 1);
  const std::vector<int32_t> prompt = token_ids(9, model.config.vocab_size);
  for (const float temperature : {0.0f, 0.8f}) {
    SamplingParams sampling;
    sampling.temperature = temperature;
    sampling.seed = 3;
    GenerateOptions options;
    options.max_tokens = 120;
    Session plain(*backend, Sampler(sampling));
    CHECK(!plain.generate(prompt, options).control.active);
    const std::vector<int32_t> text(plain.tokens().begin(), plain.tokens().end());

    SpecBoundParams params;
    params.check_layers = {1, 3, 5};
    ForcedHead head(forced_by_chance(text, params.check_layers, model.config.vocab_size, {}, 17));
    SpecBound specbound(head, params, model.config.n_layers);
    ControllerSettings settings;
    settings.n_layers = model.config.n_layers;
    settings.check_layers = params.check_layers;
    Controller controller(settings);
    specbound.set_policy(&controller);
    MeasuredSwitch around(specbound);
    Session session(*backend, Sampler(sampling));
    session.set_speculator(&around);
    for (int reply = 0; reply < 3; ++reply) {
      const GenerateStats stats = session.generate(prompt, options);
      CHECK(std::vector<int32_t>(session.tokens().begin(), session.tokens().end()) == text);
      CHECK(stats.control.active);
      CHECK(stats.control.rounds <= stats.counters.rounds);
      CHECK(stats.control.asked >= stats.counters.drafted_tokens);
    }
    CHECK(controller.control().asked > 0);

    // Exchanged for another in the middle of a reply: what both decided in it.
    Controller other(settings);
    GenerateOptions exchanging = options;
    exchanging.on_round = [&](const RoundEvent& round) {
      if (round.round == 3) specbound.set_policy(&other);
    };
    session.set_speculator(&specbound);  // which the clock cannot pause
    const int64_t before = controller.control().rounds;
    const Control both = session.generate(prompt, exchanging).control;
    CHECK(controller.control().rounds > before);
    CHECK(other.control().rounds > 0);
    CHECK(both.rounds == controller.control().rounds - before + other.control().rounds);
  }
}

TEST_CASE("the controller: a draft that would have ended the reply is none of the round's rows") {
  ControllerSettings settings;
  settings.n_layers = WorldLoop::kLayers;
  settings.check_layers = {0, 4};
  settings.first_width = 3;
  Controller controller(settings);
  const std::vector<ExitCheck> checks{{0, 0.9f}};
  for (int round = 1; round < 80; ++round) {
    controller.begin();
    controller.start();
    REQUIRE(controller.should_check(0));
    if (controller.should_exit(0, 0.9f, true)) controller.withdrawn();
    // The root is all there is: a row behind it must not be looked for.
    const std::vector<RowEvent> rows{{7, kNoDraft, checks, -1, kNoDraft}};
    TokenEvent token{};
    token.token = 9;
    token.checks = checks;
    const std::vector<TokenEvent> tokens{token};
    RoundEvent event{round, 5, DraftEnd::kReplyEnd, rows, tokens, {}, {}};
    event.ns[static_cast<size_t>(Phase::kVerify)] = 1000000;
    controller.learn(event);
  }
  CHECK(controller.table().acceptance(0, AcceptanceTable::bin(0.9f), 0) ==
        Controller(settings).table().acceptance(0, AcceptanceTable::bin(0.9f), 0));
}

TEST_CASE("the controller: what tune measured is where costs begin, unless it makes no sense") {
  CostModel tuned;
  tuned.n_layers = WorldLoop::kLayers;
  for (int m = 1; m <= kMaxRows; ++m) {
    tuned.layer[m] = 1 + 0.5 * (m - 1);
    tuned.logits[m] = 2;
  }
  ControllerSettings settings;
  settings.n_layers = WorldLoop::kLayers;
  settings.check_layers = {0, 4};
  settings.first_width = 3;
  settings.check_seconds = 0.25;
  settings.tuned = &tuned;
  const Controller known(settings);
  CHECK(known.costs().known());
  CHECK(known.control().rate == doctest::Approx(1));
  CHECK(18 * known.costs().verify(1) == doctest::Approx(18));
  CHECK(18 * known.costs().check(1) == doctest::Approx(0.25));
  CHECK(18 * known.costs().row(1, 0) == doctest::Approx(8));
  CHECK(18 * known.costs().row(1, 1) == doctest::Approx(4 + 6));

  // The chance that all drafts are right begins anew with each round.
  Controller deciding(settings);
  deciding.begin();
  CHECK(deciding.survival() == 1);
  deciding.start();
  deciding.should_check(0);
  deciding.should_exit(0, 0, false);
  deciding.should_check(1);
  const bool left = deciding.should_exit(1, 0.75f, true);
  CHECK(left);
  CHECK(deciding.survival() < 1);
  deciding.begin();  // the round was aborted
  CHECK(deciding.survival() == 1);

  // One figure is off: it does not make all wider rounds dear, or free.
  for (const double off : {0.5, 3.0}) {
    tuned.layer[2] = off;
    const Controller doubtful(settings);
    CHECK(doubtful.costs().verify(16) <= (16 * 10 + 2) / 18.0);
    CHECK(doubtful.costs().verify(16) >= (16 * 8 + 2) / 18.0);
    tuned.layer[2] = 1.5;
  }
  tuned.layer[5] = 0;
  CHECK(!Controller(settings).costs().known());
  tuned.layer[5] = 3;
  settings.check_seconds = 0;
  CHECK(!Controller(settings).costs().known());
}

}  // namespace controller_test
