// Trained heads in the loop: what they ask the backend for, row by row, and whose token they draft.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "decode/generate.h"
#include "drafters/exit_head.h"
#include "drafters/specbound.h"
#include "engine_rig.h"
#include "forwarding_backend.h"
#include "temp_dir.h"
#include "tiny_heads.h"

namespace trained_head_test {

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr int kLayers = 4;
constexpr int kVocab = 97;

const TinyModel& model() {
  static const TinyModel model(q8_0_spec(kLayers));
  return model;
}

ExitHeads open_heads() {
  const TempDir folder;
  const std::string path = folder / "m.heads.gguf";
  write_exit_heads(path, random_heads(heads_base(model().gguf, model().config)));
  return ExitHeads::open(path, model().gguf, model().config);
}

// What a head asks for: "check HEAD SLOT" and "keep SLOT", and what came of checks.
class Listener final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  ExitPeak exit_check(int head, int slot, float temperature) override {
    asked.push_back(format("check %d %d", head, slot));
    temperatures.insert(temperature);
    return peak = inner_->exit_check(head, slot, temperature);
  }
  void keep_state(int slot) override {
    asked.push_back(format("keep %d", slot));
    inner_->keep_state(slot);
  }
  std::vector<std::string> asked;
  std::set<float> temperatures;
  ExitPeak peak;
};

SamplingParams sampling(float temperature, float penalty = 1) {
  SamplingParams params;
  params.temperature = temperature;
  params.seed = 5;
  params.repeat_penalty = penalty;
  return params;
}

}  // namespace

TEST_CASE("a chained head looks first at rows that it was not asked about") {
  const ExitHeads heads = open_heads();
  Listener engine(model().backend(best_isa(), 1));
  engine.set_exit_heads(&heads, 32);
  TrainedHead head(heads, HeadKind::kChained);
  Sampler sampler(sampling(0));
  std::vector<int32_t> text = token_ids(9, kVocab);
  engine.prefill(std::span(text).first(text.size() - 1), nullptr, nullptr);
  const std::string check = format("check %d ", heads.find(HeadKind::kChained, 0));
  const auto peak_of_third = [&](std::initializer_list<int> asked) {
    Round round(engine, sampler, text);
    Round::Limits limits;
    limits.width = kMaxRows;
    round.start(limits);
    head.begin();
    engine.asked.clear();
    for (int slot = 0; slot < 3; ++slot) {
      if (slot > 0) round.append(5 + slot, 0);
      if (std::ranges::count(asked, slot) == 0) continue;
      head.check(round, 0, 1, [](float) { return true; });
    }
    CHECK(engine.asked == std::vector<std::string>{check + "0", check + "1", check + "2"});
    round.undo();
    return std::pair(engine.peak.token, engine.peak.confidence);
  };
  const auto all = peak_of_third({0, 1, 2});
  CHECK(peak_of_third({0, 2}) == all);
  CHECK(peak_of_third({2}) == all);
}

TEST_CASE("a chained head follows the last row that counts, and waits for the first") {
  const ExitHeads heads = open_heads();
  Listener engine(model().backend(best_isa(), 1));
  engine.set_exit_heads(&heads, 32);
  TrainedHead head(heads, HeadKind::kChained);
  SpecBoundParams settings;
  settings.check_layers = {0};
  settings.tau = 0;
  settings.w_max = 3;
  SpecBound speculator(head, settings, kLayers);
  Session session(engine, Sampler(sampling(0)));
  session.set_speculator(&speculator);
  GenerateOptions options;
  options.max_tokens = 12;
  std::vector<std::string> expected;
  const std::string check = format("check %d ", heads.find(HeadKind::kChained, 0));
  options.on_round = [&](const RoundEvent& round) {
    if (round.round == 0) {
      CHECK(round.rows.size() == 1);
      CHECK(round.draft_end == DraftEnd::kPlain);
    }
    for (int i = 0; i < round.drafted(); ++i) expected.push_back(check + std::to_string(i));
    expected.push_back("keep " + std::to_string(round.tokens.size() - 1));
    CHECK(engine.asked == expected);
  };
  session.generate(token_ids(9, kVocab), options);
  CHECK(expected.size() > 12);
  // The next reply begins without a state.
  Sampler sampler(sampling(0));
  std::vector<int32_t> text(session.tokens().begin(), session.tokens().end());
  Round round(engine, sampler, text);
  Round::Limits limits;
  limits.width = 2;
  round.start(limits);
  CHECK(head.ready(round));
  speculator.begin({});
  CHECK(!head.ready(round));
  CHECK(TrainedHead(heads, HeadKind::kFolded).ready(round));
  round.undo();
}

TEST_CASE("annealing is linear, absent, or what each head has learnt") {
  const TempDir folder;
  const std::string path = folder / "m.heads.gguf";
  NewHeads written = random_heads(heads_base(model().gguf, model().config));
  for (NewHead& head : written.heads) head.temperature = 0.5f * static_cast<float>(head.layer) + 2;
  write_exit_heads(path, written);
  const ExitHeads heads = ExitHeads::open(path, model().gguf, model().config);
  Listener engine(model().backend(best_isa(), 1));
  engine.set_exit_heads(&heads, 16);
  const auto temperatures = [&](bool anneal, bool learned) {
    SpecBoundParams settings;
    settings.check_layers = {1, 2};
    settings.tau = 1;
    settings.alpha = 1;
    settings.anneal = anneal;
    settings.learned = learned;
    TrainedHead head(heads, HeadKind::kFolded);
    SpecBound speculator(head, settings, kLayers);
    Session session(engine, Sampler(sampling(0)));
    session.set_speculator(&speculator);
    GenerateOptions options;
    options.max_tokens = 3;
    engine.temperatures.clear();
    session.generate(token_ids(9, kVocab), options);
    return engine.temperatures;
  };
  CHECK(temperatures(true, false) == std::set{1.5f, 1.75f});
  CHECK(temperatures(false, false) == std::set{1.0f});
  CHECK(temperatures(true, true) == std::set{2.5f, 3.0f});
}

TEST_CASE("a greedy draft is the peak; another one is drawn from the shortlist's logits") {
  const ExitHeads heads = open_heads();
  Listener engine(model().backend(best_isa(), 1));
  engine.set_exit_heads(&heads, 16);
  for (const SamplingParams& params : {sampling(0), sampling(0, 1.5f), sampling(1)}) {
    for (const HeadKind kind : {HeadKind::kFull, HeadKind::kFolded}) {
      std::vector<float> confidence;
      for (const ConfidenceRule rule : {ConfidenceRule::kPeak, ConfidenceRule::kMargin}) {
        engine.truncate(0);
        Sampler sampler(params);
        std::vector<int32_t> text = {96};
        Round round(engine, sampler, text);
        Round::Limits limits;
        limits.width = 4;
        round.start(limits);
        REQUIRE(round.run(1, 2));
        TrainedHead head(heads, kind, rule);
        const auto drafted = head.check(round, 2, 1.2f, [&](float p) {
          confidence.push_back(p);
          return true;
        });
        CHECK(confidence.back() > 0);
        CHECK(confidence.back() < 1);
        const std::span<const float> z = engine.exit_logits();
        std::span<const int32_t> ids;
        if (kind == HeadKind::kFolded) ids = std::span(heads.shortlist()).first(16);
        REQUIRE(z.size() == (kind == HeadKind::kFolded ? 16 : kVocab));
        double margin = 0;
        const int32_t token = sampler.sample(z, round.history(0), round.place(0), ids, &margin);
        CHECK(drafted == token);
        if (params.temperature == 0 && params.repeat_penalty == 1)
          CHECK(token == engine.peak.token);
        const HeadWeights& weights = heads.heads()[heads.find(kind, 2)];
        const double chance =
            1 / (1 + std::exp(-(weights.margin_scale * margin + weights.margin_offset)));
        if (rule == ConfidenceRule::kMargin) CHECK(confidence.back() == static_cast<float>(chance));
      }
      CHECK(confidence[0] == engine.peak.confidence);
      CHECK(confidence[0] != confidence[1]);
    }
  }
}

}  // namespace trained_head_test
