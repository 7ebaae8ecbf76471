// Which layer runs which rows, together with which others: the paper's Figures 2 and 5
// (docs/architecture.md 3.2) and the edges of the drafting loop, from the passes that rounds
// report.
#include "decode/round.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <thread>
#include <utility>

#include "decode/generate.h"
#include "drafters/forced_head.h"
#include "drafters/specbound.h"
#include "engine_rig.h"
#include "forwarding_backend.h"
#include "seen_round.h"
#include "terminal/flag_names.h"

namespace round_test {

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr int kLayers = 8;
constexpr auto kDraft = Phase::kDraft, kVerify = Phase::kVerify;

const TinyModel& model() {
  static const TinyModel model(q8_0_spec(kLayers));
  return model;
}

std::unique_ptr<Backend> backend(int n_ctx = 0) {
  return model().backend(best_isa(), 1, true, n_ctx);
}

Sampler greedy() {
  SamplingParams params;
  params.temperature = 0;
  return Sampler(params);
}

// Rounds of a reply of `n` tokens to `prompt`, rows leaving at `exits` in turn (0: nowhere) with
// the right token, or a wrong one where the layer is negative.
std::vector<SeenRound> rounds(Backend& backend, const SpecBoundParams& params,
                              std::vector<int> exits, int n,
                              const std::vector<int32_t>& prompt = token_ids(9, 97)) {
  GenerateOptions options;
  options.max_tokens = n;
  Session plain(backend, greedy());
  plain.generate(prompt, options);
  const std::vector<int32_t> text(plain.tokens().begin(), plain.tokens().end());

  size_t next = 0;
  ForcedHead head([&](const Round& round) {
    const int exit = next < exits.size() ? exits[next++] : 0;
    const size_t at = round.history(round.newest()).size();
    const int32_t right = at < text.size() ? text[at] : 0;
    return ForcedExit{.layer = std::abs(exit), .token = exit < 0 ? (right + 1) % 97 : right};
  });
  SpecBound speculator(head, params, kLayers);
  Session session(backend, greedy());
  session.set_speculator(&speculator);
  std::vector<SeenRound> seen;
  options.on_round = [&](const RoundEvent& round) { seen.emplace_back(round); };
  session.generate(prompt, options);
  CHECK(std::vector<int32_t>(session.tokens().begin(), session.tokens().end()) == text);
  return seen;
}

SpecBoundParams figure_params() {
  SpecBoundParams params;
  params.w_max = 4;
  params.d_max = 6;
  return params;
}

}  // namespace

TEST_CASE("Figure 2: exits at 2 and 4, then a difficult row") {
  SpecBoundParams params = figure_params();
  params.check_layers = {2, 4, 6};
  const auto engine = backend();
  const SeenRound round = rounds(*engine, params, {2, 4, 0}, 12)[0];
  CHECK(round.draft_end == DraftEnd::kDifficult);
  CHECK(round.rows == 3);
  CHECK(round.emitted == 3);
  CHECK(round.passes ==
        std::vector<LayerPass>{{1, 2, 0, 1, kDraft},           // "I" leaves at 2
                               {1, 2, 1, 1, kDraft},           // "am", alone where "I" has been
                               {3, 4, 0, 2, kDraft},           // "I" catches up, "am" leaves at 4
                               {1, 2, 2, 1, kDraft},           // "a"
                               {3, 4, 2, 1, kDraft},           //
                               {5, 6, 0, 3, kDraft},           // difficult: stopped at d_max
                               {7, kLayers, 0, 3, kVerify}});  // all three, weights read once
}

TEST_CASE("Figure 5: exits at 2, 4 and 6, then the width bound") {
  SpecBoundParams params = figure_params();
  params.check_layers = {2, 4, 6};
  const auto engine = backend();
  const SeenRound round = rounds(*engine, params, {2, 4, 6, 2}, 12)[0];
  CHECK(round.draft_end == DraftEnd::kWidth);
  CHECK(round.rows == 4);
  CHECK(round.emitted == 4);
  CHECK(round.passes == std::vector<LayerPass>{{1, 2, 0, 1, kDraft},
                                               {1, 2, 1, 1, kDraft},
                                               {3, 4, 0, 2, kDraft},
                                               {1, 2, 2, 1, kDraft},
                                               {3, 4, 2, 1, kDraft},
                                               {5, 6, 0, 3, kDraft},
                                               {1, 6, 3, 1, kVerify},  // row 4, never checked
                                               {7, kLayers, 0, 4, kVerify}});
}

TEST_CASE("layers without a check are not stopped at: one pass from check to check") {
  SpecBoundParams params = figure_params();
  params.check_layers = {3, 5, 7};  // 7 lies behind d_max
  const auto engine = backend();
  const SeenRound round = rounds(*engine, params, {5, 3, 0}, 12)[0];
  CHECK(round.passes == std::vector<LayerPass>{{1, 3, 0, 1, kDraft},
                                               {4, 5, 0, 1, kDraft},
                                               {1, 3, 1, 1, kDraft},
                                               {1, 3, 2, 1, kDraft},
                                               {4, 5, 1, 2, kDraft},
                                               {6, kLayers, 0, 3, kVerify}});
}

TEST_CASE("a check before any layer: drafts cost no pass, all layers run in verification") {
  SpecBoundParams params = figure_params();
  params.check_layers = {0, 3};
  const auto engine = backend();
  const std::vector<int32_t> prompt = token_ids(9, 97);
  GenerateOptions options;
  options.max_tokens = 8;
  Session plain(*engine, greedy());
  plain.generate(prompt, options);
  const std::vector<int32_t> text(plain.tokens().begin(), plain.tokens().end());
  // Rows leave before the first layer, then after the third, then nowhere.
  ForcedHead head([&](const Round& round) {
    const int exits[] = {0, 3, kNoDraft};
    const size_t at = round.history(round.newest()).size();
    return ForcedExit{exits[round.newest() % 3], at < text.size() ? text[at] : 0};
  });
  SpecBound speculator(head, params, kLayers);
  Session session(*engine, greedy());
  session.set_speculator(&speculator);
  std::vector<LayerPass> passes;
  Counters counters;
  options.on_round = [&](const RoundEvent& round) {
    if (round.round == 0) passes.assign(round.passes.begin(), round.passes.end());
    counters.add(round);
  };
  session.generate(prompt, options);
  CHECK(std::vector<int32_t>(session.tokens().begin(), session.tokens().end()) == text);
  CHECK(passes == std::vector<LayerPass>{
                      {1, 3, 0, 2, kDraft}, {1, 3, 2, 1, kDraft}, {4, kLayers, 0, 3, kVerify}});
  REQUIRE(counters.accepted_at.size() == 4);
  CHECK(counters.accepted_at[0] > 0);
  CHECK(counters.accepted_at[3] > 0);
  CHECK(counters.mean_exit_layer() ==
        3.0 * counters.accepted_at[3] / (counters.accepted_at[0] + counters.accepted_at[3]));
}

TEST_CASE("a wrong draft costs the rows after it, and nothing is computed twice") {
  SpecBoundParams params = figure_params();
  params.check_layers = {2, 4};
  const auto engine = backend();
  const std::vector<SeenRound> seen = rounds(*engine, params, {2, -4, 2, 2, 2, 2, 2}, 8);
  CHECK(seen[0].rows == 4);
  CHECK(seen[0].emitted == 2);  // the first draft and the target that replaces the second
  CHECK(seen[1].rows == 4);
  CHECK(seen[1].emitted == 4);
  CHECK(seen[2].rows == 2);  // the budget has two tokens left
  CHECK(seen[2].draft_end == DraftEnd::kWidth);
  for (const SeenRound& round : seen) {
    std::vector<int> visits(kLayers + 1);
    for (const LayerPass& pass : round.passes) {
      for (int l = pass.from; l <= pass.to; ++l) visits[l] += pass.rows;
    }
    for (int l = 1; l <= kLayers; ++l) CHECK(visits[l] == round.rows);
  }
}

TEST_CASE("without bounds a round takes 16 rows and looks up to the last check layer") {
  SpecBoundParams params = figure_params();
  params.width_bound = false;
  const auto engine = backend();
  CHECK(rounds(*engine, params, std::vector<int>(40, 1), 40)[0].rows == kMaxRows);
  params = figure_params();
  params.d_max = 2;
  params.depth_bound = false;
  const SeenRound round = rounds(*engine, params, {7, 0}, 12)[0];
  CHECK(round.rows == 2);
  CHECK(round.passes.back() == LayerPass{kLayers, kLayers, 0, 2, kVerify});
}

TEST_CASE("one row is plain decoding: w_max 1, no check layer in reach, the context's last place") {
  const std::vector<LayerPass> plain = {{1, kLayers, 0, 1, kVerify}};
  const auto engine = backend(24);
  SpecBoundParams params = figure_params();
  params.w_max = 1;
  CHECK(rounds(*engine, params, {1, 1, 1}, 3)[0].passes == plain);
  params = figure_params();
  params.check_layers = {5, 6};
  params.d_max = 4;
  CHECK(rounds(*engine, params, {5, 5, 5}, 3)[0].passes == plain);

  params.d_max = 6;
  const std::vector<int32_t> prompt = token_ids(22, 97);
  const std::vector<SeenRound> seen = rounds(*engine, params, {5, 5, 5, 5}, -1, prompt);
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].rows == 3);  // positions 21, 22, 23
  CHECK(seen[0].emitted == 3);
  CHECK(rounds(*engine, params, {5}, -1, token_ids(24, 97))[0].passes == plain);
}

TEST_CASE("confidence meets the threshold where p >= tau; NaN never does") {
  const auto engine = backend();
  const std::vector<int32_t> prompt = token_ids(9, 97);
  const auto exits = [&](float confidence, float elsewhere, float tau) {
    ForcedHead head([&](const Round&) { return ForcedExit{3, 1, confidence, elsewhere}; });
    SpecBoundParams params = figure_params();
    params.tau = tau;
    SpecBound speculator(head, params, kLayers);
    Session session(*engine, greedy());
    session.set_speculator(&speculator);
    GenerateOptions options;
    options.max_tokens = 2;
    int layer = -2;
    options.on_round = [&](const RoundEvent& round) {
      if (round.round == 0) layer = round.rows[0].exit_layer;
    };
    session.generate(prompt, options);
    return layer;
  };
  CHECK(exits(0.5f, 0.4f, 0.5f) == 3);
  CHECK(exits(0.5f, 0.4f, 0.51f) == kNoDraft);
  CHECK(exits(0.5f, 0.6f, 0.55f) == 1);  // confident sooner than planned
  CHECK(exits(std::nanf(""), std::nanf(""), 0.0f) == kNoDraft);
  CHECK(exits(0.0f, 0.0f, 0.0f) == 1);
}

TEST_CASE("the annealed temperature falls from 1 + alpha towards 1") {
  SpecBoundParams params;
  CHECK(annealed_temperature(params, 32, 32) == 1.0f);
  CHECK(annealed_temperature(params, 16, 32) == 1.1f);
  CHECK(annealed_temperature(params, 8, 32) == 1.15f);
  params.alpha = 0;
  CHECK(annealed_temperature(params, 1, 32) == 1.0f);
  params.alpha = 0.5f;
  params.learned = true;
  CHECK(annealed_temperature(params, 1, 32, 0.7f) == 0.7f);
  CHECK(annealed_temperature(params, 1, 32) == 1.0f);
  params.learned = params.anneal = false;
  CHECK(annealed_temperature(params, 1, 32, 0.7f) == 1.0f);
}

TEST_CASE("settings outside their range are refused by name") {
  const auto refusal = [](auto change) {
    SpecBoundParams params;
    change(params);
    try {
      validate(params, kLayers);
    } catch (const Error& e) {
      CHECK(e.code() == ErrorCode::kUsage);
      return with_flags(e.what());
    }
    return std::string("accepted");
  };
  using P = SpecBoundParams;
  CHECK(refusal([](P&) {}) == "accepted");
  CHECK(refusal([](P& p) { p.w_max = 0; }) == "--w-max: expected 1 to 16, found 0");
  CHECK(refusal([](P& p) { p.w_max = 17; }) == "--w-max: expected 1 to 16, found 17");
  CHECK(refusal([](P& p) { p.d_max = 0; }) == "--d-max: expected a layer from 1 on, found 0");
  CHECK(refusal([](P& p) { p.alpha = -0.1f; }).starts_with("--alpha: expected 0 to 100"));
  CHECK(refusal([](P& p) { p.tau = 1.5f; }).starts_with("--tau: expected 0 to 1"));
  CHECK(refusal([](P& p) { p.tau = std::nanf(""); }).starts_with("--tau: expected 0 to 1"));
  CHECK(refusal([](P& p) {
          p.check_layers = {2, 8};
        }) == "--check-layers: expected layers from 1 to 7 (the model has 8), found 8");
  CHECK(refusal([](P& p) { p.check_layers = {0}; }).starts_with("--check-layers: expected layers"));
  SpecBoundParams before_any;
  before_any.check_layers = {0, 3};
  CHECK_NOTHROW(validate(before_any, kLayers, 0));
  CHECK(refusal([](P& p) {
          p.check_layers = {4, 4};
        }) == "--check-layers: expected ascending layers, found 4 after 4");
}

TEST_CASE("time in callbacks is not decoding time, and plain rounds are measured on the way") {
  const auto engine = backend();
  const std::vector<int32_t> prompt = token_ids(9, 97);
  ForcedHead head([](const Round&) { return ForcedExit{1, 0}; });
  SpecBound speculator(head, figure_params(), kLayers);
  Session session(*engine, greedy());
  session.set_speculator(&speculator);
  GenerateOptions options;
  options.max_tokens = 40;
  options.measure_plain = true;
  std::vector<int> plain;
  options.on_round = [&](const RoundEvent& round) {
    if (round.draft_end == DraftEnd::kPlain) plain.push_back(round.round);
  };
  options.on_token = [](const TokenEvent&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  };
  const auto start = std::chrono::steady_clock::now();
  const GenerateStats stats = session.generate(prompt, options);
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  CHECK(stats.speculated);
  CHECK(wall.count() - stats.prefill_seconds - stats.decode_seconds >= 0.2);  // 40 callbacks
  REQUIRE(plain.size() >= 4);
  CHECK(plain[0] == 0);  // the first token comes soonest
  CHECK(plain[1] == 8);
  CHECK(plain[2] == 16);
  CHECK(plain[3] == 24);
  CHECK(stats.plain_rounds == static_cast<int>(plain.size()) - 1);  // all but the first, cold one
  CHECK(stats.plain_token_seconds > 0);
  // Replies too short for one of their own are measured too: rounds count on from reply to reply.
  int measured = 0, written = 0;
  options.on_round = [&](const RoundEvent& round) {
    measured += round.round > 0 && round.draft_end == DraftEnd::kPlain;
  };
  options.on_token = nullptr;
  options.unwanted = [&] { return ++written % 6 == 0; };
  for (int reply = 0; reply < 80; ++reply)
    CHECK(session.generate(prompt, options).counters.rounds < 8);
  CHECK(measured >= 1);
}

namespace {

struct Fault {};

// Throws in one call of many, with its layers half done.
class FailingBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  int calls_left = -1;        // of embed, run_layers and logits; -1: no end
  bool fail_prefill = false;  // in the second chunk

  void embed(int slot, int32_t token) override {
    count();
    inner_->embed(slot, token);
  }
  void run_layers(int slot, int n, int pos, int from, int to) override {
    if (calls_left == 0) inner_->run_layers(slot, n, pos, from, (from + to) / 2);
    count();
    inner_->run_layers(slot, n, pos, from, to);
  }
  void logits(int slot, int n, float* out) override {
    count();
    inner_->logits(slot, n, out);
  }
  void prefill(std::span<const int32_t> tokens, bool (*progress)(void*, int),
               void* context) override {
    if (!fail_prefill) return inner_->prefill(tokens, progress, context);
    const int half = static_cast<int>(tokens.size() / 2);
    inner_->prefill(tokens.first(half), progress, context);
    inner_->embed(0, tokens[half]);
    inner_->run_layers(0, 1, inner_->kv_len(1), 1, kLayers / 2);
    throw Fault();
  }

 private:
  void count() {
    if (calls_left == 0) throw Fault();
    if (calls_left > 0) --calls_left;
  }
};

}  // namespace

TEST_CASE("an exception costs a round at most: what was emitted stays, the text comes out again") {
  FailingBackend engine(backend());
  const std::vector<int32_t> prompt = token_ids(9, 97);
  std::vector<int32_t> text = prompt;  // prompt and what was emitted
  GenerateOptions plain_options;
  plain_options.max_tokens = 12;
  Session plain(engine, greedy());
  plain.generate(prompt, plain_options);
  const std::vector<int32_t> want(plain.tokens().begin(), plain.tokens().end());

  // Rows leave in turn at 2, 4 and nowhere, every fourth with a wrong token.
  ForcedHead head([&](const Round& round) {
    const size_t at = round.history(round.newest()).size();
    const int32_t right = at < want.size() ? want[at] : 0;
    return ForcedExit{static_cast<int>(at % 3) * 2, at % 4 == 0 ? (right + 1) % 97 : right};
  });
  SpecBound speculator(head, figure_params(), kLayers);
  enum Where { kPrefill, kCall, kToken, kRound };
  const auto fails = [&](Where where, int n) {
    engine.truncate(0);
    Session session(engine, greedy());
    session.set_speculator(&speculator);
    GenerateOptions options = plain_options;
    text = prompt;
    options.on_token = [&](const TokenEvent& event) {
      text.push_back(event.token);
      if (where == kToken && n-- == 0) throw Fault();
    };
    options.on_round = [&](const RoundEvent&) {
      if (where == kRound && n-- == 0) throw Fault();
    };
    engine.fail_prefill = where == kPrefill;
    engine.calls_left = where == kCall ? n : -1;
    bool failed = false;
    try {
      session.generate(prompt, options);
    } catch (const Fault&) {
      failed = true;
    }
    engine.fail_prefill = false;
    engine.calls_left = -1;
    INFO("where ", where, ", call ", n);
    CHECK(std::vector<int32_t>(session.tokens().begin(), session.tokens().end()) == text);
    if (failed) {
      session.generate(prompt, plain_options);
      CHECK(std::vector<int32_t>(session.tokens().begin(), session.tokens().end()) == want);
    }
    return failed;
  };
  CHECK(fails(kPrefill, 0));
  for (const auto& [where, at_least] : {std::pair(kCall, 30), {kToken, 12}, {kRound, 4}}) {
    int n = 0;
    while (fails(where, n)) ++n;
    CHECK(n >= at_least);
    CHECK(text == want);  // without a fault
  }
}

TEST_CASE("the plain rate is the median of its newest rounds, and tells how many those are") {
  PlainRate rate;
  CHECK(rate.rounds() == 0);
  CHECK(rate.seconds_per_token() == 0);
  for (int i = 0; i < 14; ++i) rate.add(1'000'000'000);
  CHECK(rate.rounds() == 14);
  for (int i = 0; i < 8; ++i) rate.add(2'000'000'000);
  CHECK(rate.rounds() == 15);
  CHECK(rate.seconds_per_token() == 2);  // 7 old ones are left
  for (int i = 0; i < 15; ++i) rate.add(3'000'000'000);
  CHECK(rate.rounds() == 15);
  CHECK(rate.seconds_per_token() == 3);
}

TEST_CASE("a reply that is only its end token has a time to first token, an aborted one none") {
  const auto engine = backend();
  const std::vector<int32_t> prompt = token_ids(9, 97);
  Session session(*engine, greedy());
  GenerateOptions options;
  options.is_end = [](int32_t) { return true; };
  const GenerateStats stats = session.generate(prompt, options);
  CHECK(stats.generated_tokens == 0);
  CHECK(stats.ttft_seconds.value_or(0) > 0);
  const std::atomic<bool> stop = true;
  options.abort = &stop;
  CHECK(!session.generate(prompt, options).ttft_seconds);
}

}  // namespace round_test
