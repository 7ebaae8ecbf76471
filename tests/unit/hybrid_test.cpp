// SpecBound and then prompt lookup: which layers run which rows; that the text is the plain one.
#include "decode/hybrid.h"

#include <doctest/doctest.h>

#include "decode/forced_head.h"
#include "decode/generate.h"
#include "decode/side_by_side.h"
#include "decode/specbound.h"
#include "engine_rig.h"
#include "seen_round.h"

namespace hybrid_test {

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr int kLayers = 8;
constexpr auto kDraft = Phase::kDraft, kVerify = Phase::kVerify;

const TinyModel& model() {
  static const TinyModel model(q8_0_spec(kLayers));
  return model;
}

// Eight tokens, and the first three of them again: prompt lookup goes on with the fourth.
std::vector<int32_t> echo() {
  return {11, 22, 33, 44, 55, 66, 77, 88, 11, 22, 33};
}

// Rows leave where the head lets them; the first one from outside costs so many tokens, and so do
// the others unless they have a price of their own.
class Priced final : public DraftPolicy {
 public:
  explicit Priced(double first, int width = 5) : Priced(first, first, width) {}
  Priced(double first, double others, int width) : first_(first), others_(others), width_(width) {}
  int width() const override { return width_; }
  void begin() override {}
  void start() override {}
  bool should_check(int) override { return true; }
  bool should_exit(int, float, bool confident) override { return confident; }
  double survival() const override { return 1; }
  double outside_cost(int, int outside) const override { return outside ? others_ : first_; }
  void learn(const RoundEvent&) override {}
  Control control() const override { return {}; }

 private:
  double first_, others_;
  int width_;
};

// The first round of a reply to echo(): rows leave at `exits` in turn (0: nowhere) with the token
// that the echo goes on with.
SeenRound first_round(std::vector<int> exits, const std::function<bool(int32_t)>& is_end = nullptr,
                      DraftPolicy* policy = nullptr) {
  const auto engine = model().backend(best_isa(), 1);
  size_t next = 0;
  ForcedHead head([&](const Round& round) {
    const size_t at = round.history(round.newest()).size();
    return ForcedExit{next < exits.size() ? exits[next++] : 0, echo()[at % 8]};
  });
  SpecBoundParams params;
  params.w_max = 5;
  params.check_layers = {2, 4};
  SpecBound first(head, params, kLayers);
  first.set_policy(policy);
  HybridSpeculator hybrid(first, 3);
  SamplingParams sampling;
  sampling.temperature = 0;
  Session session(*engine, Sampler(sampling));
  session.set_speculator(&hybrid);
  GenerateOptions options;
  options.max_tokens = 12;
  options.is_end = is_end;
  std::vector<SeenRound> seen;
  options.on_round = [&](const RoundEvent& round) { seen.emplace_back(round); };
  session.generate(echo(), options);
  return seen.at(0);
}

}  // namespace

TEST_CASE("hybrid: behind a difficult root all rows are looked up, and run in verification alone") {
  const SeenRound round = first_round({0});
  CHECK(round.draft_end == DraftEnd::kWidth);
  CHECK(round.tokens == std::vector<int32_t>{33, 44, 55, 66, 77});
  CHECK(round.exits == std::vector<int>{0, 0, 0, 0, kNoDraft});
  CHECK(round.passes == std::vector<LayerPass>{{1, 2, 0, 1, kDraft},
                                               {3, 4, 0, 1, kDraft},
                                               {1, 4, 1, 4, kVerify},
                                               {5, 8, 0, 5, kVerify}});
}

TEST_CASE("hybrid: lookup goes on from what SpecBound has drafted") {
  const SeenRound round = first_round({2, 4, 0});
  CHECK(round.draft_end == DraftEnd::kWidth);
  CHECK(round.tokens == std::vector<int32_t>{33, 44, 55, 66, 77});
  CHECK(round.exits == std::vector<int>{2, 4, 0, 0, kNoDraft});
  CHECK(round.passes == std::vector<LayerPass>{{1, 2, 0, 1, kDraft},
                                               {1, 2, 1, 1, kDraft},
                                               {3, 4, 0, 2, kDraft},
                                               {1, 2, 2, 1, kDraft},
                                               {3, 4, 2, 1, kDraft},
                                               {1, 4, 3, 2, kVerify},
                                               {5, 8, 0, 5, kVerify}});
}

TEST_CASE("hybrid: a full round, and a draft that would end the reply, leave nothing to look up") {
  CHECK(first_round({2, 2, 2, 2}).exits == std::vector<int>{2, 2, 2, 2, kNoDraft});
  const SeenRound own = first_round({2, 2}, [](int32_t id) { return id == 55; });
  CHECK(own.draft_end == DraftEnd::kReplyEnd);
  CHECK(own.tokens == std::vector<int32_t>{33, 44});
  const SeenRound found = first_round({2, 0}, [](int32_t id) { return id == 66; });
  CHECK(found.draft_end == DraftEnd::kReplyEnd);
  CHECK(found.tokens == std::vector<int32_t>{33, 44, 55});
}

TEST_CASE("hybrid: with a policy only what is expected to pay is looked up") {
  // At first each row is right with chance 1/2: 0.5, 0.25, 0.125 and 0.0625 tokens.
  Priced cheap(0.1), dear(0.3), too_dear(0.6);
  CHECK(first_round({0}, nullptr, &cheap).tokens == std::vector<int32_t>{33, 44, 55, 66});
  const SeenRound one = first_round({0}, nullptr, &dear);
  CHECK(one.tokens == std::vector<int32_t>{33, 44});
  CHECK(one.draft_end == DraftEnd::kWidth);
  CHECK(first_round({2, 0}, nullptr, &dear).tokens == std::vector<int32_t>{33, 44, 55});
  const SeenRound none = first_round({0}, nullptr, &too_dear);
  CHECK(none.tokens == std::vector<int32_t>{33});
  CHECK(none.draft_end == DraftEnd::kDifficult);
  // A dear first row pays by those behind it, where there is room for them.
  Priced steep(0.7, 0, 5), steep_and_narrow(0.7, 0, 2);
  CHECK(first_round({0}, nullptr, &steep).tokens.size() == 5);
  CHECK(first_round({0}, nullptr, &steep_and_narrow).tokens.size() == 1);
}

TEST_CASE("hybrid: a lookup behind own drafts is counted by the run that led to it") {
  const auto engine = model().backend(best_isa(), 1);
  GenerateOptions options;
  options.max_tokens = 3;
  int right = 0, wrong = 0;
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    const std::vector<int32_t> prompt = token_ids(60, 97, seed);
    Session plain(*engine, Sampler(greedy_sampling()));
    plain.generate(prompt, options);
    const std::vector<int32_t> text(plain.tokens().begin(), plain.tokens().end());
    // The draft is right; where its token was before in the prompt, two rows are looked up at most.
    const std::vector<int32_t> drafted(text.begin(), text.begin() + 61);
    const auto place = std::find(prompt.rbegin(), prompt.rend(), drafted.back());
    if (place == prompt.rend() || place == prompt.rbegin()) continue;
    const auto behind = place.base();
    const auto ends = std::mismatch(drafted.rbegin(), drafted.rend(),
                                    std::make_reverse_iterator(behind), prompt.rend());
    const int run = static_cast<int>(ends.first - drafted.rbegin());

    int rounds = 0;
    ForcedHead head([&](const Round& round) {
      return rounds == 0 && round.rows() == 1 ? ForcedExit{2, drafted.back()} : ForcedExit{};
    });
    SpecBoundParams params;
    params.check_layers = {2};
    SpecBound first(head, params, kLayers);
    Priced one(0.3, 3);
    first.set_policy(&one);
    HybridSpeculator hybrid(first, 1);
    Session session(*engine, Sampler(greedy_sampling()));
    session.set_speculator(&hybrid);
    options.on_round = [&](const RoundEvent& round) {
      if (++rounds > 1) return;
      REQUIRE(round.rows.size() == 3);
      const bool is = *behind == text[61];
      ++(is ? right : wrong);
      for (const int other : {1, 2, 3, 4}) {
        CHECK(hybrid.odds().chance(other) == doctest::Approx(other != run ? 0.5
                                                             : is         ? 0.6
                                                                          : 0.4)
                                                 .epsilon(0.001));
      }
    };
    session.generate(prompt, options);
    options.on_round = nullptr;
  }
  CHECK(wrong > 10);
}

TEST_CASE("hybrid: how often lookups are right is learned by the length of the run, and fades") {
  LookupOdds odds;
  CHECK(odds.chance(1) == 0.5);
  for (int i = 0; i < 200; ++i) {
    odds.learn(1, false);
    odds.learn(17, true);
  }
  CHECK(odds.chance(1) < 0.05);
  CHECK(odds.chance(2) == 0.5);
  CHECK(odds.chance(16) == 0.5);
  CHECK(odds.chance(17) > 0.95);
  CHECK(odds.chance(1000) == odds.chance(17));
  for (int i = 0; i < 20; ++i) odds.learn(1, true);
  CHECK(odds.chance(1) > 0.2);  // the newest weigh most
  for (int i = 0; i < 20000; ++i) odds.fade();
  CHECK(odds.chance(17) == doctest::Approx(0.5).epsilon(0.01));
}

TEST_CASE("hybrid: with a policy lookups that are wrong end, and the text stays") {
  const auto engine = model().backend(best_isa(), 1);
  SamplingParams sampling;  // of 97 tokens hardly any comes where it came before
  sampling.temperature = 4;
  sampling.top_k = 0;
  sampling.top_p = 1;
  sampling.seed = 5;
  GenerateOptions options;
  options.max_tokens = 150;
  Session plain(*engine, Sampler(sampling));
  plain.generate(echo(), options);
  const std::vector<int32_t> text(plain.tokens().begin(), plain.tokens().end());

  ForcedHead nowhere([](const Round&) { return ForcedExit{}; });
  SpecBoundParams params;
  params.check_layers = {2};
  SpecBound first(nowhere, params, kLayers);
  Priced priced(0.3);
  first.set_policy(&priced);
  HybridSpeculator hybrid(first, 3);
  Session session(*engine, Sampler(sampling));
  session.set_speculator(&hybrid);
  const Counters counters = session.generate(echo(), options).counters;
  CHECK(std::vector<int32_t>(session.tokens().begin(), session.tokens().end()) == text);
  CHECK(counters.rounds > 130);
  CHECK(counters.drafted_tokens > 2);
  CHECK(counters.drafted_tokens < 30);
}

TEST_CASE("hybrid: the text and every bit are the plain ones") {
  const auto engine = model().backend(best_isa(), 1);
  GenerateOptions options;
  options.max_tokens = 40;
  int64_t early = 0, looked_up = 0;
  for (const float temperature : {0.0f, 0.7f, 1.0f}) {
    for (const uint64_t seed : {1, 2, 3}) {
      SamplingParams sampling;
      sampling.temperature = temperature;
      sampling.seed = seed;
      SpecBoundParams params;
      params.w_max = 6;
      params.check_layers = {1, 3, 6};
      std::optional<ForcedHead> head;
      std::optional<SpecBound> first;
      std::optional<HybridSpeculator> hybrid;
      DifferentialBackend differential(*engine, 64, 48);
      const SideBySide result = decode_side_by_side(
          *engine, &differential, sampling, echo(), options, [&](std::span<const int32_t> text) {
            head.emplace(forced_by_chance(text, params.check_layers, 97, {0.5, 0.8}, seed));
            first.emplace(*head, params, kLayers);
            hybrid.emplace(*first, 3);
            return &*hybrid;
          });
      if (result.difference) FAIL_CHECK(describe(*result.difference));
      const Counters& counters = result.speculative.counters;
      const int64_t outside = counters.accepted_at.empty() ? 0 : counters.accepted_at[0];
      early += counters.accepted_tokens - outside;
      looked_up += outside;
    }
  }
  CHECK(early > 0);
  CHECK(looked_up > 0);
}

TEST_CASE("n-grams: drafts behind the text are looked up in the text alone") {
  TinyRandom random(5);
  int found = 0;
  for (int step = 0; step < 2000; ++step) {
    std::vector<int32_t> text(1 + random.next() % 30);
    for (int32_t& token : text) token = static_cast<int32_t>(random.next() % 5);
    NgramIndex index(3);
    index.assign(text);
    const int size = static_cast<int>(text.size());
    for (int drafts = random.next() % 4; drafts > 0; --drafts) {
      text.push_back(static_cast<int32_t>(random.next() % 5));
    }
    int want = -1;
    for (int n = std::min<int>(3, text.size()); n >= 1 && want < 0; --n) {
      for (int place = size - 1; place >= n && want < 0; --place) {
        if (std::equal(text.end() - n, text.end(), text.begin() + (place - n))) want = place;
      }
    }
    REQUIRE(index.find(text) == want);
    found += want >= 0;
  }
  CHECK(found > 1000);
}

}  // namespace hybrid_test
