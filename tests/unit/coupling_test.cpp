// The distribution of the sampler and what its coupling is worth: a million draws at every filter
// setting against probabilities worked out here from the definition (decode/sampler.h), and how
// often draft and target agree against what Gumbel-max coupling gives on paper.
// docs/architecture.md 5.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "decode/sampler.h"
#include "tiny_gguf.h"
#include "token_distribution.h"

namespace coupling_test {

using namespace specbound;
using namespace specbound::test;

namespace {

// The n-th of many places, each with another seed, reply and position than the last.
DrawPlace place(int n) {
  const uint32_t i = static_cast<uint32_t>(n);
  return {0x51f0 + i % 7, i / 7 % 11, i / 77};
}

const std::vector<float> kRow = {1.5f, 0.2f, -0.7f, 2.1f,  0.9f,  -1.4f, 0.0f,
                                 1.1f, 1.9f, -0.3f, -1.1f, 0.55f, 1.3f};
const std::vector<int32_t> kHistory = {3, 5, 3, 8};

std::vector<int> draws(const SamplingParams& p, int n, int first = 0) {
  Sampler sampler(p);
  std::vector<int> counts(kRow.size());
  for (int i = 0; i < n; ++i) ++counts[sampler.sample(kRow, kHistory, place(first + i))];
  return counts;
}

struct Filter {
  std::string name;
  int top_k = 0;
  float top_p = 1, min_p = 0, penalty = 1;
  int survivors;  // counted by hand
};

const std::vector<Filter> kFilters = {
    {.name = "none", .survivors = 13},
    {.name = "top-k", .top_k = 6, .survivors = 6},
    {.name = "top-p", .top_p = 0.8f, .survivors = 6},
    {.name = "min-p", .min_p = 0.2f, .survivors = 7},
    {.name = "penalty", .penalty = 1.3f, .survivors = 13},
    {.name = "top-k and top-p", .top_k = 8, .top_p = 0.9f, .survivors = 6},
    {.name = "all", .top_k = 9, .top_p = 0.95f, .min_p = 0.3f, .penalty = 1.3f, .survivors = 7},
};

SamplingParams params(const Filter& filter, float temperature) {
  SamplingParams p = open_params(temperature);
  p.top_k = filter.top_k;
  p.top_p = filter.top_p;
  p.min_p = filter.min_p;
  p.repeat_penalty = filter.penalty;
  return p;
}

}  // namespace

TEST_CASE("chi-square: its tail is the one in the tables") {
  CHECK(chi_square_tail(3.841459, 1) == doctest::Approx(0.05).epsilon(1e-6));
  CHECK(chi_square_tail(5.991465, 2) == doctest::Approx(0.05).epsilon(1e-6));
  CHECK(chi_square_tail(24.321886, 7) == doctest::Approx(0.001).epsilon(1e-6));
  CHECK(chi_square_tail(32.909490, 12) == doctest::Approx(0.001).epsilon(1e-6));
  CHECK(chi_square_tail(0.554298, 5) == doctest::Approx(0.99).epsilon(1e-5));
}

TEST_CASE("a million draws follow the distribution at every filter setting") {
  constexpr int kDraws = 200000;  // at each temperature: a million for each setting
  for (const Filter& filter : kFilters) {
    CAPTURE(filter.name);
    ChiSquare whole;
    for (const float temperature : {0.3f, 0.5f, 0.7f, 1.0f, 1.5f}) {
      CAPTURE(temperature);
      const SamplingParams p = params(filter, temperature);
      const std::vector<double> expected = distribution(p, kRow, kHistory);
      CHECK(std::count_if(expected.begin(), expected.end(), [](double x) { return x > 0; }) ==
            filter.survivors);
      ChiSquare one;
      const std::vector<int> counts = draws(p, kDraws);
      one.add(counts, expected);
      whole.add(counts, expected);
      CHECK(!one.impossible);
      CHECK(one.tail() > kRare);
    }
    CHECK(whole.tail() > kRare);
  }
}

TEST_CASE("the chi-square test sees a distribution that is slightly off") {
  const SamplingParams p = open_params(1);
  ChiSquare warmer, shifted;
  warmer.add(draws(p, 200000), distribution(open_params(1.02f), kRow, {}));
  CHECK(warmer.tail() < kRare);
  std::vector<double> moved = distribution(p, kRow, {});
  moved[3] -= 0.005, moved[6] += 0.005;
  shifted.add(draws(p, 200000), moved);
  CHECK(shifted.tail() < kRare);
}

namespace {

// Two rows and how they are drawn from.
struct Pair {
  std::string name;
  std::vector<float> target, draft;
  SamplingParams params;
};

std::vector<Pair> pairs() {
  TinyRandom random(21);
  const auto row = [&](int n, float scale) {
    std::vector<float> logits(n);
    for (float& l : logits) l = scale * random.normal();
    return logits;
  };
  const auto near = [&](std::vector<float> logits, float by) {
    for (float& l : logits) l += by * random.normal();
    return logits;
  };
  std::vector<Pair> all;
  for (const float by : {0.05f, 0.3f, 1.0f, 3.0f}) {
    for (const float temperature : {0.3f, 0.8f, 1.5f}) {
      const std::vector<float> target = row(40, 2);
      all.push_back({format("off by %g at %g", by, temperature), target, near(target, by),
                     open_params(temperature)});
    }
  }
  const std::vector<float> target = row(40, 1.5f);
  all.push_back({"the same row", target, target, open_params(1)});
  all.push_back({"nothing to do with each other", row(40, 2), row(40, 2), open_params(1)});
  // Other survivors on either side.
  all.push_back({"filtered", target, near(target, 0.5f), params(kFilters[5], 0.8f)});
  all.push_back({"min-p", target, near(target, 0.5f), params(kFilters[3], 1)});
  // Two tokens with swapped odds: the bound is nearly reached.
  all.push_back({"two tokens", {1, 0}, {0, 1}, open_params(1)});
  return all;
}

}  // namespace

TEST_CASE("draft and target agree at least (1 - TV) / (1 + TV) of the time") {
  constexpr int kDraws = 50000;
  double closest = 1;
  for (const Pair& pair : pairs()) {
    CAPTURE(pair.name);
    const std::vector<double> p = distribution(pair.params, pair.target, {}),
                              q = distribution(pair.params, pair.draft, {});
    double tv = 0, on_paper = 0;
    for (size_t i = 0; i < p.size(); ++i) tv += 0.5 * std::fabs(p[i] - q[i]);
    // Both pick i when G_i beats every other token under both rows: 1 / sum_j max(p_j/p_i, q_j/q_i)
    for (size_t i = 0; i < p.size(); ++i) {
      if (p[i] == 0 || q[i] == 0) continue;
      double sum = 0;
      for (size_t j = 0; j < p.size(); ++j) sum += std::max(p[j] / p[i], q[j] / q[i]);
      on_paper += 1 / sum;
    }
    on_paper = std::min(on_paper, 1.0);
    const double bound = (1 - tv) / (1 + tv);
    CHECK(on_paper >= bound - 1e-12);
    CHECK(on_paper <= 1 - tv + 1e-12);

    Sampler sampler(pair.params);
    int same = 0;
    for (int i = 0; i < kDraws; ++i) {
      const DrawPlace at = place(i);
      same += sampler.sample(pair.target, {}, at) == sampler.sample(pair.draft, {}, at);
    }
    const double agreement = same / static_cast<double>(kDraws);
    const double margin = 4 * std::sqrt(bound * (1 - bound) / kDraws);  // 4 sigma
    CAPTURE(tv);
    CAPTURE(on_paper);
    CHECK(agreement >= bound - margin);
    CHECK(std::fabs(agreement - on_paper) <=
          4 * std::sqrt(on_paper * (1 - on_paper) / kDraws) + 1e-12);
    if (tv > 0.01) closest = std::min(closest, agreement - bound);
  }
  CHECK(closest < 0.05);  // some pair comes near the bound, or the check would prove little
}

}  // namespace coupling_test
