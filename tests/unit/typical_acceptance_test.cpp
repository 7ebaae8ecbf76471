// Typical acceptance: the threshold, and in the loop what each round gives of a tree of drafts,
// held against all paths of that tree.
#include "decode/typical_acceptance.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "decode/generate.h"
#include "table_backend.h"
#include "token_distribution.h"

namespace typical_acceptance_test {

using namespace specbound;
using namespace specbound::test;

TEST_CASE("typical: what must be exceeded is epsilon, or less where the target is spread") {
  CHECK(typical_threshold({{7}, {1}}) == 0.09);
  CHECK(typical_threshold({{1, 5}, {0.5, 0.5}}) == 0.09);  // 0.3 / 2 is more
  for (const int n : {4, 10, 1000}) {                      // exp(-H) is 1 / n
    CAPTURE(n);
    TokenDistribution p;
    for (int id = 0; id < n; ++id) p.ids.push_back(id);
    p.probabilities.assign(n, 1.0 / n);
    CHECK(typical_threshold(p) == doctest::Approx(0.3 / n).epsilon(1e-9));
  }
  // H = 0.8 ln(1 / 0.8) + 20 * 0.01 ln 100
  TokenDistribution p{{0}, {0.8}};
  for (int id = 1; id <= 20; ++id) {
    p.ids.push_back(id);
    p.probabilities.push_back(0.01);
  }
  const double spread = std::pow(0.8, 0.8) * std::pow(0.01, 0.2);
  CHECK(0.3 * spread < 0.1);
  CHECK(typical_threshold(p) == doctest::Approx(std::min(0.09, 0.3 * spread)).epsilon(1e-9));
}

namespace {

// Trees of random rows, each token once behind a row.
class RandomTrees final : public Speculator {
 public:
  RandomTrees(int width, bool typical) : width_(width), typical_(typical) {}
  const char* name() const override { return "random"; }
  int width() const override { return width_; }
  bool decides_text() const override { return typical_; }
  DraftEnd draft(Round& round) override {
    if (typical_) round.accept_typical();
    for (int tries = 0; tries < 100 && !round.full(); ++tries) {
      const int parent = below(round.rows()), token = below(TableBackend::kVocab);
      if (round.child(parent, token) < 0) round.append_to(parent, token, 0);
    }
    return DraftEnd::kWidth;
  }

 private:
  int below(int n) { return static_cast<int>(random_.next() % static_cast<uint64_t>(n)); }
  TinyRandom random_{11};
  int width_;
  bool typical_;
};

using Text = std::vector<int32_t>;

// Every path of drafts behind row `slot` whose tokens all stay, by its length and its chance's
// logarithm: the first draft of the greatest; -1: none.
struct Paths {
  TableBackend& target;
  const SamplingParams& params;
  std::span<const RowEvent> rows;

  TokenDistribution after(const Text& text) const {
    TokenDistribution p;
    Sampler(params).distribution(target.row(text), text, p);
    return p;
  }
  void walk(int slot, Text text, int length, double log_chance, int first,
            std::map<std::pair<int, double>, int>& found) const {
    if (length > 0) found[{length, log_chance}] = first;
    const TokenDistribution p = after(text);
    double entropy = 0;
    for (const double chance : p.probabilities) entropy -= chance * std::log(chance);
    for (size_t draft = 0; draft < rows.size(); ++draft) {
      const double chance = p.of(rows[draft].token);
      if (rows[draft].parent != slot) continue;
      if (chance <= std::min(0.09, 0.3 * std::exp(-entropy))) continue;
      Text longer = text;
      longer.push_back(rows[draft].token);
      walk(static_cast<int>(draft), longer, length + 1, log_chance + std::log(chance),
           length > 0 ? first : static_cast<int>(draft), found);
    }
  }
  int best(int slot, const Text& text) const {
    std::map<std::pair<int, double>, int> found;
    walk(slot, text, 0, 0, -1, found);
    return found.empty() ? -1 : found.rbegin()->second;
  }
};

}  // namespace

TEST_CASE("typical: of each tree the longest path that stays, then a token by the sampler's rule") {
  TableBackend target(TableBackend::random_table(3));
  SamplingParams sharp = open_params(0.3f), filtered = open_params(1);
  filtered.top_k = 3;
  filtered.repeat_penalty = 1.4f;
  int stayed = 0, chosen = 0;
  for (const SamplingParams& params : {open_params(1), sharp, filtered}) {
    for (const int width : {2, 6, 16}) {
      CAPTURE(params.temperature);
      CAPTURE(width);
      RandomTrees trees(width, true);
      Session session(target, Sampler(params));
      session.set_speculator(&trees);
      GenerateOptions options;
      options.max_tokens = 200;
      options.measure_plain = true;  // which such a rule forbids
      Sampler sampler(params);
      options.on_round = [&](const RoundEvent& event) {
        const auto tokens = session.tokens();
        Text text(tokens.begin(), tokens.begin() + event.pos + 1), found, expected;
        sampler.begin_reply(3);
        for (const TokenEvent& token : event.tokens) found.push_back(token.token);
        const Paths paths{target, params, event.rows};
        int stays = 0;  // -1: no more
        for (int slot = 0; slot >= 0 && expected.size() < found.size();) {
          if (stays >= 0) stays = paths.best(slot, text);
          const int32_t token =
              stays >= 0 ? event.rows[static_cast<size_t>(stays)].token
                         : sampler.sample(target.row(text), text, sampler.place(0, text));
          stayed += stays >= 0;
          text.push_back(token);
          expected.push_back(token);
          slot = drafted_for(event.rows, slot, token);
          if (slot >= 0 && event.rows[static_cast<size_t>(slot)].token != token) slot = -1;
        }
        CHECK(found == expected);
        chosen += event.rows.size() > 1 && event.tokens.size() > 2;
      };
      const GenerateStats stats = session.generate(Text{0, 1, 2}, options);
      CHECK(stats.plain_rounds <= 1);  // the last token's
      CHECK(stats.generated_tokens == 200);
    }
  }
  CHECK(stayed > 300);
  CHECK(chosen > 100);
}

TEST_CASE("typical: it is another text than plain decoding's, without it trees give that one") {
  TableBackend target(TableBackend::random_table(3));
  const auto text = [&](Speculator* speculator) {
    Session session(target, Sampler(open_params(1)));
    session.set_speculator(speculator);
    GenerateOptions options;
    options.max_tokens = 60;
    session.generate(Text{0, 1, 2}, options);
    return Text(session.tokens().begin(), session.tokens().end());
  };
  RandomTrees coupled(8, false), typical(8, true), again(8, true);
  const Text plain = text(nullptr);
  CHECK(text(&coupled) == plain);
  const Text other = text(&typical);
  CHECK(other != plain);
  CHECK(text(&again) == other);
}

}  // namespace typical_acceptance_test
