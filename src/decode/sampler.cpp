#include "decode/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/exact_math.h"
#include "error.h"

namespace specbound {

namespace {

constexpr float kMinusInf = -std::numeric_limits<float>::infinity();

float without_nan(float logit) {
  return std::isnan(logit) ? kMinusInf : logit;
}

// exp(logit - max) with max the largest; 1 for every logit equal to it, infinite ones too.
double weight(float logit, float max) {
  return logit == max ? 1.0 : exact_exp(static_cast<double>(logit) - max);
}

int32_t argmax(std::span<const float> logits) {
  int32_t best = 0;
  float best_logit = kMinusInf;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > best_logit) {  // false for NaN
      best_logit = logits[i];
      best = static_cast<int32_t>(i);
    }
  }
  return best;
}

void check_range(const char* flag, double value, double low, double high) {
  if (value >= low && value <= high) return;  // false for NaN
  throw Error(ErrorCode::kUsage, format("%s: expected %g to %g, found %g", flag, low, high, value));
}

void check_at_least(const char* flag, int value, int low) {
  if (value >= low) return;
  throw Error(ErrorCode::kUsage, format("%s: expected %d or more, found %d", flag, low, value));
}

}  // namespace

void validate(const SamplingParams& params) {
  check_range("--temp", params.temperature, 0, 100);
  check_at_least("--top-k", params.top_k, 0);
  check_range("--top-p", params.top_p, 0, 1);
  check_range("--min-p", params.min_p, 0, 1);
  check_range("--repeat-penalty", params.repeat_penalty, 0.01f, 100);
  check_at_least("--repeat-last-n", params.repeat_last_n, -1);
}

Sampler::Sampler(const SamplingParams& params) : params_(params) {}

bool Sampler::precedes(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

int32_t Sampler::sample(std::span<const float> logits, std::span<const int32_t> history,
                        const DrawPlace& place) {
  SB_CHECK(!logits.empty());
  if (params_.repeat_penalty != 1.0f) logits = penalize(logits, history);
  if (params_.temperature == 0) return argmax(logits);  // the filters always keep it
  if (params_.top_k > 0 && static_cast<size_t>(params_.top_k) < logits.size()) {
    collect_top_k(logits);
  } else {
    collect_all(logits);
  }
  if (params_.top_p < 1) keep_top_p();
  if (params_.min_p > 0) keep_min_p();
  return draw(place);
}

std::span<const float> Sampler::penalize(std::span<const float> logits,
                                         std::span<const int32_t> history) {
  if (params_.repeat_last_n >= 0) {
    history = history.last(std::min<size_t>(params_.repeat_last_n, history.size()));
  }
  if (history.empty()) return logits;
  penalized_.assign(logits.begin(), logits.end());
  const float p = params_.repeat_penalty;
  for (int32_t id : history) {
    SB_CHECK(id >= 0 && static_cast<size_t>(id) < logits.size());
    const float logit = logits[id];  // the original: a token seen twice is penalized once
    penalized_[id] = logit > 0 ? logit / p : logit * p;
  }
  return penalized_;
}

void Sampler::collect_all(std::span<const float> logits) {
  candidates_.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    candidates_[i] = {without_nan(logits[i]), static_cast<int32_t>(i)};
  }
}

// One pass with a rising threshold: a buffer of k + slack is cut back to its best k whenever it is
// full. Ids ascend, so a later logit equal to the k-th ranks behind it and need not be looked at.
void Sampler::collect_top_k(std::span<const float> logits) {
  const size_t k = params_.top_k;
  const size_t capacity = std::min(logits.size(), k + std::max<size_t>(k, 64));
  candidates_.clear();
  candidates_.reserve(capacity);
  const auto cut = [&] {
    std::nth_element(candidates_.begin(), candidates_.begin() + (k - 1), candidates_.end(),
                     precedes);
    candidates_.resize(k);
  };
  float threshold = kMinusInf;
  bool full = false;  // k candidates seen: from now on only better ones enter
  for (size_t i = 0; i < logits.size(); ++i) {
    if (full && !(logits[i] > threshold)) continue;
    if (candidates_.size() == capacity) {
      cut();
      threshold = candidates_[k - 1].logit;
      full = true;
      if (!(logits[i] > threshold)) continue;
    }
    candidates_.push_back({without_nan(logits[i]), static_cast<int32_t>(i)});
  }
  if (candidates_.size() > k) cut();
  std::sort(candidates_.begin(), candidates_.end(),
            [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
}

void Sampler::keep_top_p() {
  float max = kMinusInf;
  for (const Candidate& c : candidates_) max = std::max(max, c.logit);
  double z = 0;
  for (const Candidate& c : candidates_) z += weight(c.logit, max);

  // Sorting a whole vocabulary would cost more than the rest of the draw. Tokens that weigh less
  // than half of (1 - top_p) Z / V each cannot hold (1 - top_p) Z together, so the prefix ends
  // before them.
  const double rest = 0.5 * (1.0 - params_.top_p) * z / static_cast<double>(candidates_.size());
  const double floor = max + exact_log(rest);
  std::erase_if(candidates_, [&](const Candidate& c) { return c.logit < floor; });

  std::sort(candidates_.begin(), candidates_.end(), precedes);
  const double enough = params_.top_p * z;
  double sum = 0;
  size_t n = 0;
  while (n < candidates_.size() && (n == 0 || sum < enough)) {
    sum += weight(candidates_[n++].logit, max);
  }
  candidates_.resize(n);
  std::sort(candidates_.begin(), candidates_.end(),
            [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
}

void Sampler::keep_min_p() {
  float max = kMinusInf;
  for (const Candidate& c : candidates_) max = std::max(max, c.logit);
  const double floor = max + exact_log(params_.min_p);
  std::erase_if(candidates_, [&](const Candidate& c) { return c.logit != max && c.logit < floor; });
}

int32_t Sampler::draw(const DrawPlace& place) const {
  const double temperature = params_.temperature;
  double best = -std::numeric_limits<double>::infinity();
  int32_t best_id = candidates_.front().id;
  uint32_t block = ~0u;
  std::array<uint32_t, 4> words{};
  for (const Candidate& c : candidates_) {  // by ascending id: a tie keeps the lower one
    const uint32_t id = static_cast<uint32_t>(c.id);
    if (id / 4 != block) {
      block = id / 4;
      words = noise_block(place, block);
    }
    const uint32_t r = words[id % 4];
    const double scaled = c.logit / temperature;
    if (!(scaled + gumbel_bound(r) > best)) continue;
    const double score = scaled + gumbel_of(r);
    if (score > best) {
      best = score;
      best_id = c.id;
    }
  }
  return best_id;
}

}  // namespace specbound
