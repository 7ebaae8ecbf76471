// The tree's caution: how much a reply drafts before drafts have gained anything in it.
#include <doctest/doctest.h>

#include <span>
#include <vector>

#include "decode/generate.h"
#include "drafters/forced_head.h"
#include "drafters/row_budget.h"
#include "drafters/specbound.h"
#include "drafters/tree_speculator.h"
#include "tests/bench/recorded_text.h"
#include "tree_player.h"

namespace tree_caution_test {

using namespace specbound;
using namespace specbound::test;
using namespace specbound::test::tree_rows;

TEST_CASE("caution: a row must be worth less of its cost the more a reply has gained") {
  Caution caution;
  const double first = caution.margin(), last = first / 3;
  CHECK(first == doctest::Approx(3.6));
  caution.gave(1, 1.5);  // a wrong draft, which cost half a pass
  CHECK(caution.margin() == doctest::Approx(last * (1 + 2 + 0.45)));
  caution.gave(2, 1.5);  // a right one
  CHECK(caution.margin() == doctest::Approx(last * (1 + 2 - 0.15)));
  caution.gave(8, 4.5);
  CHECK(caution.margin() == doctest::Approx(last));
  Caution plain;  // by its length
  for (int token = 0; token < 39; ++token) plain.gave(1, 1);
  CHECK(plain.margin() > last);
  for (int token = 0; token < 2; ++token) plain.gave(1, 1);
  CHECK(plain.margin() == doctest::Approx(last));
}

TEST_CASE("tree: a reply in which nothing repeats drafts hardly, one that repeats soon does") {
  // Each token stands in the prompt once: what followed it there is a guess of one chance in three.
  constexpr int kTokens = 40;
  std::vector<int32_t> prompt, same, other;
  for (int i = 0; i < kTokens; ++i) {
    prompt.push_back(1 + i);
    same.push_back(1 + i);
    other.push_back(1 + i * 7 % kTokens);  // no two that follow each other in the prompt
  }
  RowCosts costs;
  for (int rows = 1; rows <= kMaxRows; ++rows) costs.start[rows] = 1 + 0.15 * (rows - 1);
  const auto drafts = [&](std::span<const int32_t> reply) {
    TreeSpeculator tree(nullptr, nullptr, 8, true);
    tree.set_costs(costs);
    std::vector<int32_t> text = prompt;
    text.insert(text.end(), reply.begin(), reply.end());
    bench::RecordedText backend(kTokens + 1, static_cast<int>(text.size()) + 1);
    backend.assign(text);
    Session session(backend, Sampler(SamplingParams{.temperature = 0}));
    session.set_speculator(&tree);
    GenerateOptions options;
    options.max_tokens = kTokens;
    int drafted = 0;
    options.on_round = [&](const RoundEvent& round) {
      drafted += static_cast<int>(round.rows.size()) - 1;
    };
    session.generate(prompt, options);
    return drafted;
  };
  CHECK(drafts(other) < 3);
  CHECK(drafts(same) > kTokens / 2);
}

TEST_CASE("tree: a pause while drafts are made, as to read a prompt, does not end them") {
  ForcedHead head([](const Round&) { return ForcedExit{}; });
  SpecBoundParams params;
  params.check_layers = {0};
  SpecBound heads(head, params, tree_rows::kLayers);
  TreeSpeculator tree(&heads, nullptr, kMaxRows, true);
  const RowCosts costs = costing(0.15);
  Text prompt;
  for (int i = 0; i < 24; ++i) prompt.push_back(i % 12);
  Player player(tree, costs, prompt);
  double pause = 0;  // seconds
  player.clock = [&](RoundEvent& round) {
    const double pass = costs.pass(static_cast<int>(round.rows.size()), 0);
    round.ns[static_cast<size_t>(Phase::kVerify)] = static_cast<int64_t>(1e9 * pass);
    round.ns[static_cast<size_t>(Phase::kCheck)] = static_cast<int64_t>(1e9 * pause);
  };
  const auto repeat = [](const Round& round, int slot) {
    return static_cast<int32_t>(round.history(slot).size() % 12);
  };
  player.lost(8, repeat);
  REQUIRE(tree.costs().scaled());
  pause = 50;
  player.lost(1, repeat);
  pause = 0;
  CHECK(player.lost(4, repeat) < -4);
}

TEST_CASE("tree: a guesser is not asked where a reply has lost too much to spend a row on it") {
  const Text prompt = token_ids(8, kVocab, 3);
  ForcedHead head([](const Round&) { return ForcedExit{0, 1, 0.995f}; });
  SpecBoundParams params;
  params.check_layers = {0};
  SpecBound heads(head, params, tree_rows::kLayers);
  const auto engine = model().backend(best_isa(), 1);
  for (const int losing : {0, 10}) {  // rounds of 16 rows that gave one token
    TreeSpeculator tree(&heads, nullptr, kMaxRows, true);
    Player player(tree, costing(0.25), prompt);
    const std::vector<RowEvent> rows(kMaxRows);
    const std::vector<TokenEvent> tokens(1);
    RoundEvent round{};
    round.rows = rows;
    round.tokens = tokens;
    for (int i = 0; i < losing; ++i) tree.accept(*engine, round);
    player.lost(1, [](const Round&, int) { return 2; });
    CHECK((tree.control().asked > 0) == (losing == 0));
    CHECK((tree.control().declined > 0) == (losing > 0));
  }
}

TEST_CASE("tree: layers that drafting ran count once") {
  // Rounds of four rows, the first of which is right, of which two layers of eight ran before.
  ForcedHead head([](const Round&) { return ForcedExit{}; });
  SpecBoundParams params;
  params.check_layers = {0};
  SpecBound heads(head, params, tree_rows::kLayers);
  const auto engine = model().backend(best_isa(), 1);
  const auto gained = [&](Phase phase) {
    TreeSpeculator tree(&heads, nullptr, kMaxRows, true);
    tree.set_costs(costing(0.25));
    const std::vector<RowEvent> rows(4);
    const std::vector<TokenEvent> tokens(2);
    const std::vector<LayerPass> passes = {{1, 2, 0, 4, phase}, {3, 8, 0, 4, Phase::kVerify}};
    RoundEvent round{};
    round.rows = rows;
    round.tokens = tokens;
    round.passes = passes;
    const double before = tree.caution().margin();
    tree.accept(*engine, round);
    return (before - tree.caution().margin()) / Caution::kMargin;
  };
  CHECK(gained(Phase::kVerify) == doctest::Approx(2.1 - 1.75));
  CHECK(gained(Phase::kDraft) == doctest::Approx(2.1 - 0.75 * 1.75));
}

}  // namespace tree_caution_test
