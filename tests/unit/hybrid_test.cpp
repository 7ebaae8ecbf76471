// SpecBound and then prompt lookup: which layers run which rows; that the text is the plain one.
#include "decode/hybrid.h"

#include <doctest/doctest.h>

#include <utility>

#include "decode/forced_head.h"
#include "decode/generate.h"
#include "decode/side_by_side.h"
#include "decode/specbound.h"
#include "engine_rig.h"

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

struct Seen {
  DraftEnd draft_end;
  std::vector<int32_t> rows;
  std::vector<int> exits;
  std::vector<LayerPass> passes;
};

// The first round of a reply to echo(): rows leave at `exits` in turn (0: nowhere) with the token
// that the echo goes on with.
Seen first_round(std::vector<int> exits, const std::function<bool(int32_t)>& is_end = nullptr) {
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
  HybridSpeculator hybrid(first, 3);
  SamplingParams sampling;
  sampling.temperature = 0;
  Session session(*engine, Sampler(sampling));
  session.set_speculator(&hybrid);
  GenerateOptions options;
  options.max_tokens = 12;
  options.is_end = is_end;
  std::vector<Seen> seen;
  options.on_round = [&](const RoundEvent& round) {
    Seen one{round.draft_end, {}, {}, {round.passes.begin(), round.passes.end()}};
    for (const RowEvent& row : round.rows) {
      one.rows.push_back(row.token);
      one.exits.push_back(row.exit_layer);
    }
    seen.push_back(std::move(one));
  };
  session.generate(echo(), options);
  return seen.at(0);
}

}  // namespace

TEST_CASE("hybrid: behind a difficult root all rows are looked up, and run in verification alone") {
  const Seen round = first_round({0});
  CHECK(round.draft_end == DraftEnd::kWidth);
  CHECK(round.rows == std::vector<int32_t>{33, 44, 55, 66, 77});
  CHECK(round.exits == std::vector<int>{0, 0, 0, 0, kNoDraft});
  CHECK(round.passes == std::vector<LayerPass>{{1, 2, 0, 1, kDraft},
                                               {3, 4, 0, 1, kDraft},
                                               {1, 4, 1, 4, kVerify},
                                               {5, 8, 0, 5, kVerify}});
}

TEST_CASE("hybrid: lookup goes on from what SpecBound has drafted") {
  const Seen round = first_round({2, 4, 0});
  CHECK(round.draft_end == DraftEnd::kWidth);
  CHECK(round.rows == std::vector<int32_t>{33, 44, 55, 66, 77});
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
  const Seen own = first_round({2, 2}, [](int32_t id) { return id == 55; });
  CHECK(own.draft_end == DraftEnd::kReplyEnd);
  CHECK(own.rows == std::vector<int32_t>{33, 44});
  const Seen found = first_round({2, 0}, [](int32_t id) { return id == 66; });
  CHECK(found.draft_end == DraftEnd::kReplyEnd);
  CHECK(found.rows == std::vector<int32_t>{33, 44, 55});
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
      Witness witness(*engine, 64, 48);
      const SideBySide result = decode_side_by_side(
          *engine, &witness, sampling, echo(), options, [&](std::span<const int32_t> text) {
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
