// What the sampler changes in logits before all else: a bias, and what tokens of the reply cost. By
// hand; against a second implementation it is in sampler_test.cpp.
#include <doctest/doctest.h>

#include <limits>
#include <random>
#include <vector>

#include "decode/sampler.h"
#include "token_distribution.h"

namespace logit_changes_test {

using namespace specbound;
using specbound::test::open_params;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

int32_t draw(const SamplingParams& p, const std::vector<float>& logits,
             const std::vector<int32_t>& history = {}) {
  return Sampler(p).sample(logits, history, {});
}

}  // namespace

TEST_CASE("frequency and presence: each time and once, of the reply alone, either sign") {
  SamplingParams p = open_params(0);
  p.frequency_penalty = 0.5f;
  CHECK(draw(p, {4, 3.2f, 1}, {0}) == 0);     // 4 - 0.5
  CHECK(draw(p, {4, 3.2f, 1}, {0, 0}) == 1);  // 4 - 2 * 0.5
  p.frequency_penalty = 0;
  p.presence_penalty = 0.5f;
  CHECK(draw(p, {4, 3.2f, 1}, {0, 0, 0}) == 0);  // 4 - 0.5
  CHECK(draw(p, {4, 3.6f, 1}, {0, 0, 0}) == 1);
  p.presence_penalty = -2;
  CHECK(draw(p, {4, 3.2f, 1}, {1}) == 1);
  p.presence_penalty = 0.5f;
  p.frequency_penalty = 0.25f;
  CHECK(draw(p, {4, 3.1f, 1}, {0, 0}) == 1);  // 4 - 0.5 - 0.5
  CHECK(draw(p, {kNan, -kInf, -3}, {0, 1, 2}) == 2);
  // The prompt does not count, nor does repeat_last_n.
  Sampler sampler(p);
  sampler.begin_reply(2);
  CHECK(sampler.sample(std::vector<float>{4, 3.9f, 1}, std::vector<int32_t>{0, 0}, {}) == 0);
  CHECK(sampler.sample(std::vector<float>{4, 3.9f, 1}, std::vector<int32_t>{0, 0, 0}, {}) == 1);
  sampler.begin_reply(9);  // a history within the prompt
  CHECK(sampler.sample(std::vector<float>{4, 3.9f, 1}, std::vector<int32_t>{0, 0, 0}, {}) == 0);
  p.repeat_last_n = 0;
  CHECK(draw(p, {4, 3.1f, 1}, {0, 0}) == 1);
}

TEST_CASE("bias: added to logits, before the repetition penalty, to tokens of a shortlist too") {
  SamplingParams p = open_params(0);
  p.logit_bias = {{2, 100}, {0, -100}};
  CHECK(draw(p, {40, 1, -50}) == 2);
  CHECK(draw(p, {40, -30, -kInf}) == 1);
  const std::vector<int32_t> ids = {9, 0, 2};
  CHECK(Sampler(p).sample(std::vector<float>{3, 40, -90}, {}, {}, ids) == 2);
  CHECK(Sampler(p).sample(std::vector<float>{3, 40}, {}, {}, std::vector<int32_t>{9, 0}) == 9);
  p.logit_bias = {{0, -3}};
  p.repeat_penalty = 2;
  CHECK(draw(p, {4, -1.5f}, {0}) == 0);  // (4 - 3) / 2
  CHECK(draw(p, {2, -1.5f}, {0}) == 1);  // (2 - 3) * 2
}

TEST_CASE("bias and penalties of the reply: the distribution is that of the changed logits") {
  std::mt19937 rng(5);
  std::normal_distribution<float> normal(0, 2);
  SamplingParams p = open_params(0.9f);
  p.top_k = 9;
  p.frequency_penalty = 0.5f;
  p.presence_penalty = -1;
  p.logit_bias = {{3, 2}, {4, -1}};
  std::vector<float> logits(13);
  for (float& l : logits) l = normal(rng);
  std::vector<float> changed = logits;
  changed[3] += 2;
  changed[4] += -1 - (2 * 0.5f - 1);
  changed[7] -= 0.5f - 1;
  Sampler sampler(p);
  sampler.begin_reply(1);
  SamplingParams unchanged = open_params(0.9f);
  unchanged.top_k = 9;
  TokenDistribution found, expected;
  sampler.distribution(logits, std::vector<int32_t>{1, 4, 7, 4}, found);
  Sampler(unchanged).distribution(changed, {}, expected);
  CHECK(found.ids == expected.ids);
  CHECK(found.probabilities == expected.probabilities);
}

}  // namespace logit_changes_test
