// The tree of all sources: which rows it drafts under which costs, and when exit heads are
// asked.
#include "drafters/tree_speculator.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "decode/generate.h"
#include "drafters/asking.h"
#include "drafters/draft_model.h"
#include "drafters/forced_head.h"
#include "drafters/specbound.h"
#include "engine_rig.h"
#include "forwarding_backend.h"
#include "tree_player.h"
#include "tree_rows.h"

namespace tree_speculator_test {

using namespace specbound;
using namespace specbound::test;
using namespace specbound::test::tree_rows;

TEST_CASE("tree: what repeats is drafted row behind row, as far as it pays") {
  TreeSpeculator cheap(nullptr, nullptr, 5, true);
  cheap.set_costs(costing(0.01));
  CHECK(first_round(cheap, kEcho) ==
        std::vector<Row>{{55, -1, kNoDraft}, {66, 0, 0}, {77, 1, 0}, {88, 2, 0}, {11, 3, 0}});
  TreeSpeculator dear(nullptr, nullptr, 5, true);
  dear.set_costs(costing(1.01));  // more than a token
  DraftEnd end = DraftEnd::kPlain;
  CHECK(first_round(dear, kEcho, -1, &end) == std::vector<Row>{{55, -1, kNoDraft}});
  CHECK(end == DraftEnd::kDifficult);  // it counts among the rounds that could draft
  TreeSpeculator unmeasured(nullptr, nullptr, 16, false);
  unmeasured.set_costs(costing(1.01));
  CHECK(first_round(unmeasured, kEcho).size() > 8);
}

TEST_CASE("tree: rows go on over a step in the costs where enough of them pay together") {
  // The second row costs 0.3 of a plain round, those behind it nothing; from the sixth on a lot.
  RowCosts costs;
  for (int rows = 1; rows <= kMaxRows; ++rows) costs.start[rows] = 1;
  for (int rows = 2; rows <= kMaxRows; ++rows) costs.start[rows] = rows < 6 ? 1.3 : 9;
  TreeSpeculator tree(nullptr, nullptr, kMaxRows, true);
  tree.set_costs(costs);
  CHECK(first_round(tree, kEcho).size() == 5);
  // Where there is but one row to come, it goes again.
  const Text once = {11, 22, 33, 44, 90, 22, 33, 44};
  for (int end : {-1, 22}) {
    TreeSpeculator fresh(nullptr, nullptr, kMaxRows, true);
    fresh.set_costs(costs);
    const std::vector<Row> rows = first_round(fresh, once, end);
    CHECK(rows.size() == (end < 0 ? 5 : 1));
  }
}

TEST_CASE("tree: several continuations are siblings, the likelier one first") {
  TreeSpeculator tree(nullptr, nullptr, 5, true);
  tree.set_costs(costing(0.001));
  const std::vector<Row> rows = first_round(tree, kFork);
  REQUIRE(rows.size() == 5);
  std::vector<int32_t> roots;
  for (const Row& row : rows) {
    if (row.parent == 0) roots.push_back(row.token);
  }
  std::ranges::sort(roots);
  CHECK(roots == std::vector<int32_t>{3, 4});
  for (const Row& row : rows) {
    if (row.token == 30) CHECK(rows[row.parent].token == 3);
    if (row.token == 40) CHECK(rows[row.parent].token == 4);
  }
}

TEST_CASE("tree: without siblings it is a chain") {
  TreeSpeculator tree(nullptr, nullptr, 5, true);
  tree.set_costs(costing(0.001));
  tree.draft_siblings(false);
  const std::vector<Row> rows = first_round(tree, kFork);
  REQUIRE(rows.size() > 2);
  for (size_t i = 0; i < rows.size(); ++i) CHECK(rows[i].parent == static_cast<int>(i) - 1);
}

TEST_CASE("tree: nothing is drafted that would end the reply, and nothing without a match") {
  TreeSpeculator tree(nullptr, nullptr, 5, true);
  tree.set_costs(costing(0.001));
  CHECK(first_round(tree, kEcho, 77) == std::vector<Row>{{55, -1, kNoDraft}, {66, 0, 0}});
  CHECK(first_round(tree, {1, 2, 3, 4, 5}).size() == 1);
}

namespace {

// Says 50 behind kFork and 51 behind that, with this confidence, and counts.
ForcedHead two_guesses(int& asked, float confidence) {
  return ForcedHead([&asked, confidence](const Round& round) {
    ++asked;
    const size_t depth = round.history(round.newest()).size();
    return ForcedExit{depth < kFork.size() + 2 ? 2 : kNoDraft, depth == kFork.size() ? 50 : 51,
                      confidence};
  });
}

SpecBoundParams early_exits() {
  SpecBoundParams params;
  params.w_max = 3;
  params.check_layers = {2, 4};
  return params;
}

}  // namespace

TEST_CASE("tree: what heads guess takes its place among lookups by its chance") {
  int asked = 0;
  for (const bool sure : {true, false}) {
    ForcedHead head = two_guesses(asked, sure ? 0.995f : 0.05f);
    SpecBound heads(head, early_exits(), kLayers);
    TreeSpeculator tree(&heads, nullptr, 4, true);
    tree.set_costs(costing(0.003));
    const std::vector<Row> rows = first_round(tree, kFork);
    REQUIRE(rows.size() == 4);
    if (sure) {
      CHECK(rows[1] == Row{50, 0, 2});
      CHECK(rows[2] == Row{51, 1, 2});
    }
    const auto guessed = [](const Row& row) { return row.token == 50; };
    CHECK(std::ranges::count_if(rows, guessed) == (sure ? 1 : 0));
  }
  CHECK(asked > 0);
}

TEST_CASE("tree: heads are not asked where lookup is sure, nor where asking takes too long") {
  int asked = 0;
  ForcedHead head = two_guesses(asked, 0.995f);
  // Twice eight tokens: the match is long.
  Text sure = kEcho;
  sure.insert(sure.end(), {66, 77, 88, 11, 22, 33, 44, 55, 66, 77, 88});
  SpecBound heads(head, early_exits(), kLayers);
  TreeSpeculator tree(&heads, nullptr, 6, true);
  tree.set_costs(costing(0.001));
  const std::vector<Row> rows = first_round(tree, sure);
  REQUIRE(rows.size() == 6);
  for (size_t slot = 1; slot < rows.size(); ++slot) CHECK(rows[slot].drafted_at == 0);
  CHECK(tree.control().declined > 0);

  // To run seven of eight layers for a guess pays where it is nearly sure to be right only.
  SpecBoundParams deep = early_exits();
  deep.check_layers = {7};
  SpecBound dear(head, deep, kLayers);
  TreeSpeculator thrifty(&dear, nullptr, 6, true);
  thrifty.set_costs(costing(0.001));
  asked = 0;
  first_round(thrifty, kFork);
  CHECK(asked == 0);
}

TEST_CASE("tree: heads that draft by their own rule come first, lookups beside and behind") {
  int asked = 0;
  ForcedHead head = two_guesses(asked, 0.6f);
  SpecBound heads(head, early_exits(), kLayers);
  for (const bool measured : {false, true}) {
    TreeSpeculator tree(&heads, nullptr, 6, measured);
    tree.set_guesser(&heads, true);
    tree.set_costs(costing(0.001));
    const std::vector<Row> rows = first_round(tree, kFork);
    REQUIRE(rows.size() == 6);
    CHECK(rows[1] == Row{50, 0, 2});
    CHECK(rows[2] == Row{51, 1, 2});
    for (size_t slot = 3; slot < rows.size(); ++slot) {
      CHECK(rows[slot].drafted_at == 0);
      CHECK((rows[slot].parent == 0 || rows[slot].parent >= 3));
    }
  }
}

TEST_CASE("guess: others share what its confidence leaves, as the noise has it") {
  const std::vector<float> z = {1, 3, 2, NAN, 0.5f};
  const DrawPlace place{.seed = 7, .reply = 1, .pos = 30};
  for (const float temperature : {0.0f, 0.7f}) {
    for (const Text& ids : {Text{}, Text{10, 11, 12, 13, 14}}) {
      Guesser::Guess guess{.token = ids.empty() ? 1 : 11, .confidence = 0.6f};
      guess.add_others(z, ids, temperature, place);
      REQUIRE(guess.others == 3);
      double shares = 0, before = 1;
      std::vector<double> scores;
      for (int i = 0; i < guess.others; ++i) {
        const auto [token, share] = guess.other[i];
        const double score = z[ids.empty() ? token : token - 10];
        scores.push_back(temperature > 0 ? score / temperature + gumbel(place, token) : score);
        CHECK(share <= before);
        CHECK(share / guess.other[0].share == doctest::Approx(std::exp(scores[i] - scores[0])));
        shares += before = share;
      }
      CHECK(shares == doctest::Approx(0.4));
    }
  }
  Guesser::Guess nothing;
  nothing.add_others({}, {}, 0, place);
  CHECK(nothing.others == 0);
  Guesser::Guess many;
  many.add_others(std::vector<float>(100, 1.0f), {}, 0, place);
  CHECK(many.others == Guesser::Guess::kMostOthers);
}

namespace {

// Names three tokens behind every row.
class Several final : public Guesser {
 public:
  const char* name() const override { return "several"; }
  int width() const override { return kMaxRows; }
  DraftEnd draft(Round&) override { return DraftEnd::kPlain; }
  void accept(Backend&, const RoundEvent&) override {}
  int stages() const override { return 1; }
  double assumed_cost(int) const override { return 0.01; }
  bool ready(const Round&) const override { return true; }
  std::optional<Guess> guess(Round& round, int) override {
    const int32_t token = 60 + 3 * round.newest();
    Guess guess{.token = token, .confidence = 0.6f};
    guess.other[guess.others++] = {token + 1, 0.3f};
    guess.other[guess.others++] = {token + 2, 0.02f};
    return guess;
  }
};

}  // namespace

TEST_CASE("tree: what a guess may be instead stands beside it where that pays") {
  Several several;
  TreeSpeculator tree(&several, nullptr, kMaxRows, true);
  tree.set_costs(costing(0.05));
  const std::vector<Row> rows = first_round(tree, {1, 2, 3});
  REQUIRE(rows.size() >= 4);
  CHECK(rows[1] == Row{60, 0, 0});
  CHECK(rows[2] == Row{63, 1, 0});
  CHECK(std::ranges::count(rows, Row{61, 0, 0}) == 1);
  CHECK(std::ranges::count(rows, Row{62, 0, 0}) == 0);
}

TEST_CASE("asking: answers that bring nothing end it, and time lets it be tried again") {
  Asking asking({0.1, 0.5});
  REQUIRE(asking.stages() == 2);
  CHECK(asking.cost(0) == 0.1);
  CHECK(asking.gain(0, 0) > 0.3);
  CHECK(asking.gain(0, 0.95) < 0.05);
  for (int i = 0; i < 100; ++i) asking.learn(0, 0.1, 0);
  CHECK(asking.gain(0, 0.1) < 0.02);
  CHECK(asking.gain(0, 0.5) == Asking({0.1}).gain(0, 0.5));
  CHECK(asking.gain(1, 0.1) == Asking({0.1}).gain(0, 0.1));
  for (int i = 0; i < 2000; ++i) asking.fade();
  CHECK(asking.gain(0, 0.1) > 0.2);
  for (int i = 0; i < 20; ++i) asking.took(0, 0.2);
  CHECK(asking.cost(0) == doctest::Approx(0.2).epsilon(0.1));
  asking.took(0, 100);  // it was interrupted
  CHECK(asking.cost(0) < 0.25);
  for (int i = 0; i < 200; ++i) asking.took(0, 0.05);
  CHECK(asking.cost(0) == doctest::Approx(0.05).epsilon(0.1));
  // Where the first answer was, it is tried again too.
  Asking slow({0.4});
  slow.took(0, 100);
  CHECK(slow.cost(0) < 0.7);
  for (int i = 0; i < 100; ++i) slow.took(0, 3);
  CHECK(slow.cost(0) > 1);
  for (int i = 0; i < 200; ++i) slow.fade();
  CHECK(slow.cost(0) < 0.45);
}

TEST_CASE("tree: lookups that were right and are wrong from now on cost less than 20 tokens") {
  for (const double row : {0.05, 0.15, 0.3}) {
    TreeSpeculator tree(nullptr, nullptr, kMaxRows, true);
    Text prompt;
    for (int i = 0; i < 48; ++i) prompt.push_back(i % 12);
    Player player(tree, costing(row), prompt);
    const auto repeat = [](const Round& round, int slot) {
      return static_cast<int32_t>(round.history(slot).size() % 12);
    };
    CHECK(player.lost(12, repeat) < 0);
    // Tokens that stood there before, but never behind this one where a row says so.
    const auto contradict = [](const Round& round, int slot) {
      int32_t token = static_cast<int32_t>(round.history(slot).size() * 7 % 12);
      while (round.child(slot, token) >= 0) token = (token + 1) % 12;
      return token;
    };
    CAPTURE(row);
    CHECK(player.lost(100, contradict) < 20);
    CHECK(player.length() < 256);
  }
}

TEST_CASE("tree: heads that are right are asked on, and those whose rows do not pay are not") {
  const Text truth = token_ids(400, kVocab, 3);
  SpecBoundParams params;
  params.check_layers = {1};
  for (const bool right : {true, false}) {
    ForcedHead head([&](const Round& round) {
      const size_t next = round.history(round.newest()).size();
      const bool so = right || next % 2 == 0;
      return ForcedExit{1, so ? truth[next] : (truth[next] + 1) % kVocab, 0.7f};
    });
    SpecBound heads(head, params, kLayers);
    for (const bool cheap : {true, false}) {
      TreeSpeculator tree(&heads, nullptr, kMaxRows, true);
      Player player(tree, costing(cheap ? 0.01 : 0.8), Text(truth.begin(), truth.begin() + 8));
      const auto next = [&](const Round& round, int slot) {
        return truth[round.history(slot).size()];
      };
      player.lost(20, next);
      const int64_t early = tree.control().asked;
      player.lost(20, next);
      const int64_t all = tree.control().asked, late = all - early;
      CAPTURE(right);
      CAPTURE(cheap);
      if (cheap) CHECK(all > 20);
      if (!right && !cheap) CHECK(late < 20 / 4);  // now and then it is tried again
    }
  }
}

TEST_CASE("tree: what drafting ran does not make passes look cheap") {
  ForcedHead head([](const Round&) { return ForcedExit{}; });
  SpecBound heads(head, early_exits(), kLayers);
  const auto engine = model().backend(best_isa(), 1);
  const auto rows_after = [&](Phase phase) {
    TreeSpeculator tree(&heads, nullptr, kMaxRows, true);
    tree.set_costs(costing(0.15));
    const std::vector<TokenEvent> tokens(1);
    const std::vector<LayerPass> passes = {{1, 2, 0, 1, phase}};
    for (int i = 0; i < 200; ++i) {
      const std::vector<RowEvent> rows(i % 2 == 0 ? 1 : 8);
      RoundEvent round{};
      round.round = 1;
      round.rows = rows;
      round.tokens = tokens;
      round.passes = passes;
      round.ns[static_cast<size_t>(Phase::kVerify)] = 1000000;  // whatever the rows
      tree.accept(*engine, round);
    }
    return first_round(tree, kFork).size();
  };
  CHECK(rows_after(Phase::kDraft) < rows_after(Phase::kVerify));
}

TEST_CASE("tree: an abort while it asks leaves the text as it was") {
  const auto engine = model().backend(best_isa(), 1);
  Session session(*engine, Sampler(SamplingParams{.temperature = 0}));
  GenerateOptions options;
  options.max_tokens = 24;
  const Text prompt = token_ids(9, kVocab, 3);
  session.generate(prompt, options);
  const Text plain(session.tokens().begin(), session.tokens().end());
  std::atomic<bool> abort = false;
  for (int when = 1; when <= 8; ++when) {
    int asked = 0;
    ForcedHead head([&](const Round&) {
      abort = ++asked == when;
      return ForcedExit{2, 1, 0.9f};
    });
    SpecBoundParams params = early_exits();
    SpecBound heads(head, params, kLayers);
    TreeSpeculator tree(&heads, nullptr, 8, true);
    tree.set_costs(costing(0.01));
    session.set_speculator(&tree);
    GenerateOptions aborted = options;
    aborted.abort = &abort;
    const GenerateStats stats = session.generate(prompt, aborted);
    CHECK(stats.stop == (asked >= when ? StopReason::kAborted : StopReason::kLength));
    CHECK(std::ranges::equal(session.tokens(), std::span(plain).first(session.tokens().size())));
    abort = false;
    session.generate(prompt, options);
    CHECK(std::ranges::equal(session.tokens(), plain));
    session.set_speculator(nullptr);
  }
}

TEST_CASE("tree: of a round that is broken off nothing is learnt in the next reply") {
  // Aborts once the rows of a round with drafts have gone through all layers.
  class Breaking final : public ForwardingBackend {
   public:
    using ForwardingBackend::ForwardingBackend;
    void run_layers(int slot, int n, int pos, int from, int to) override {
      ForwardingBackend::run_layers(slot, n, pos, from, to);
      if (n > 1 && to == kLayers) abort = true;
    }
    std::atomic<bool> abort = false;
  };
  for (const bool by_heads : {false, true}) {
    Breaking engine(model().backend(best_isa(), 1));
    int asked = 0, told = 0;
    ForcedHead head = two_guesses(asked, 0.6f);
    SpecBound heads(head, early_exits(), kLayers);
    TreeSpeculator tree(by_heads ? &heads : nullptr, nullptr, 6, true);
    if (by_heads) tree.set_guesser(&heads, true);
    tree.set_costs(costing(0.001));
    tree.set_observer([&](const CandidateOdds::Features&, bool) { ++told; });
    Session session(engine, Sampler(SamplingParams{.temperature = 0}));
    session.set_speculator(&tree);
    GenerateOptions options;
    options.abort = &engine.abort;
    CHECK(session.generate(kEcho, options).stop == StopReason::kAborted);
    CHECK(engine.abort.load());
    engine.abort = false;
    options.max_tokens = 1;
    options.measure_plain = true;  // its round has no drafts
    session.generate(kFork, options);
    CHECK(session.tokens().size() == kFork.size() + 1);
    CHECK(told == 0);
  }
}

TEST_CASE("tree: a draft model is asked, and its guesses are drafted") {
  const TinyModel small(q8_0_spec(1));
  const auto drafter = small.backend(best_isa(), 1);
  DraftModel draft(*drafter, 8, 0.4f, Acceptance::kCoupled);
  TreeSpeculator tree(&draft, nullptr, 8, true);
  tree.set_costs(costing(0.01));
  const auto engine = model().backend(best_isa(), 1);
  int64_t asked = 0, drafted = 0;
  for (const float temperature : {0.0f, 0.8f}) {
    Session session(*engine, Sampler(SamplingParams{.temperature = temperature, .seed = 3}));
    GenerateOptions options;
    options.max_tokens = 40;
    const Text prompt = token_ids(9, kVocab, 5);
    session.generate(prompt, options);
    const Text plain(session.tokens().begin(), session.tokens().end());
    session.set_speculator(&tree);
    const Control before = tree.control();
    const GenerateStats stats = session.generate(prompt, options);
    CHECK(std::ranges::equal(session.tokens(), plain));
    asked += tree.control().asked - before.asked;
    drafted += stats.counters.drafted_tokens;
    session.set_speculator(nullptr);
  }
  CHECK(asked > 0);
  CHECK(drafted > 0);
}

TEST_CASE("tree: where heads take long, rows looked up beside theirs are cheap") {
  ForcedHead head([](const Round&) { return ForcedExit{kNoDraft, 0}; });
  SpecBoundParams params;
  params.check_layers = {2};
  SpecBound first(head, params, kLayers);
  const auto engine = model().backend(best_isa(), 1);
  // Rows that are drafted under many prices behind rounds that each gave four tokens.
  const auto rows_after = [&](double heads_seconds) {
    size_t rows = 0;
    for (double price = 0.02; price < 0.6; price += 0.02) {
      TreeSpeculator tree(&first, nullptr, kMaxRows, true);
      tree.set_guesser(&first, true);
      tree.set_costs(costing(price));
      const std::vector<RowEvent> drafted(4);
      const std::vector<TokenEvent> tokens(4);
      RoundEvent round{};
      round.round = 1;
      round.rows = drafted;
      round.tokens = tokens;
      round.ns[static_cast<size_t>(Phase::kVerify)] = std::llround(1e9 * (1 + 3 * price));
      round.ns[static_cast<size_t>(Phase::kCheck)] = std::llround(1e9 * heads_seconds);
      for (int i = 0; i < 100; ++i) tree.accept(*engine, round);
      rows += first_round(tree, kFork).size();
    }
    return rows;
  };
  CHECK(rows_after(3) > rows_after(0));
}

TEST_CASE("tree: replies to other prompts are remembered where there is a memory") {
  LookupMemory memory;
  TreeSpeculator tree(nullptr, &memory, 8, true);
  tree.set_costs(costing(0.001));
  const auto engine = model().backend(best_isa(), 1);
  Session session(*engine, Sampler(SamplingParams{.temperature = 0}));
  session.set_speculator(&tree);
  GenerateOptions options;
  options.max_tokens = 24;
  const auto decode = [&](const Text& prompt) {
    return session.generate(prompt, options).counters;
  };
  const Text prompt = token_ids(9, kVocab, 3);
  const Counters before = decode(prompt);
  session.forget();  // the reply goes to the memory
  CHECK(memory.index().text().size() == 25);
  const Counters after = decode(prompt);
  CHECK(after.accepted_tokens > before.accepted_tokens);
  CHECK(after.rounds < before.rounds);
}

}  // namespace tree_speculator_test
