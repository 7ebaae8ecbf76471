// Rejection sampling: the sampler's distribution against its definition, the distribution of what
// the rule gives by itself and in the loop with a draft model against every text of a small
// vocabulary, and rules that are wrong, which the same statistic must see.
#include "decode/rejection.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "decode/generate.h"
#include "drafters/draft_model.h"
#include "engine_rig.h"
#include "error.h"
#include "table_backend.h"
#include "token_distribution.h"

namespace rejection_test {

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr uint32_t kProposal = 2;  // number of the draw that round 0 proposes by

TokenDistribution distribution_of(const SamplingParams& params, const std::vector<float>& row,
                                  const std::vector<int32_t>& history = {}) {
  TokenDistribution out;
  Sampler(params).distribution(row, history, out);
  return out;
}

std::vector<float> random_row(TinyRandom& random, int n, float scale) {
  std::vector<float> row(n);
  for (float& l : row) l = scale * random.normal();
  return row;
}

SamplingParams filtered(float temperature, int top_k, float top_p, float min_p, float penalty) {
  SamplingParams p = open_params(temperature);
  p.top_k = top_k;
  p.top_p = top_p;
  p.min_p = min_p;
  p.repeat_penalty = penalty;
  return p;
}

const std::vector<SamplingParams>& settings() {
  static const std::vector<SamplingParams> all = {
      open_params(1), open_params(0.4f), filtered(0.8f, 3, 1, 0, 1), filtered(1, 0, 0.8f, 0, 1),
      filtered(1.5f, 4, 0.95f, 0.1f, 1.4f)};
  return all;
}

}  // namespace

TEST_CASE("the sampler's distribution is that of its definition") {
  TinyRandom random(4);
  for (const SamplingParams& params : settings()) {
    for (int i = 0; i < 50; ++i) {
      const std::vector<float> row = random_row(random, 13, 2);
      const std::vector<int32_t> history = token_ids(6, 13, random.next());
      const std::vector<double> expected = distribution(params, row, history);
      const TokenDistribution found = distribution_of(params, row, history);
      double sum = 0;
      for (int id = 0; id < 13; ++id) {
        CHECK(found.of(id) == doctest::Approx(expected[id]).epsilon(1e-6));
        sum += found.of(id);
      }
      CHECK(sum == doctest::Approx(1).epsilon(1e-12));
      CHECK(std::is_sorted(found.ids.begin(), found.ids.end()));
    }
  }
}

TEST_CASE("the distribution of hostile rows is that of the draws from them") {
  const auto certain = [](const std::vector<float>& row, float temperature = 1) {
    const TokenDistribution found = distribution_of(open_params(temperature), row);
    REQUIRE(found.ids.size() == 1);
    CHECK(found.probabilities[0] == 1);
    CHECK(Sampler(open_params(temperature)).sample(row, {}, {1, 2, 3}) == found.ids[0]);
    return found.ids[0];
  };
  CHECK(certain({kNan, kNan}) == 0);
  CHECK(certain({-kInf, -kInf}) == 0);
  CHECK(certain({3e38f, kInf, 1, kInf}) == 1);
  CHECK(certain({-kInf, kNan, -3e38f}) == 2);
  CHECK(certain({1, 2, 0}, 1e-6f) == 1);
  CHECK(certain({3.4e38f, -3.4e38f, 3.3e38f}, 1e-6f) == 0);
  CHECK(distribution_of(open_params(1), {kNan, 0, 0}).ids == std::vector<int32_t>{1, 2});
  CHECK(distribution_of(open_params(1), {0, 1}).of(7) == 0);
}

namespace {

// Logits near those of `row`.
std::vector<float> moved(std::vector<float> row, float by, TinyRandom& random) {
  for (float& l : row) l += by * random.normal();
  return row;
}

// What draw_proposals() and judge_proposals() do for one draft.
int32_t draw_one(const TokenDistribution& q, const DrawPlace& place, int round) {
  return draw_proposals(q, place, round, 1).front();
}
int32_t judge_one(const TokenDistribution& p, const TokenDistribution& q, int32_t draft,
                  const DrawPlace& place) {
  return judge_proposals(p, q, {&draft, 1}, place);
}

using Rule = std::function<int32_t(const TokenDistribution& p, const TokenDistribution& q,
                                   int32_t draft, const DrawPlace& place)>;

struct Judged {
  ChiSquare tokens;    // against p
  ChiSquare accepted;  // against 1 - TV
  int n_accepted = 0;
};

Judged judge_many(const TokenDistribution& p, const TokenDistribution& q, int vocab_size,
                  const Rule& rule) {
  constexpr int kDraws = 20000;
  std::vector<int> counts(vocab_size), kept(2);
  std::vector<double> expected(vocab_size);
  double tv = 0;
  for (int id = 0; id < vocab_size; ++id) {
    expected[id] = p.of(id);
    tv += 0.5 * std::fabs(p.of(id) - q.of(id));
  }
  for (uint32_t i = 0; i < kDraws; ++i) {
    const DrawPlace place{7 + i % 3, i % 17, i};
    const int32_t draft = draw_one(q, place, 0), token = rule(p, q, draft, place);
    ++counts[token];
    ++kept[token == draft];
  }
  Judged judged;
  judged.tokens.add(counts, expected);
  if (tv > 1e-9) judged.accepted.add(kept, {tv, 1 - tv});
  judged.n_accepted = kept[1];
  return judged;
}

}  // namespace

TEST_CASE("what rejection gives follows p, and as many drafts stay as can") {
  TinyRandom random(9);
  for (const SamplingParams& params : settings()) {
    for (const float by : {0.1f, 0.6f, 3.0f}) {  // q is near p, far from it
      CAPTURE(by);
      const std::vector<float> row = random_row(random, 12, 1.5f);
      const std::vector<float> near = moved(row, by, random);
      const TokenDistribution p = distribution_of(params, row), q = distribution_of(params, near);
      const Judged judged = judge_many(p, q, 12, judge_one);
      CHECK(judged.tokens.tail() > kRare);
      CHECK(judged.accepted.tail() > kRare);
    }
    const TokenDistribution same = distribution_of(params, random_row(random, 12, 1.5f));
    CHECK(judge_many(same, same, 12, judge_one).n_accepted == 20000);
  }
  // Nothing in common.
  const TokenDistribution p{{0, 3}, {0.25, 0.75}}, q{{1, 2}, {0.5, 0.5}};
  const Judged judged = judge_many(p, q, 4, judge_one);
  CHECK(judged.tokens.tail() > kRare);
  CHECK(judged.n_accepted == 0);
}

namespace {

// Several drafts of each place, judged by a rule.
using ManyRule = std::function<int32_t(const TokenDistribution& p, const TokenDistribution& q,
                                       std::span<const int32_t> drafts, const DrawPlace& place)>;
Judged judge_several(const TokenDistribution& p, const TokenDistribution& q, int vocab_size, int n,
                     const ManyRule& rule) {
  constexpr int kDraws = 20000;
  std::vector<int> counts(vocab_size);
  std::vector<double> expected(vocab_size);
  for (int id = 0; id < vocab_size; ++id) expected[id] = p.of(id);
  Judged judged;
  for (uint32_t i = 0; i < kDraws; ++i) {
    const DrawPlace place{7 + i % 3, i % 17, i};
    const std::vector<int32_t> drafts = draw_proposals(q, place, 0, n);
    const int32_t token = rule(p, q, drafts, place);
    ++counts[token];
    judged.n_accepted += static_cast<int>(std::ranges::count(drafts, token));
  }
  judged.tokens.add(counts, expected);
  return judged;
}

}  // namespace

TEST_CASE("several drafts come from q without replacement") {
  const TokenDistribution q{{1, 4, 5}, {0.5, 0.3, 0.2}};
  std::map<std::vector<int32_t>, int> seen;
  constexpr int kDraws = 20000;
  for (uint32_t i = 0; i < kDraws; ++i) ++seen[draw_proposals(q, {3, 1, i}, 2, 2)];
  std::vector<int> counts;
  std::vector<double> expected;
  for (size_t a = 0; a < 3; ++a) {
    for (size_t b = 0; b < 3; ++b) {
      if (a == b) continue;
      counts.push_back(seen[{q.ids[a], q.ids[b]}]);
      expected.push_back(q.probabilities[a] * q.probabilities[b] / (1 - q.probabilities[a]));
    }
  }
  ChiSquare found;
  found.add(counts, expected);
  CHECK(found.tail() > kRare);
  CHECK(draw_proposals(q, {3, 1, 1}, 2, 8).size() == 3);
  CHECK(draw_proposals(q, {3, 1, 1}, 2, 1).front() == draw_proposals(q, {3, 1, 1}, 2, 3).front());
}

TEST_CASE("what several drafts give follows p, and the more there are the more often one stays") {
  TinyRandom random(19);
  for (const SamplingParams& params : settings()) {
    for (const float by : {0.3f, 1.0f, 3.0f}) {
      CAPTURE(by);
      const std::vector<float> row = random_row(random, 12, 1.5f);
      const std::vector<float> near = moved(row, by, random);
      const TokenDistribution p = distribution_of(params, row), q = distribution_of(params, near);
      int before = judge_many(p, q, 12, judge_one).n_accepted;
      for (const int n : {2, 3, kMaxProposals}) {
        CAPTURE(n);
        const Judged judged = judge_several(p, q, 12, n, judge_proposals);
        CHECK(!judged.tokens.impossible);
        CHECK(judged.tokens.tail() > kRare);
        CHECK(judged.n_accepted >= before);
        before = judged.n_accepted;
      }
    }
  }
}

TEST_CASE("rules for several drafts that are slightly wrong are seen") {
  TinyRandom random(10);
  const std::vector<float> row = random_row(random, 8, 1);
  const std::vector<float> near = moved(row, 0.7f, random);
  const TokenDistribution p = distribution_of(open_params(1), row),
                          q = distribution_of(open_params(1), near);
  const std::map<std::string, ManyRule> wrong = {
      {"each draft is judged as if it were the first",
       [](const TokenDistribution& p, const TokenDistribution& q, std::span<const int32_t> drafts,
          const DrawPlace& place) {
         for (uint32_t i = 0; i < drafts.size(); ++i) {
           if (uniform(place, 100 + i) * q.of(drafts[i]) < p.of(drafts[i])) return drafts[i];
         }
         return judge_one(p, q, drafts[0], place);
       }},
      {"drafts are judged in the order of their ids",
       [](const TokenDistribution& p, const TokenDistribution& q, std::span<const int32_t> drafts,
          const DrawPlace& place) {
         std::vector<int32_t> sorted(drafts.begin(), drafts.end());
         std::ranges::sort(sorted);
         return judge_proposals(p, q, sorted, place);
       }}};
  CHECK(judge_several(p, q, 8, 3, judge_proposals).tokens.tail() > kRare);
  for (const auto& rule : wrong) {
    CAPTURE(rule.first);
    CHECK(judge_several(p, q, 8, 3, rule.second).tokens.tail() < kRare);
  }
}

TEST_CASE("distributions that differ by rounding alone leave a token of p") {
  const double tiny = 1e-18;
  const TokenDistribution p{{1}, {1}}, q{{0, 1}, {tiny, 1}};
  CHECK(judge_one(p, q, 0, {1, 1, 1}) == 1);
  CHECK(judge_one(p, q, 1, {1, 1, 1}) == 1);
}

TEST_CASE("rules that are slightly wrong are seen") {
  TinyRandom random(10);
  const std::vector<float> row = random_row(random, 8, 1);
  const std::vector<float> near = moved(row, 0.7f, random);
  const TokenDistribution p = distribution_of(open_params(1), row),
                          q = distribution_of(open_params(1), near);
  const std::map<std::string, Rule> wrong = {
      {"all drafts stay",
       [](const auto&, const auto&, int32_t draft, const auto&) { return draft; }},
      {"no residual: a rejected draft's place is drawn from p",
       [](const TokenDistribution& p, const TokenDistribution& q, int32_t draft,
          const DrawPlace& place) {
         const bool stays = judge_one(p, q, draft, place) == draft;
         return stays ? draft : draw_one(p, place, 1);
       }},
      {"the noise of the draft once more",
       [](const TokenDistribution& p, const TokenDistribution& q, int32_t draft,
          const DrawPlace& place) {
         const bool stays = uniform(place, kProposal) * q.of(draft) < p.of(draft);
         return stays ? draft : judge_one(p, q, draft, place);
       }},
      {"distributions of another temperature",
       [&](const TokenDistribution& p, const TokenDistribution&, int32_t draft,
           const DrawPlace& place) {
         return judge_one(p, distribution_of(open_params(1.3f), near), draft, place);
       }}};
  CHECK(judge_many(p, q, 8, judge_one).tokens.tail() > kRare);
  for (const auto& rule : wrong) {
    CAPTURE(rule.first);
    CHECK(judge_many(p, q, 8, rule.second).tokens.tail() < kRare);
  }
}

namespace {

constexpr int kVocab = TableBackend::kVocab, kEnd = 4;  // this token ends a reply
const std::vector<int32_t> kPrompt = {0, 1, 2};

constexpr int kTokens = 3;  // of each reply are counted
using Text = std::vector<int32_t>;

// The chance of every text that a reply can begin with.
void enumerate(const TableBackend& target, const SamplingParams& params, Text text, double chance,
               std::map<Text, double>& chances) {
  if (text.size() == kPrompt.size() + kTokens || text.back() == kEnd) {
    chances[text] += chance;
    return;
  }
  const std::vector<double> next = distribution(params, target.row(text), text);
  text.push_back(0);
  for (int id = 0; id < kVocab; ++id) {
    text.back() = id;
    enumerate(target, params, text, chance * next[id], chances);
  }
}

// Replies drafted by `speculator`, held against all that are possible.
ChiSquare replies(TableBackend& target, Speculator& speculator, const SamplingParams& params,
                  Counters* counters = nullptr) {
  constexpr uint32_t kReplies = 12000;
  std::map<Text, double> chances;
  enumerate(target, params, kPrompt, 1, chances);
  std::map<Text, int> seen;
  Session session(target, Sampler(params));
  session.set_speculator(&speculator);
  GenerateOptions options;
  options.max_tokens = kTokens + 1;  // the last of those that count may be a draft too
  options.is_end = [](int32_t token) { return token == kEnd; };
  for (options.reply = 0; options.reply < kReplies; ++options.reply) {
    const GenerateStats stats = session.generate(kPrompt, options);
    if (counters) counters->add(stats.counters);
    const auto text = session.tokens();
    const size_t n = std::min(text.size(), kPrompt.size() + kTokens);
    ++seen[Text(text.begin(), text.begin() + static_cast<long>(n))];
  }
  std::vector<int> counts;
  std::vector<double> expected;
  for (const auto& [text, chance] : chances) {
    counts.push_back(seen[text]);
    expected.push_back(chance);
  }
  ChiSquare found;
  found.add(counts, expected);
  return found;
}

// Leaves out the drafts that would end the reply, as may be done where drafts are coupled.
class PickyProposals final : public Speculator {
 public:
  explicit PickyProposals(const TableBackend& drafter) : drafter_(drafter) {}
  const char* name() const override { return "picky"; }
  int width() const override { return 4; }
  DraftEnd draft(Round& round) override {
    while (!round.full()) {
      const int32_t token = round.propose(drafter_.row(round.history(round.newest()))).front();
      if (token == kEnd) return DraftEnd::kReplyEnd;
      round.append(token, 0);
    }
    return DraftEnd::kWidth;
  }

 private:
  const TableBackend& drafter_;
};

// Several drafts of one place, as DraftModel has them, or in the order of their ids.
class SeveralProposals final : public Speculator {
 public:
  SeveralProposals(const TableBackend& drafter, bool sorted) : drafter_(drafter), sorted_(sorted) {}
  const char* name() const override { return "several"; }
  int width() const override { return 4; }
  DraftEnd draft(Round& round) override {
    if (round.full()) return DraftEnd::kPlain;
    std::vector<int32_t> drafts =
        round.propose(drafter_.row(round.history(round.newest())), round.room());
    if (sorted_) std::ranges::sort(drafts);
    for (const int32_t token : drafts) round.append_to(0, token, 0);
    return DraftEnd::kWidth;
  }

 private:
  const TableBackend& drafter_;
  const bool sorted_;
};

// Sits a round out where the one before proposed a certain token behind a wrong draft: as a switch
// may that looks at what rounds cost.
class TimidProposals final : public Speculator {
 public:
  explicit TimidProposals(const TableBackend& drafter) : drafter_(drafter) {}
  const char* name() const override { return "timid"; }
  int width() const override { return pauses_ ? 1 : 3; }
  DraftEnd draft(Round& round) override {
    while (!round.full()) {
      round.append(round.propose(drafter_.row(round.history(round.newest()))).front(), 0);
    }
    return DraftEnd::kWidth;
  }
  void accept(Backend&, const RoundEvent& round) override {
    pauses_ = round.tokens.size() == 1 && round.drafted() == 2 && round.rows[2].token <= 1;
    paused += pauses_;
  }
  int paused = 0;

 private:
  const TableBackend& drafter_;
  bool pauses_ = false;
};

}  // namespace

TEST_CASE("texts drafted by another model follow the target's distribution, with every filter") {
  const TableBackend::Table table = TableBackend::random_table(3);
  TableBackend target(table), drafter(TableBackend::near(table, 0.8f, 4));
  for (size_t i = 0; i < settings().size(); ++i) {
    CAPTURE(i);
    SamplingParams params = settings()[i];
    params.seed = i;
    for (const float tau : {0.0f, 0.45f}) {
      DraftModel draft(drafter, 4, tau, Acceptance::kRejection);
      Counters counters;
      const ChiSquare found = replies(target, draft, params, &counters);
      CHECK(!found.impossible);
      CHECK(found.tail() > kRare);
      CHECK(counters.accepted_tokens > 500);
      CHECK(counters.drafted_tokens - counters.accepted_tokens > 500);
    }
  }
}

TEST_CASE("texts of several drafts a place follow it too, and more of them are accepted") {
  const TableBackend::Table table = TableBackend::random_table(3);
  TableBackend target(table), drafter(TableBackend::near(table, 0.8f, 4));
  for (size_t i = 0; i < settings().size(); ++i) {
    CAPTURE(i);
    SamplingParams params = settings()[i];
    params.seed = i;
    std::vector<int> rounds;
    for (const int n : {1, 2, 3}) {
      CAPTURE(n);
      DraftModel draft(drafter, 1 + n, 0, Acceptance::kRejection, n);  // of one place a round
      Counters counters;
      const ChiSquare found = replies(target, draft, params, &counters);
      CHECK(!found.impossible);
      CHECK(found.tail() > kRare);
      rounds.push_back(counters.rounds);
    }
    CHECK(rounds[1] < rounds[0]);
    CHECK(rounds[2] <= rounds[1]);  // as many where a filter leaves two tokens
    std::vector<int> by_depth;
    for (const int width : {3, 9}) {  // one place, and four where so many are left
      DraftModel deep(drafter, width, 0.3f, Acceptance::kRejection, 2);
      Counters counters;
      const ChiSquare found = replies(target, deep, params, &counters);
      CHECK(!found.impossible);
      CHECK(found.tail() > kRare);
      by_depth.push_back(counters.rounds);
    }
    CHECK(by_depth[1] < by_depth[0]);  // drafts behind drafts stay
  }
}

TEST_CASE("texts whose drafts were chosen or ordered by what they are do not, and it is seen") {
  const TableBackend::Table table = TableBackend::random_table(3);
  TableBackend target(table), drafter(TableBackend::near(table, 0.8f, 4));
  PickyProposals picky(drafter);
  CHECK(replies(target, picky, open_params(1)).tail() < kRare);
  SeveralProposals as_drawn(drafter, false), sorted(drafter, true);
  CHECK(replies(target, as_drawn, open_params(1)).tail() > kRare);
  CHECK(replies(target, sorted, open_params(1)).tail() < kRare);
}

TEST_CASE("what was proposed behind a wrong draft may decide whether the next round drafts") {
  const TableBackend::Table table = TableBackend::random_table(3);
  TableBackend target(table), drafter(TableBackend::near(table, 0.8f, 4));
  TimidProposals timid(drafter);
  CHECK(replies(target, timid, open_params(1)).tail() > kRare);
  CHECK(timid.paused > 500);
}

}  // namespace rejection_test
