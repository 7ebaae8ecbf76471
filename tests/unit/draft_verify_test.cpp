// Draft & Verify: which layers run which rows, that nothing of its drafts stays in the cache,
// wherever it is cut short.
#include "drafters/draft_verify.h"

#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <string>
#include <utility>

#include "chain_rows.h"
#include "decode/generate.h"
#include "engine_rig.h"
#include "expect_error.h"
#include "forwarding_backend.h"
#include "seen_round.h"

namespace draft_verify_test {

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr int kLayers = 8;
constexpr auto kDraft = Phase::kDraft, kVerify = Phase::kVerify;
using Layers = std::vector<int>;

const TinyModel& model() {
  static const TinyModel model(q8_0_spec(kLayers));
  return model;
}

std::unique_ptr<Backend> backend() {
  return model().backend(best_isa(), 1);
}

SamplingParams sampling(float temperature, uint64_t seed = 3) {
  SamplingParams params;
  params.temperature = temperature;
  params.seed = seed;
  return params;
}

DraftVerifyParams without(Layers skipped, int w_max = 4, float tau = 0) {
  return {std::move(skipped), w_max, tau};
}

std::vector<int32_t> text_of(const Session& session) {
  return {session.tokens().begin(), session.tokens().end()};
}

// The first round that drafts, of a reply to nine tokens.
SeenRound first_round(const DraftVerifyParams& params) {
  const auto engine = backend();
  DraftVerify speculator(params);
  Session session(*engine, Sampler(sampling(0)));
  session.set_speculator(&speculator);
  std::vector<SeenRound> seen;
  GenerateOptions options;
  options.max_tokens = 8;
  options.on_round = [&](const RoundEvent& round) {
    for (const RowEvent& row : round.rows) {
      for (const ExitCheck& check : row.checks) CHECK(check.layer == kLayers);
    }
    seen.emplace_back(round);
  };
  session.generate(token_ids(9, 97), options);
  return seen.at(0);
}

}  // namespace

TEST_CASE("draft-verify: drafts run alone through the layers that are left, verification all") {
  const SeenRound round = first_round(without({3, 5, 6}, 3));
  CHECK(round.draft_end == DraftEnd::kWidth);
  CHECK(round.exits == Layers{0, 0, kNoDraft});
  CHECK(round.checks == Layers{1, 1, 0});
  CHECK(round.passes == std::vector<LayerPass>{{1, 2, 0, 1, kDraft},
                                               {4, 4, 0, 1, kDraft},
                                               {7, 8, 0, 1, kDraft},
                                               {1, 2, 1, 1, kDraft},
                                               {4, 4, 1, 1, kDraft},
                                               {7, 8, 1, 1, kDraft},
                                               {1, 8, 0, 3, kVerify}});
}

TEST_CASE("draft-verify: the draft below the threshold is the last one") {
  const SeenRound round = first_round(without({1, 8}, 4, 1));
  CHECK(round.draft_end == DraftEnd::kDifficult);
  CHECK(round.exits == Layers{0, kNoDraft});
  CHECK(round.passes == std::vector<LayerPass>{{2, 7, 0, 1, kDraft}, {1, 8, 0, 2, kVerify}});
  // Nothing left: the embedding is asked.
  CHECK(first_round(without({1, 2, 3, 4, 5, 6, 7, 8}, 2)).passes ==
        std::vector<LayerPass>{{1, 8, 0, 2, kVerify}});
}

TEST_CASE("draft-verify: with nothing left out every draft is right, at any temperature") {
  for (const float temperature : {0.0f, 1.0f}) {
    const auto engine = backend();
    DraftVerify speculator(without({}, 5, 0.5f));
    Session session(*engine, Sampler(sampling(temperature)));
    session.set_speculator(&speculator);
    GenerateOptions options;
    options.max_tokens = 30;
    const Counters counters = session.generate(token_ids(9, 97), options).counters;
    CHECK(counters.drafted_tokens >= 14);
    CHECK(counters.accepted_tokens == counters.drafted_tokens);
    CHECK(speculator.tau() < 0.5f);
  }
}

namespace {

// Hands on, and tells of each call that a round makes.
class CountedBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  std::function<void()> before = [] {};

  void embed(int slot, int32_t token) override {
    before();
    inner_->embed(slot, token);
  }
  void run_layers(int slot, int n, int pos, int from, int to) override {
    before();
    inner_->run_layers(slot, n, pos, from, to);
  }
  void skip_layers(int slot, int n, int pos, int from, int to) override {
    before();
    inner_->skip_layers(slot, n, pos, from, to);
  }
  void logits(int slot, int n, float* out) override {
    before();
    inner_->logits(slot, n, out);
  }
};

struct Fault {};

}  // namespace

TEST_CASE(
    "draft-verify: cut short anywhere, by abort or exception, the text comes out all the same") {
  CountedBackend engine(backend());
  const std::vector<int32_t> prompt = token_ids(9, 97);
  GenerateOptions options;
  options.max_tokens = 10;
  Session plain(engine, Sampler(sampling(0.7f)));
  plain.generate(prompt, options);
  const std::vector<int32_t> want = text_of(plain);

  DraftVerify speculator(without({2, 5}, 4));
  const auto cut = [&](int calls, bool by_exception) {
    engine.truncate(0);
    std::atomic<bool> abort = false;
    bool cut_short = false;
    engine.before = [&] {
      if (calls-- != 0) return;
      if (by_exception) throw Fault();
      abort = true;
    };
    Session session(engine, Sampler(sampling(0.7f)));
    session.set_speculator(&speculator);
    GenerateOptions cut_options = options;
    cut_options.abort = &abort;
    std::vector<int32_t> emitted = prompt;
    cut_options.on_token = [&](const TokenEvent& event) { emitted.push_back(event.token); };
    try {
      cut_short = session.generate(prompt, cut_options).stop == StopReason::kAborted;
    } catch (const Fault&) {
      cut_short = true;
    }
    engine.before = [] {};
    INFO("calls ", calls);
    CHECK(text_of(session) == emitted);
    for (int l = 1; l <= kLayers; ++l) {
      CHECK(engine.kv_len(l) == static_cast<int>(emitted.size()) - 1);
    }
    // The rest of the same reply.
    GenerateOptions rest = options;
    rest.max_tokens = static_cast<int>(want.size() - emitted.size());
    session.generate(emitted, rest);
    CHECK(text_of(session) == want);
    return cut_short;
  };
  for (const bool by_exception : {false, true}) {
    int calls = 0;
    while (cut(calls, by_exception)) ++calls;
    CHECK(calls > 30);
  }
}

TEST_CASE("draft-verify: the threshold follows acceptance by the paper's rule") {
  const auto engine = backend();
  const auto after = [&](DraftEnd end, std::vector<int32_t> rows, std::vector<int32_t> tokens) {
    DraftVerify speculator(without({4}, 8, 0.6f));
    std::vector<RowEvent> row_events;
    for (const int32_t token : rows) row_events.push_back({token, 0, {}});
    make_chain(row_events);
    std::vector<TokenEvent> token_events;
    for (size_t i = 0; i < tokens.size(); ++i) {
      TokenEvent event{};
      event.token = tokens[i];
      event.draft = i + 1 < rows.size() ? rows[i + 1] : -1;
      token_events.push_back(event);
    }
    const RoundEvent round{0, 5, end, row_events, token_events, {}, {}};
    speculator.accept(*engine, round);
    return speculator.tau();
  };
  const auto moved = [](float by) { return 0.9f * 0.6f + 0.1f * (0.6f + by); };
  CHECK(after(DraftEnd::kDifficult, {1, 2, 3}, {7}) == moved(0.01f));         // wrong: fewer
  CHECK(after(DraftEnd::kWidth, {1, 2, 3}, {7}) == moved(0.01f));             //
  CHECK(after(DraftEnd::kDifficult, {1, 2, 3}, {2, 3, 7}) == moved(-0.01f));  // right: more
  CHECK(after(DraftEnd::kWidth, {1, 2, 3}, {2, 3, 7}) == moved(0));           // cannot be more
  CHECK(after(DraftEnd::kPlain, {1}, {7}) == 0.6f);
}

TEST_CASE("draft-verify: the layers that are left out") {
  CHECK(default_skipped_layers(16) == Layers{3, 5, 7, 9, 11, 13});
  CHECK(default_skipped_layers(7) == Layers{3, 5});
  CHECK(default_skipped_layers(5) == Layers{3});
  CHECK(default_skipped_layers(4) == Layers{3});
  CHECK(default_skipped_layers(2) == Layers{2});
  CHECK(default_skipped_layers(1) == Layers{1});
  for (int n = 1; n < 40; ++n) validate(without(default_skipped_layers(n)), n);
  CHECK(expect_error(ErrorCode::kUsage, [] {
          validate(without({3, 9}), 8);
        }) == "--skip-layers: expected layers from 1 to 8, found 9");
  check_mentions(expect_error(ErrorCode::kUsage, [] { validate(without({1}, 17), 8); }),
                 {"--w-max", "17"});
  check_mentions(expect_error(ErrorCode::kUsage, [] { validate(without({1}, 8, 1.5f), 8); }),
                 {"--tau", "1.5"});
}

}  // namespace draft_verify_test
