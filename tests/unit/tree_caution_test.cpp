// The tree's caution: how much a reply drafts before drafts have gained anything in it.
#include <doctest/doctest.h>

#include <span>
#include <vector>

#include "decode/generate.h"
#include "drafters/row_budget.h"
#include "drafters/tree_speculator.h"
#include "tests/bench/recorded_text.h"

namespace tree_caution_test {

using namespace specbound;

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

}  // namespace tree_caution_test
