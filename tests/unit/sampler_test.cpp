// The sampler: each filter by hand, the whole chain against a plain second implementation, the
// distribution of the draws, and hostile rows.
#include "decode/sampler.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "error.h"
#include "numerics/exact_math.h"
#include "terminal/flag_names.h"
#include "token_distribution.h"

namespace sampler_test {

using namespace specbound;
using specbound::test::open_params;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

int32_t draw(const SamplingParams& p, const std::vector<float>& logits, uint32_t pos = 0,
             const std::vector<int32_t>& history = {}) {
  return Sampler(p).sample(logits, history, {p.seed, 0, pos});
}

// The tokens that ever come up: at a high temperature those are the survivors.
std::set<int32_t> survivors(SamplingParams p, const std::vector<float>& logits) {
  p.temperature = 100;
  Sampler sampler(p);
  std::set<int32_t> seen;
  for (uint32_t pos = 0; pos < 400; ++pos) {
    seen.insert(sampler.sample(logits, {}, {1, 0, pos}));
  }
  return seen;
}

// docs/architecture.md 5 written down plainly: full sorts, libm, no shortcuts.
int32_t reference(const SamplingParams& p, std::vector<float> logits,
                  const std::vector<int32_t>& history, const DrawPlace& place,
                  size_t n_prompt = 0) {
  for (float& l : logits) {
    if (std::isnan(l)) l = -kInf;
  }
  for (int32_t id = 0; id < static_cast<int32_t>(logits.size()); ++id) {
    const auto reply = history.begin() + static_cast<long>(std::min(n_prompt, history.size()));
    const double n = static_cast<double>(std::count(reply, history.end(), id));
    double change = 0;
    for (const LogitBias& entry : p.logit_bias) change += entry.id == id ? entry.bias : 0;
    change -= n * p.frequency_penalty + (n > 0 ? p.presence_penalty : 0);
    if (change != 0) logits[id] = static_cast<float>(logits[id] + change);
  }
  size_t n_history = history.size();
  if (p.repeat_last_n >= 0) n_history = std::min<size_t>(n_history, p.repeat_last_n);
  const std::set<int32_t> recent(history.end() - n_history, history.end());
  for (int32_t id : recent) {
    float& l = logits[id];
    l = l > 0 ? l / p.repeat_penalty : l * p.repeat_penalty;
  }
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  if (p.temperature == 0) return order[0];
  const float max = logits[order[0]];
  const auto weight = [&](int32_t id) {
    return logits[id] == max ? 1.0 : std::exp(static_cast<double>(logits[id]) - max);
  };
  if (p.top_k > 0 && static_cast<size_t>(p.top_k) < order.size()) order.resize(p.top_k);
  if (p.top_p < 1) {
    double z = 0, sum = 0;
    for (int32_t id : order) z += weight(id);
    size_t n = 0;
    while (n < order.size() && (n == 0 || sum < p.top_p * z)) sum += weight(order[n++]);
    order.resize(n);
  }
  if (p.min_p > 0) {
    std::erase_if(order, [&](int32_t id) { return weight(id) < p.min_p; });
  }
  int32_t best_id = *std::min_element(order.begin(), order.end());
  double best = -kInf;
  std::sort(order.begin(), order.end());
  for (int32_t id : order) {
    const double score = static_cast<double>(logits[id]) / p.temperature + gumbel(place, id);
    if (score > best) {
      best = score;
      best_id = id;
    }
  }
  return best_id;
}

}  // namespace

TEST_CASE("greedy: the largest, the lowest id of equals, NaN never") {
  const SamplingParams greedy = open_params(0);
  CHECK(draw(greedy, {1, 3, 2}) == 1);
  CHECK(draw(greedy, {1, 3, 3, 3}) == 1);
  CHECK(draw(greedy, {kNan, -5, kNan}) == 1);
  CHECK(draw(greedy, {-kInf, -kInf, -3e38f}) == 2);
  CHECK(draw(greedy, {0, kInf, kInf}) == 1);
  CHECK(draw(greedy, {kNan, kNan}) == 0);
  CHECK(draw(greedy, {-kInf, -kInf}) == 0);
  CHECK(draw(greedy, {-0.0f, 0.0f}) == 0);
  CHECK(draw(greedy, {5}) == 0);
}

TEST_CASE("greedy: every place of a long row, whatever its length") {
  for (int n : {1, 15, 16, 17, 63, 64, 65, 255, 256, 257, 530}) {
    for (int at = 0; at < n; ++at) {
      std::vector<float> logits(n, -1.0f);
      logits[at] = 2;
      REQUIRE(draw(open_params(0), logits) == at);
      for (int i = at + 1; i < n; ++i) logits[i] = 2;
      REQUIRE(draw(open_params(0), logits) == at);
    }
  }
}

TEST_CASE("hostile rows are drawn sanely at any temperature") {
  for (float t : {1e-6f, 0.8f, 100.0f}) {
    SamplingParams p;
    p.temperature = t;
    for (int filtered = 0; filtered < 2; ++filtered) {
      if (filtered == 0) p = open_params(t);
      CHECK(draw(p, {kNan, kNan, kNan}) == 0);
      CHECK(draw(p, {-kInf, -kInf, -kInf}) == 0);
      CHECK(draw(p, {-kInf, kNan, -3e38f}) == 2);
      CHECK(draw(p, {3e38f, kInf, 1, kInf}) == 1);
      p = SamplingParams();
      p.temperature = t;
      p.top_k = 2;
    }
  }
  CHECK(draw(open_params(1e-6f), {3.4e38f, -3.4e38f, 3.3e38f}) == 0);
}

TEST_CASE("a tiny temperature is greedy, without overflow") {
  std::mt19937 rng(3);
  std::normal_distribution<float> normal(0, 4);
  for (int i = 0; i < 200; ++i) {
    std::vector<float> logits(100);
    for (float& l : logits) l = normal(rng);
    REQUIRE(draw(open_params(1e-6f), logits, i) == draw(open_params(0), logits));
  }
}

TEST_CASE("top-k keeps k, the lowest ids among equals") {
  SamplingParams p = open_params(1);
  p.top_k = 3;
  CHECK(survivors(p, {0, 1, 2, 1, 1, 3}) == std::set<int32_t>{1, 2, 5});
  CHECK(survivors(p, {1, 1, 1, 1, 1}) == std::set<int32_t>{0, 1, 2});
  p.top_k = 1;
  CHECK(survivors(p, {0, 7, 7}) == std::set<int32_t>{1});
  p.top_k = 50;
  CHECK(survivors(p, {0, 1}) == std::set<int32_t>{0, 1});
}

TEST_CASE("top-p keeps the shortest prefix that reaches it, at temperature 1") {
  // Probabilities 0.5, 0.25, 0.125, 0.125: the sums are exact.
  const float ln2 = 0.69314718f;
  const std::vector<float> logits = {-3 * ln2, -ln2, -3 * ln2, -2 * ln2};
  SamplingParams p = open_params(1);
  p.top_p = 0.4f;
  CHECK(survivors(p, logits) == std::set<int32_t>{1});
  p.top_p = 0.6f;
  CHECK(survivors(p, logits) == std::set<int32_t>{1, 3});
  p.top_p = 0.8f;  // the tie at 0.125: the lower id
  CHECK(survivors(p, logits) == std::set<int32_t>{0, 1, 3});
  p.top_p = 0.9f;
  CHECK(survivors(p, logits) == std::set<int32_t>{0, 1, 2, 3});
  p.top_p = 0;  // one token at least
  CHECK(survivors(p, logits) == std::set<int32_t>{1});
  p.top_p = 0.5f;  // reached exactly by two equal tokens: the first is enough
  CHECK(survivors(p, {4, 4}) == std::set<int32_t>{0});
}

TEST_CASE("min-p is a share of the likeliest") {
  SamplingParams p = open_params(1);
  p.min_p = 0.3f;
  CHECK(survivors(p, {std::log(0.29f), 0, std::log(0.31f)}) == std::set<int32_t>{1, 2});
  p.min_p = 1;
  CHECK(survivors(p, {2, 2, 1.999f}) == std::set<int32_t>{0, 1});
}

TEST_CASE("top-p sees what top-k left") {
  SamplingParams p = open_params(1);
  p.top_k = 2;
  p.top_p = 0.6f;  // of two equals the first has 0.5
  CHECK(survivors(p, {1, 1, 1, 1}) == std::set<int32_t>{0, 1});
  p.top_p = 0.5f;
  CHECK(survivors(p, {1, 1, 1, 1}) == std::set<int32_t>{0});
}

TEST_CASE("repetition penalty: both signs, once a token, only the last n") {
  SamplingParams p = open_params(0);
  p.repeat_penalty = 2;
  CHECK(draw(p, {4, 3, 1}, 0, {0}) == 1);           // 4 / 2 < 3
  CHECK(draw(p, {-1, -1.5f, -9}, 0, {0}) == 1);     // -1 * 2 < -1.5
  CHECK(draw(p, {4, 1.9f, 1}, 0, {0, 0, 0}) == 0);  // 4 / 2, not 4 / 8
  p.repeat_last_n = 1;
  CHECK(draw(p, {4, 3, 1}, 0, {0, 2}) == 0);
  CHECK(draw(p, {4, 3, 1}, 0, {2, 0}) == 1);
  p.repeat_last_n = 0;
  CHECK(draw(p, {4, 3, 1}, 0, {0}) == 0);
  p.repeat_last_n = -1;
  std::vector<int32_t> longer(500, 2);
  longer[0] = 0;
  CHECK(draw(p, {4, 3, 1}, 0, longer) == 1);
  p.repeat_penalty = 0.5f;  // below 1 it encourages
  CHECK(draw(p, {2, 3, 0}, 0, {0}) == 0);
  CHECK(draw(p, {kNan, 3, -kInf}, 0, {0, 2}) == 1);
}

TEST_CASE("the whole chain equals the plain reference") {
  std::mt19937 rng(11);
  std::normal_distribution<float> normal(0, 3);
  for (int round = 0; round < 3000; ++round) {
    SamplingParams p;
    p.temperature = std::vector<float>{0, 0.3f, 0.8f, 1, 3}[rng() % 5];
    p.top_k = std::vector<int>{0, 1, 5, 40, 1000}[rng() % 5];
    p.top_p = std::vector<float>{1, 0.95f, 0.5f, 0.999f}[rng() % 4];
    p.min_p = std::vector<float>{0, 0.05f, 0.5f}[rng() % 3];
    p.repeat_penalty = std::vector<float>{1, 1.3f, 0.7f}[rng() % 3];
    p.repeat_last_n = std::vector<int>{-1, 0, 3, 64}[rng() % 4];
    p.seed = rng();
    p.frequency_penalty = std::vector<float>{0, 0, 0.7f, -0.3f}[rng() % 4];
    p.presence_penalty = std::vector<float>{0, 0, 1.1f, -2}[rng() % 4];
    std::vector<float> logits(1 + rng() % 500);
    for (int32_t id = 0; id < static_cast<int32_t>(logits.size()) && round % 3 == 0; id += 7) {
      p.logit_bias.push_back({id, 0.1f * static_cast<float>(rng() % 60) - 3});
    }
    const bool coarse = rng() % 2;  // few distinct values: many ties
    for (float& l : logits) {
      l = coarse ? static_cast<float>(static_cast<int>(rng() % 9)) - 4 : normal(rng);
      if (rng() % 50 == 0) l = rng() % 2 ? kNan : -kInf;
    }
    std::vector<int32_t> history(rng() % 80);
    for (int32_t& id : history) id = static_cast<int32_t>(rng() % logits.size());
    const std::vector<float> before = logits;
    Sampler sampler(p);
    const size_t n_prompt = rng() % 100;
    sampler.begin_reply(n_prompt);
    const DrawPlace place{p.seed, static_cast<uint32_t>(rng() % 3),
                          static_cast<uint32_t>(rng() % 900)};
    const int32_t got = sampler.sample(logits, history, place);
    REQUIRE(got == reference(p, logits, history, place, n_prompt));
    REQUIRE(got == sampler.sample(logits, history, place));  // no memory of earlier calls
    REQUIRE(std::equal(logits.begin(), logits.end(), before.begin(), [](float a, float b) {
      return a == b || (std::isnan(a) && std::isnan(b));
    }));
  }
}

TEST_CASE("a large vocabulary equals the plain reference") {
  std::mt19937 rng(12);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> logits(32000);
  for (int round = 0; round < 24; ++round) {
    const int spread = 1 + round / 6;  // the more, the fewer are within reach of the best
    for (float& l : logits) l = static_cast<float>(spread) * normal(rng);
    if (round % 4 == 0) std::sort(logits.begin(), logits.end());  // the worst order for top-k
    if (round % 4 == 1) std::fill(logits.begin(), logits.end(), 1.0f);
    SamplingParams p = open_params(round % 2 ? 1.0f : 0.7f);
    if (round % 3 == 1) p.top_k = 40;
    if (round % 3 == 2) p.top_p = 0.9f;
    const DrawPlace place{5, 0, static_cast<uint32_t>(round)};
    REQUIRE(Sampler(p).sample(logits, {}, place) == reference(p, logits, {}, place));
  }
}

TEST_CASE("a shortlist in any order draws what the vocabulary without the rest draws") {
  std::mt19937 rng(11);
  const auto below = [&](int n) { return static_cast<int>(rng() % n); };
  for (int trial = 0; trial < 600; ++trial) {
    const int vocab_size = 2 + below(300), n = 1 + below(vocab_size);
    std::vector<int32_t> ids(vocab_size);
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(ids.begin(), ids.end(), rng);
    ids.resize(n);
    std::vector<float> logits(n), all(vocab_size, -kInf);
    for (int i = 0; i < n; ++i) {
      logits[i] = static_cast<float>(below(9)) - 4;  // ties
      if (below(40) == 0) logits[i] = below(2) ? kNan : kInf;
      all[ids[i]] = logits[i];
    }
    std::vector<int32_t> history(below(30));
    for (int32_t& id : history) id = below(vocab_size);
    SamplingParams p = open_params(trial % 3 == 0 ? 0.0f : 0.5f + 0.5f * below(3));
    p.seed = trial;
    if (below(2)) p.top_k = 1 + below(12);
    if (below(2)) p.top_p = 0.05f * static_cast<float>(1 + below(19));
    if (below(2)) p.min_p = 0.05f * static_cast<float>(below(10));
    if (below(2)) p.repeat_penalty = 1.3f;
    if (below(2)) p.frequency_penalty = 0.7f;
    if (below(2)) p.logit_bias = {{below(vocab_size), 1.5f}};
    const DrawPlace place{p.seed, 1, static_cast<uint32_t>(trial)};
    CAPTURE(trial);
    const bool nothing =
        std::none_of(logits.begin(), logits.end(), [](float l) { return l > -kInf; });
    const int32_t token = Sampler(p).sample(logits, history, place, ids);
    CHECK(token == (nothing ? *std::min_element(ids.begin(), ids.end())
                            : Sampler(p).sample(all, history, place)));
  }
}

TEST_CASE("the margin is what the token won by") {
  std::mt19937 rng(12);
  std::normal_distribution<float> normal(0, 2);
  for (const float temperature : {0.0f, 0.7f, 2.0f}) {
    for (int trial = 0; trial < 100; ++trial) {
      std::vector<float> logits(1 + rng() % 50);
      std::vector<int32_t> ids(logits.size());
      for (size_t i = 0; i < logits.size(); ++i) {
        logits[i] = normal(rng);
        ids[i] = static_cast<int32_t>(3 * (logits.size() - i));
      }
      const DrawPlace place{5, 0, static_cast<uint32_t>(trial)};
      std::vector<double> scores;
      for (size_t i = 0; i < logits.size(); ++i) {
        scores.push_back(temperature == 0 ? logits[i]
                                          : double(logits[i]) / double(temperature) +
                                                double(gumbel(place, ids[i])));
      }
      std::sort(scores.rbegin(), scores.rend());
      Sampler sampler(open_params(temperature));
      double margin = -1;
      const int32_t token = sampler.sample(logits, {}, place, ids, &margin);
      CHECK(margin == (scores.size() > 1 ? scores[0] - scores[1] : kInf));
      CHECK(token == sampler.sample(logits, {}, place, ids));
    }
  }
  double margin = -1;
  Sampler(open_params(0)).sample(std::vector<float>{kNan, -kInf}, {}, {}, {}, &margin);
  CHECK(margin == 0);
  Sampler(open_params(0)).sample(std::vector<float>{1, 3, 3}, {}, {}, {}, &margin);
  CHECK(margin == 0);
  Sampler(open_params(1)).sample(std::vector<float>{kNan, -kInf}, {}, {}, {}, &margin);
  CHECK(margin == 0);
}

TEST_CASE("draws follow the softmax: chi-square at two temperatures") {
  const std::vector<float> logits = {1.5f, 0.2f, -0.7f, 2.1f, 0.9f, -1.4f, 0.0f, 1.1f};
  for (float t : {0.7f, 1.3f}) {
    Sampler sampler(open_params(t));
    const int n = 100000;
    std::vector<int> counts(logits.size());
    for (int i = 0; i < n; ++i) {
      ++counts[sampler.sample(logits, {}, {77, 0, static_cast<uint32_t>(i)})];
    }
    double z = 0, chi2 = 0;
    for (float l : logits) z += std::exp(l / t);
    for (size_t i = 0; i < logits.size(); ++i) {
      const double want = n * std::exp(logits[i] / t) / z;
      chi2 += (counts[i] - want) * (counts[i] - want) / want;
    }
    CHECK(chi2 < 24.3);  // seven degrees of freedom: exceeded once in 1000 seeds
  }
}

TEST_CASE("places are independent: consecutive draws show no correlation") {
  Sampler sampler(open_params(1));
  const std::vector<float> logits(4, 0.0f);
  for (int axis = 0; axis < 3; ++axis) {  // neighbours in position, reply, seed
    std::map<std::pair<int, int>, int> pairs;
    const int n = 40000;
    for (uint32_t i = 0; i < n; ++i) {
      const DrawPlace a{3 + (axis == 2 ? i * 2u : 0u), axis == 1 ? i : 0, axis == 0 ? i : 0};
      DrawPlace b = a;
      if (axis == 0) b.pos += 1;
      if (axis == 1) b.reply += 1;
      if (axis == 2) b.seed += 1;
      ++pairs[{sampler.sample(logits, {}, a), sampler.sample(logits, {}, b)}];
    }
    double chi2 = 0;
    for (int a = 0; a < 4; ++a) {
      for (int b = 0; b < 4; ++b) {
        const double d = pairs[{a, b}] - n / 16.0;
        chi2 += d * d / (n / 16.0);
      }
    }
    CHECK(chi2 < 37.7);  // fifteen degrees of freedom: exceeded once in 1000
  }
}

TEST_CASE("two neighbouring models draw the same token far more often than independent draws") {
  // The reason for Gumbel-max coupling: agreement is at least (1 - TV) / (1 + TV).
  std::vector<float> target(50), draft(50);
  std::mt19937 rng(4);
  std::normal_distribution<float> normal(0, 1);
  for (int i = 0; i < 50; ++i) {
    target[i] = 2 * normal(rng);
    draft[i] = target[i] + 0.3f * normal(rng);
  }
  double zt = 0, zd = 0, tv = 0;
  for (int i = 0; i < 50; ++i) zt += std::exp(target[i]), zd += std::exp(draft[i]);
  for (int i = 0; i < 50; ++i)
    tv += 0.5 * std::fabs(std::exp(target[i]) / zt - std::exp(draft[i]) / zd);
  Sampler sampler(open_params(1));
  int same = 0;
  const int n = 20000;
  for (int i = 0; i < n; ++i) {
    const DrawPlace place{8, 0, static_cast<uint32_t>(i)};
    same += sampler.sample(target, {}, place) == sampler.sample(draft, {}, place);
  }
  CHECK(same / static_cast<double>(n) > (1 - tv) / (1 + tv) - 0.01);
}

namespace {

// What a device hands over of a row: the best in order, and Z in parts of its own order.
TopLogits top_of(const std::vector<float>& row, const std::vector<int32_t>& ids, bool weighed) {
  TopLogits top{};
  top.of = static_cast<int32_t>(row.size());
  top.n = std::min(top.of, kTopLogits);
  std::vector<std::pair<float, int32_t>> order;  // (-logit, id)
  for (size_t i = 0; i < row.size(); ++i) {
    order.emplace_back(std::isnan(row[i]) ? kInf : -row[i],
                       ids.empty() ? static_cast<int32_t>(i) : ids[i]);
  }
  std::sort(order.begin(), order.end());
  for (int i = 0; i < top.n; ++i) {
    top.logit[i] = -order[i].first;
    top.id[i] = order[i].second;
  }
  for (double& part : top.weight) part = weighed ? 0 : kNan;  // which nobody may look at
  for (size_t i = 0; weighed && i < order.size(); ++i) {
    const float logit = -order[i].first, max = top.logit[0];
    top.weight[order[i].second % kWeightParts] +=
        logit == max ? 1.0 : exact_exp(static_cast<double>(logit) - max);
  }
  return top;
}

// Rows of seven kinds: plain, nearly flat, peaked, with ties, with holes, all equal, nothing.
std::vector<float> row_of_kind(int kind, int n, std::mt19937& rng) {
  const float scales[] = {3, 1e-3f, 12, 2, 3, 0, 0};
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> row(n);
  for (float& l : row) {
    l = scales[kind] * normal(rng);
    const unsigned r = rng() % 400;
    if (kind == 3) l = std::round(l);
    if (kind == 4 && r < 120) l = r % 3 == 0 ? kNan : r % 3 == 1 ? -kInf : -0.0f;
    if (kind == 4 && r == 399) l = kInf;
    if (kind == 6) l = r % 2 ? kNan : -kInf;
  }
  return row;
}

}  // namespace

TEST_CASE("sample_top: the token and margin of the whole row, where the head decides") {
  std::mt19937 rng(21);
  int asked = 0, decided = 0;
  const auto check = [&](const SamplingParams& p, const std::vector<float>& row,
                         const std::vector<int32_t>& ids, const TopLogits& top, bool weighed) {
    Sampler sampler(p);
    const DrawPlace place{p.seed, 1, static_cast<uint32_t>(rng() % 1000)};
    double margin = 0, expected_margin = 0;
    const int32_t expected = sampler.sample(row, {}, place, ids, &expected_margin);
    const std::optional<int32_t> found = sampler.sample_top(top, weighed, place, &margin);
    const bool whole = row.size() <= kTopLogits;
    asked += weighed;
    decided += weighed && found;
    // Without Z too, where the head holds all that the filters ask for.
    if (p.temperature == 0 || (p.top_k > 0 && p.top_k <= kTopLogits) || whole) REQUIRE(found);
    if (!found) return;
    REQUIRE(*found == expected);
    REQUIRE(margin == expected_margin);
    REQUIRE(sampler.sample_top(top, weighed, place) == expected);  // a margin costs no token
  };
  for (const int n : {1, 200, 256, 257, 1500}) {
    for (int kind = 0; kind < 7; ++kind) {
      const std::vector<float> row = row_of_kind(kind, n, rng);
      std::vector<int32_t> ids;  // every other kind: of a shortlist in any order
      for (int i = 0; kind % 2 && i < n; ++i) ids.push_back(3 * i + 1);
      std::shuffle(ids.begin(), ids.end(), rng);
      for (const bool weighed : {false, true}) {
        const TopLogits top = top_of(row, ids, weighed);
        for (const int top_k : {0, 1, 40, 256, 300}) {
          for (const float top_p : {1.0f, 0.95f, 0.3f, 0.0f}) {
            for (const float min_p : {0.0f, 0.05f, 1.0f}) {
              for (const float temperature : {0.0f, 0.7f}) {
                CAPTURE(n);
                CAPTURE(kind);
                CAPTURE(weighed);
                CAPTURE(top_k);
                CAPTURE(top_p);
                CAPTURE(min_p);
                SamplingParams p = open_params(temperature);
                p.top_k = top_k;
                p.top_p = top_p;
                p.min_p = min_p;
                p.seed = rng();
                check(p, row, ids, top, weighed);
              }
            }
          }
        }
      }
    }
  }
  CHECK(decided > asked * 9 / 10);
}

TEST_CASE("sample_top: nothing without a head, nor where the rounding of Z decides") {
  TopLogits none{};
  none.of = 1000;
  none.id[0] = 7;
  CHECK_FALSE(Sampler(open_params(0)).sample_top(none, true, {}));
  CHECK_FALSE(Sampler(open_params(1)).sample_top(none, true, {}));

  const std::vector<float> equal(512, -2.5f);
  const TopLogits top = top_of(equal, {}, true);
  SamplingParams p = open_params(0.8f);
  CHECK_FALSE(Sampler(p).sample_top(top, true, {}));  // all may be drawn
  p.top_p = 0.25f;
  CHECK_FALSE(Sampler(p).sample_top(top, true, {}));  // 128 of them, or one more
  p.top_p = 0.2501f;
  CHECK(Sampler(p).sample_top(top, true, {}) == draw(p, equal));
  CHECK_FALSE(Sampler(p).sample_top(top, false, {}));
}

TEST_CASE("validate names the flag, the range and the value") {
  const auto message = [](auto change) {
    SamplingParams p;
    change(p);
    try {
      validate(p);
    } catch (const Error& e) {
      CHECK(e.code() == ErrorCode::kUsage);
      return with_flags(e.what());
    }
    return std::string();
  };
  CHECK(message([](SamplingParams&) {}) == "");
  CHECK(message([](SamplingParams& p) { p.temperature = -1; }) ==
        "--temp: expected 0 to 100, found -1");
  CHECK(message([](SamplingParams& p) { p.temperature = kNan; }) != "");
  CHECK(message([](SamplingParams& p) { p.temperature = kInf; }) != "");
  CHECK(message([](SamplingParams& p) { p.top_k = -1; }).starts_with("--top-k"));
  CHECK(message([](SamplingParams& p) { p.top_p = 1.5f; }).starts_with("--top-p"));
  CHECK(message([](SamplingParams& p) { p.min_p = -0.1f; }).starts_with("--min-p"));
  CHECK(message([](SamplingParams& p) { p.repeat_penalty = 0; }).starts_with("--repeat-penalty"));
  CHECK(message([](SamplingParams& p) { p.repeat_last_n = -2; }).starts_with("--repeat-last-n"));
  CHECK(message([](SamplingParams& p) { p.frequency_penalty = 2.5f; }) ==
        "--frequency-penalty: expected -2 to 2, found 2.5");
  CHECK(message([](SamplingParams& p) { p.presence_penalty = kNan; }) != "");
  CHECK(message([](SamplingParams& p) {
          p.logit_bias = {{5, 101}};
        }) == "logit_bias: expected -100 to 100, found 101");
  CHECK(message([](SamplingParams& p) { p.logit_bias = {{-1, 1}}; }).starts_with("logit_bias"));
}

TEST_CASE("a draw from 32000 tokens stays cheap") {
  std::mt19937 rng(13);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> logits(32000);
  for (float& l : logits) l = normal(rng);
  const auto milliseconds = [&](const SamplingParams& p) {
    Sampler sampler(p);
    double best = 1e9;
    for (uint32_t i = 0; i < 20; ++i) {
      const auto start = std::chrono::steady_clock::now();
      sampler.sample(logits, {}, {1, 0, i});
      const std::chrono::duration<double, std::milli> took =
          std::chrono::steady_clock::now() - start;
      best = std::min(best, took.count());
    }
    return best;
  };
  SamplingParams nucleus = open_params(0.8f);
  nucleus.top_p = 0.95f;
  const double greedy = milliseconds(open_params(0)), full = milliseconds(open_params(1)),
               usual = milliseconds(SamplingParams()), top_p = milliseconds(nucleus);
  MESSAGE("32000 tokens, ms: greedy " << greedy << ", usual filters " << usual << ", none " << full
                                      << ", top-p alone " << top_p);
  // Wide enough for a debug build under a sanitizer; Release takes under 1 ms.
  CHECK(greedy < 50);
  CHECK(full < 50);
  CHECK(usual < 50);
  CHECK(top_p < 200);
}

}  // namespace sampler_test
