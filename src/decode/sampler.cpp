#include "decode/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "error.h"
#include "numerics/exact_math.h"

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

int32_t id_at(std::span<const int32_t> ids, size_t i) {
  return ids.empty() ? static_cast<int32_t>(i) : ids[i];
}

// Of the largest logit over the second.
double margin_of(std::span<const float> logits) {
  float best = kMinusInf, second = kMinusInf;
  for (const float logit : logits) {
    if (logit > best) {
      second = best;
      best = logit;
    } else if (logit > second) {
      second = logit;
    }
  }
  return best == second ? 0.0 : static_cast<double>(best) - second;
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

int32_t greedy_token(std::span<const float> logits, std::span<const int32_t> ids) {
  // Blocks by lanes that wait for nothing but themselves, then the place in the best of them.
  constexpr size_t kBlock = 256, kLanes = 16;
  float best_logit = kMinusInf;
  size_t best = 0;
  for (size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const std::span<const float> block =
        logits.subspan(begin, std::min(kBlock, logits.size() - begin));
    float lanes[kLanes];
    std::ranges::fill(lanes, kMinusInf);
    size_t i = 0;
    for (; i + kLanes <= block.size(); i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const float logit = block[i + lane];
        lanes[lane] = logit > lanes[lane] ? logit : lanes[lane];  // false for NaN
      }
    }
    for (; i < block.size(); ++i) lanes[0] = block[i] > lanes[0] ? block[i] : lanes[0];
    const float highest = *std::ranges::max_element(lanes);
    if (!(highest > best_logit)) continue;
    best_logit = highest;
    best = begin;
  }
  while (best_logit > kMinusInf && logits[best] != best_logit) ++best;
  int32_t id = id_at(ids, best);
  for (size_t i = 0; i < ids.size(); ++i) {  // they need not ascend
    if (without_nan(logits[i]) == best_logit) id = std::min(id, ids[i]);
  }
  return id;
}

void validate(const SamplingParams& params) {
  check_range("temperature", params.temperature, 0, 100);
  check_at_least("top_k", params.top_k, 0);
  check_range("top_p", params.top_p, 0, 1);
  check_range("min_p", params.min_p, 0, 1);
  check_range("repeat_penalty", params.repeat_penalty, 0.01f, 100);
  check_at_least("repeat_last_n", params.repeat_last_n, -1);
  check_range("frequency_penalty", params.frequency_penalty, -2, 2);
  check_range("presence_penalty", params.presence_penalty, -2, 2);
  for (const LogitBias& entry : params.logit_bias) {
    check_at_least("logit_bias", entry.id, 0);
    check_range("logit_bias", entry.bias, -100, 100);
  }
}

Sampler::Sampler(const SamplingParams& params)
    : params_(params), counts_(params.frequency_penalty != 0 || params.presence_penalty != 0) {}

bool Sampler::precedes(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

bool Sampler::by_id(const Candidate& a, const Candidate& b) {
  return a.id < b.id;
}

int32_t Sampler::sample(std::span<const float> logits, std::span<const int32_t> history,
                        const DrawPlace& place, std::span<const int32_t> ids, double* margin) {
  SB_CHECK(!logits.empty() && (ids.empty() || ids.size() == logits.size()));
  logits = before_filters(logits, history, ids);
  if (params_.temperature == 0) {  // the filters always keep the best
    if (margin) *margin = margin_of(logits);
    return greedy_token(logits, ids);
  }
  filter(logits, ids);
  return draw(place, margin);
}

void Sampler::distribution(std::span<const float> logits, std::span<const int32_t> history,
                           TokenDistribution& out, std::span<const int32_t> ids) {
  SB_CHECK(!logits.empty() && params_.temperature > 0);
  SB_CHECK(ids.empty() || ids.size() == logits.size());
  filter(before_filters(logits, history, ids), ids);
  float max = kMinusInf;
  for (const Candidate& c : candidates_) max = std::max(max, c.logit);
  out.ids.clear();
  out.probabilities.clear();
  double z = 0;
  for (const Candidate& c : candidates_) {
    // Of infinite ones the lowest id takes all, as in draw().
    const double weight =
        std::isinf(max) ? c.logit == max && out.ids.empty()
                        : exact_exp((static_cast<double>(c.logit) - max) / params_.temperature);
    if (weight == 0) continue;
    out.ids.push_back(c.id);
    out.probabilities.push_back(weight);
    z += weight;
  }
  for (double& p : out.probabilities) p /= z;
}

double TokenDistribution::of(int32_t id) const {
  const auto at = std::lower_bound(ids.begin(), ids.end(), id);
  return at != ids.end() && *at == id ? probabilities[at - ids.begin()] : 0;
}

// Leaves the survivors.
void Sampler::filter(std::span<const float> logits, std::span<const int32_t> ids) {
  if (params_.top_k > 0 && static_cast<size_t>(params_.top_k) < logits.size()) {
    collect_top_k(logits, ids);
  } else {
    collect_all(logits, ids);
  }
  if (params_.top_p < 1) keep_top_p();
  if (params_.min_p > 0) keep_min_p();
}

std::span<const float> Sampler::before_filters(std::span<const float> logits,
                                               std::span<const int32_t> history,
                                               std::span<const int32_t> ids) {
  if (params_.grammar) logits = allow(logits, history, ids);
  if (counts_ || !params_.logit_bias.empty()) logits = apply_changes(logits, history, ids);
  if (params_.repeat_penalty != 1.0f) logits = penalize(logits, history, ids);
  return logits;
}

// A row of a shortlist may lack all that may follow: it then gives a draft that nobody takes.
std::span<const float> Sampler::allow(std::span<const float> logits,
                                      std::span<const int32_t> history,
                                      std::span<const int32_t> ids) {
  const std::shared_ptr<const TokenMask> mask = params_.grammar->mask(reply(history), path_);
  if (!mask) return logits;
  if (!ids.empty()) {
    allowed_logits_.assign(logits.size(), kMinusInf);
    for (size_t i = 0; i < ids.size(); ++i) {
      if (mask->has(ids[i])) allowed_logits_[i] = logits[i];
    }
    return allowed_logits_;
  }
  const std::span<const uint64_t> words = mask->words();
  size_t allowed = 0;
  for (const uint64_t word : words) allowed += static_cast<size_t>(std::popcount(word));
  // What is rarer is done token by token: within a string nearly all are allowed.
  const bool most = 2 * allowed > logits.size();
  if (most) {
    allowed_logits_.assign(logits.begin(), logits.end());
  } else {
    allowed_logits_.assign(logits.size(), kMinusInf);
  }
  for (size_t begin = 0, w = 0; begin < logits.size(); begin += 64, ++w) {
    const uint64_t has = w < words.size() ? words[w] : 0;
    for (uint64_t rest = most ? ~has : has; rest != 0; rest &= rest - 1) {
      const size_t id = begin + static_cast<size_t>(std::countr_zero(rest));
      if (id < logits.size()) allowed_logits_[id] = most ? kMinusInf : logits[id];
    }
  }
  const bool any = std::ranges::any_of(allowed_logits_, [](float z) { return z > kMinusInf; });
  const int32_t lowest = any ? -1 : mask->lowest();
  if (lowest >= 0 && static_cast<size_t>(lowest) < logits.size()) {
    allowed_logits_[static_cast<size_t>(lowest)] = 0;
  }
  return allowed_logits_;
}

bool Sampler::may_follow(std::span<const int32_t> history, int32_t token) {
  return !params_.grammar || params_.grammar->allows(reply(history), token, path_);
}

bool Sampler::ends(std::span<const int32_t> text) {
  if (!params_.grammar || reply(text).empty()) return false;
  return is_end(text.back()) || params_.grammar->complete(reply(text), path_);
}

TokenGrammar::Forced Sampler::forced(std::span<const int32_t> history) {
  return params_.grammar ? params_.grammar->forced(reply(history), path_) : TokenGrammar::Forced();
}

void Sampler::check_target(std::span<const int32_t> history, int32_t token) {
  if (!params_.grammar) return;
  if (may_follow(history, token) && params_.grammar->mask(reply(history), path_)) return;
  params_.grammar->refuse(reply(history), token, path_);
}

Sampler::Change& Sampler::change(int32_t id) {
  SB_CHECK(id >= 0);
  const size_t at = static_cast<size_t>(id);
  if (at >= changes_.size()) changes_.resize(at + 1);
  if (!std::exchange(changes_[at].there, true)) changed_.push_back(id);
  return changes_[at];
}

// Counted anew for each row: rows of a tree do not follow each other, and counts that a row takes
// over from another would have to be taken back.
std::span<const float> Sampler::apply_changes(std::span<const float> logits,
                                              std::span<const int32_t> history,
                                              std::span<const int32_t> ids) {
  changed_.clear();
  for (const auto& [id, bias] : params_.logit_bias) change(id).bias = bias;
  if (counts_) {
    for (const int32_t id : reply(history)) ++change(id).n;
  }
  changed_logits_.assign(logits.begin(), logits.end());
  const auto apply = [&](size_t i, const Change& c) {
    const double penalty = static_cast<double>(c.n) * params_.frequency_penalty +
                           static_cast<double>(c.n > 0) * params_.presence_penalty;
    changed_logits_[i] = static_cast<float>(logits[i] + (c.bias - penalty));
  };
  if (ids.empty()) {
    for (const int32_t id : changed_) {
      SB_CHECK(static_cast<size_t>(id) < logits.size());
      apply(static_cast<size_t>(id), changes_[id]);
    }
  } else {
    for (size_t i = 0; i < ids.size(); ++i) {
      const size_t id = static_cast<size_t>(ids[i]);
      if (id < changes_.size() && changes_[id].there) apply(i, changes_[id]);
    }
  }
  for (const int32_t id : changed_) changes_[id] = {};
  return changed_logits_;
}

std::span<const float> Sampler::penalize(std::span<const float> logits,
                                         std::span<const int32_t> history,
                                         std::span<const int32_t> ids) {
  if (params_.repeat_last_n >= 0) {
    history = history.last(std::min<size_t>(params_.repeat_last_n, history.size()));
  }
  if (history.empty()) return logits;
  penalized_.assign(logits.begin(), logits.end());
  // From the original: a token seen twice is penalized once.
  const auto penalize_at = [&](size_t i) {
    penalized_[i] =
        logits[i] > 0 ? logits[i] / params_.repeat_penalty : logits[i] * params_.repeat_penalty;
  };
  if (ids.empty()) {
    for (int32_t id : history) {
      SB_CHECK(id >= 0 && static_cast<size_t>(id) < logits.size());
      penalize_at(id);
    }
    return penalized_;
  }
  for (const int32_t id : history) {
    SB_CHECK(id >= 0);
    const auto at = static_cast<size_t>(id);
    if (at >= said_.size()) said_.resize(at + 1);
    said_[at] = true;
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto at = static_cast<size_t>(ids[i]);
    if (at < said_.size() && said_[at]) penalize_at(i);
  }
  for (const int32_t id : history) said_[static_cast<size_t>(id)] = false;
  return penalized_;
}

void Sampler::collect_all(std::span<const float> logits, std::span<const int32_t> ids) {
  candidates_.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    candidates_[i] = {without_nan(logits[i]), id_at(ids, i)};
  }
  if (!ids.empty()) std::sort(candidates_.begin(), candidates_.end(), by_id);
}

// One pass with a rising threshold: a buffer of k + slack is cut back to its best k whenever it is
// full. Where ids ascend, a later logit equal to the k-th ranks behind it: it is not looked at.
void Sampler::collect_top_k(std::span<const float> logits, std::span<const int32_t> ids) {
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
  const auto enters = [&](float logit) {
    return ids.empty() ? logit > threshold : !(logit < threshold);
  };
  const auto look_at = [&](size_t i) {
    if (full && !enters(logits[i])) return;
    if (candidates_.size() == capacity) {
      cut();
      threshold = candidates_[k - 1].logit;
      full = true;
      if (!enters(logits[i])) return;
    }
    candidates_.push_back({without_nan(logits[i]), id_at(ids, i)});
  };
  constexpr size_t kBlock = 64;  // most have nothing that enters, which is soon seen
  for (size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const size_t end = std::min(begin + kBlock, logits.size());
    int entering = 0;
    for (size_t i = begin; i < end; ++i) entering += logits[i] < threshold ? 0 : 1;
    if (full && entering == 0) continue;
    for (size_t i = begin; i < end; ++i) look_at(i);
  }
  if (candidates_.size() > k) cut();
  std::sort(candidates_.begin(), candidates_.end(), by_id);
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
  candidates_.resize(std::min(candidates_.size(), top_p_prefix(params_.top_p * z)));
  std::sort(candidates_.begin(), candidates_.end(), by_id);
}

// How many of the candidates, which are in order, reach `enough`, at least one; one more than there
// are when they do not.
size_t Sampler::top_p_prefix(double enough) const {
  const float max = candidates_.front().logit;
  double sum = 0;
  for (size_t n = 0; n < candidates_.size(); ++n) {
    if (n > 0 && sum >= enough) return n;
    sum += weight(candidates_[n].logit, max);
  }
  return sum >= enough ? candidates_.size() : candidates_.size() + 1;
}

void Sampler::keep_min_p() {
  float max = kMinusInf;
  for (const Candidate& c : candidates_) max = std::max(max, c.logit);
  const double floor = max + exact_log(params_.min_p);
  std::erase_if(candidates_, [&](const Candidate& c) { return c.logit != max && c.logit < floor; });
}

// How many of the candidates, which are in order, pass min-p; one more than there are when all do.
size_t Sampler::min_p_prefix() const {
  const float max = candidates_.front().logit;
  const double floor = max + exact_log(params_.min_p);
  size_t n = 0;
  while (n < candidates_.size() && !(candidates_[n].logit != max && candidates_[n].logit < floor)) {
    ++n;
  }
  return n < candidates_.size() ? n : n + 1;
}

// How many of a row's tokens the filters keep, where the candidates are the row's first in order
// and more may follow. Both filters keep a prefix of that order, so the shorter one decides.
std::optional<size_t> Sampler::kept_of_more(const TopLogits& top, bool weighed) const {
  const size_t n = candidates_.size(), more = n + 1;
  const size_t by_min_p = params_.min_p > 0 ? min_p_prefix() : more;
  size_t least = 1, most = more;  // by top-p, as far as Z is known
  if (params_.top_p == 1) {
    least = more;
  } else if (weighed && (params_.top_k == 0 || params_.top_k >= top.of)) {
    double z = 0;
    for (const double part : top.weight) z += part;
    const double error = weight_error(top.of);
    least = top_p_prefix(params_.top_p * (z * (1 - error)));
    most = top_p_prefix(params_.top_p * (z * (1 + error)));
  }
  least = std::min(least, by_min_p);
  most = std::min(most, by_min_p);
  if (least != most || most > n) return std::nullopt;
  return most;
}

std::optional<int32_t> Sampler::sample_top(const TopLogits& top, bool weighed,
                                           const DrawPlace& place, double* margin) {
  if (top.n == 0) return std::nullopt;
  const size_t n = top.n;
  if (params_.temperature == 0) {
    if (margin) *margin = margin_of(std::span(top.logit, n));
    return top.id[0];
  }
  const size_t k = params_.top_k > 0 ? std::min(params_.top_k, top.of) : top.of;
  candidates_.resize(std::min(k, n));
  for (size_t i = 0; i < candidates_.size(); ++i) candidates_[i] = {top.logit[i], top.id[i]};
  if (k > n) {
    const std::optional<size_t> kept = kept_of_more(top, weighed);
    if (!kept) return std::nullopt;
    candidates_.resize(*kept);
    std::sort(candidates_.begin(), candidates_.end(), by_id);
  } else {
    std::sort(candidates_.begin(), candidates_.end(), by_id);
    if (params_.top_p < 1) keep_top_p();
    if (params_.min_p > 0) keep_min_p();
  }
  return draw(place, margin);
}

DrawRule Sampler::rule(uint32_t reply) const {
  const SamplingParams& p = params_;
  DrawRule rule{p.seed, reply, p.temperature, p.repeat_penalty, p.repeat_last_n};
  rule.filtered = p.temperature > 0 && (p.top_k > 0 || p.top_p < 1 || p.min_p > 0);
  // Up to kTopLogits tokens are all there: their weights are known without the rest of the row.
  rule.weigh = rule.filtered && p.top_p < 1 && (p.top_k == 0 || p.top_k > kTopLogits);
  return rule;
}

std::optional<DrawRule> Sampler::rule_without_text(uint32_t reply) const {
  const bool seldom = params_.temperature > 0 && params_.top_k > kTopLogits;
  const DrawRule rule = this->rule(reply);
  return changes_logits() || seldom || rule.looks_back() ? std::nullopt : std::optional(rule);
}

std::optional<int32_t> Sampler::take(const RowDraw& draw, const DrawPlace& place, double* margin) {
  if (draw.top) return sample_top(*draw.top, rule(place.reply).weigh, place, margin);
  if (margin) *margin = draw.margin;
  return draw.token;
}

int32_t Sampler::draw(const DrawPlace& place, double* margin) const {
  const double temperature = params_.temperature;
  double best = -std::numeric_limits<double>::infinity(), second = best;
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
    if (!(scaled + gumbel_bound(r) > (margin ? second : best))) continue;
    const double score = scaled + gumbel_of(r);
    if (score > best) {
      second = best;
      best = score;
      best_id = c.id;
    } else if (score > second) {
      second = score;
    }
  }
  if (margin) *margin = best == second ? 0 : best - second;
  return best_id;
}

}  // namespace specbound
