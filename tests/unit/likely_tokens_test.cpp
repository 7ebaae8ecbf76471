// What a draft's logits say the target may be under the noise that it is drawn with.
#include "drafters/likely_tokens.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "decode/sampler.h"
#include "token_distribution.h"

namespace likely_tokens_test {

using namespace specbound;
using specbound::test::open_params;

namespace {

const float kNan = std::nanf(""), kInf = HUGE_VALF;

std::vector<float> random_row(std::mt19937& rng, size_t n, float spread) {
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> row(n);
  for (float& z : row) z = normal(rng);
  return row;
}

}  // namespace

TEST_CASE("likely tokens: the highest logits, in the order of what noise makes of them") {
  std::mt19937 rng(21);
  for (int trial = 0; trial < 200; ++trial) {
    CAPTURE(trial);
    std::vector<float> z = random_row(rng, 1 + rng() % 400, 2);
    if (trial % 3 == 0) z[rng() % z.size()] = kNan;
    std::vector<int32_t> ids(z.size());
    std::iota(ids.begin(), ids.end(), 7);
    std::shuffle(ids.begin(), ids.end(), rng);
    const float temperature = trial % 4 == 0 ? 0 : 0.4f * static_cast<float>(trial % 4);
    const DrawPlace place{3, 2, static_cast<uint32_t>(trial)};
    std::vector<std::pair<float, int32_t>> by_logit;  // (-z, token)
    for (size_t i = 0; i < z.size(); ++i) {
      if (!std::isnan(z[i])) by_logit.emplace_back(-z[i], ids[i]);
    }
    std::ranges::sort(by_logit);
    by_logit.resize(std::min<size_t>(by_logit.size(), kScoredTokens));
    std::vector<std::pair<double, int32_t>> scores;  // (-score, token)
    for (const auto& [minus_z, token] : by_logit) {
      scores.emplace_back(temperature > 0
                              ? minus_z / double{temperature} - double{gumbel(place, token)}
                              : double{minus_z},
                          token);
    }
    std::ranges::sort(scores);
    double sum = 0;
    for (const auto& one : scores) sum += std::exp(scores[0].first - one.first);
    std::vector<LikelyToken> likely;
    likeliest_tokens(z, ids, open_params(temperature), place, 6, likely);
    REQUIRE(likely.size() == std::min<size_t>(scores.size(), 6));
    for (size_t i = 0; i < likely.size(); ++i) {
      CHECK(likely[i].token == scores[i].second);
      const double share = std::exp(scores[0].first - scores[i].first) / sum;
      CHECK(likely[i].share == doctest::Approx(share));
    }
  }
}

TEST_CASE("likely tokens: of equals the lowest, and nothing where a row says nothing or all") {
  std::vector<LikelyToken> likely = {{1, 1}};
  likeliest_tokens(std::vector<float>{1, kNan, 3, 2, 3, -kInf, 2.5f}, {}, open_params(0), {}, 4,
                   likely);
  REQUIRE(likely.size() == 4);
  const int32_t order[] = {2, 4, 6, 3};
  for (int i = 0; i < 4; ++i) CHECK(likely[i].token == order[i]);
  for (const float temperature : {0.0f, 1.0f}) {
    for (const std::vector<float>& z : {std::vector<float>{}, {kNan, -kInf, kNan}, {1, kInf}}) {
      likeliest_tokens(z, {}, open_params(temperature), {}, 4, likely);
      CHECK(likely.empty());
    }
  }
}

TEST_CASE("likely tokens: what the filters leave out is not among them") {
  std::mt19937 rng(22);
  for (int trial = 0; trial < 100; ++trial) {
    const std::vector<float> z = random_row(rng, 60, 3);
    const DrawPlace place{1, 0, static_cast<uint32_t>(trial)};
    SamplingParams params = open_params(1.5f);
    if (trial % 3 == 0) params.top_k = 1 + trial % 5;
    if (trial % 3 == 1) params.min_p = 0.2f;
    if (trial % 3 == 2) params.top_p = 0.5f;
    TokenDistribution left;
    Sampler(params).distribution(z, {}, left);
    std::vector<LikelyToken> likely;
    likeliest_tokens(z, {}, params, place, kScoredTokens, likely);
    REQUIRE(!likely.empty());
    for (const LikelyToken& one : likely) CHECK(left.of(one.token) > 0);
    if (params.top_p == 1) CHECK(likely[0].token == Sampler(params).sample(z, {}, place));
  }
}

TEST_CASE("likely tokens: siblings by the target's noise hold it more often than without noise") {
  std::mt19937 rng(23);
  const std::vector<float> target = random_row(rng, 50, 2);
  std::vector<float> draft = random_row(rng, 50, 0.3f);
  for (size_t i = 0; i < 50; ++i) draft[i] += target[i];
  SamplingParams filtered = open_params(0.7f);
  filtered.top_k = 40;
  filtered.top_p = 0.95f;
  filtered.min_p = 0.05f;
  for (const SamplingParams& params : {open_params(1), filtered}) {
    CAPTURE(params.temperature);
    Sampler sampler(params);
    constexpr int kDraws = 4000, kSiblings = 3;
    int coupled = 0, likeliest = 0;
    std::vector<LikelyToken> likely;
    for (int i = 0; i < kDraws; ++i) {
      const DrawPlace place{8, 0, static_cast<uint32_t>(i)};
      const int32_t token = sampler.sample(target, {}, place);
      likeliest_tokens(draft, {}, params, place, kSiblings, likely);
      coupled += std::ranges::count(likely, token, &LikelyToken::token) > 0;
      likeliest_tokens(draft, {}, open_params(0), place, kSiblings, likely);
      likeliest += std::ranges::count(likely, token, &LikelyToken::token) > 0;
    }
    CHECK(coupled > likeliest + kDraws / 20);
  }
}

}  // namespace likely_tokens_test
