// A backend that draws, over one that does not: its draws are worked out here from the distribution
// as decode/sampler.h states it, the way a device would, so that a loop that leaves draws to it
// must give what the sampler gives.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "error.h"
#include "forwarding_backend.h"
#include "numerics/exact_math.h"
#include "numerics/noise.h"

namespace specbound::test {

class DrawingBackend final : public ForwardingBackend {
 public:
  explicit DrawingBackend(std::unique_ptr<Backend> inner) : ForwardingBackend(std::move(inner)) {}

  int every_open = 0;  // every so many filtered rows leave their draw to the host
  // Calls, and rows among them that were filtered.
  int draw_calls = 0, exit_draws = 0, exits_not_drawn = 0, exit_checks = 0, logits_calls = 0,
      filtered_rows = 0;
  mutable int exit_logits_calls = 0;

  DeviceSampling* device_sampling() override { return this; }
  Sequences* sequences() override { return inner_->sequences(); }

  void draw(int slot, int n, const DrawRule& rule, std::span<const int32_t> text,
            RowDraw* draws) override {
    ++draw_calls;
    forget();
    const size_t vocab_size = config().vocab_size;
    std::vector<float> z(n * vocab_size);
    inner_->logits(slot, n, z.data());
    for (int i = 0; i < n; ++i) {
      // A rule that does not look back may come with any text.
      const auto history = rule.looks_back() ? text.first(text.size() - n + 1 + i) : text;
      draws[i] = drawn({&z[i * vocab_size], vocab_size}, {}, rule, history, i);
    }
  }
  ExitPeak exit_draw(int head, int slot, float temperature, float least, const DrawRule& rule,
                     std::span<const int32_t> text, std::optional<RowDraw>& draw) override {
    ++exit_draws;
    forget();
    const ExitPeak peak = inner_->exit_check(head, slot, temperature);
    draw.reset();
    if (peak.confidence >= least) {
      draw = drawn(inner_->exit_logits(), inner_->exit_ids(), rule, text, 0);
    } else {
      ++exits_not_drawn;
    }
    return peak;
  }
  void logits(int slot, int n, float* out) override {
    ++logits_calls;
    inner_->logits(slot, n, out);
  }
  ExitPeak exit_check(int head, int slot, float temperature) override {
    ++exit_checks;
    return inner_->exit_check(head, slot, temperature);
  }
  std::span<const float> exit_logits() const override {
    ++exit_logits_calls;
    return inner_->exit_logits();
  }

 private:
  static constexpr float kLowest = -std::numeric_limits<float>::infinity();

  // What a draw left is gone with the next one.
  void forget() { std::memset(static_cast<void*>(tops_), 0xff, sizeof tops_); }

  // The draw after a row of logits whose text is `history`.
  RowDraw drawn(std::span<const float> logits, std::span<const int32_t> ids, const DrawRule& rule,
                std::span<const int32_t> history, int row) {
    std::vector<std::pair<float, int32_t>> z;  // (-logit, id), ascending: the sampler's order
    const size_t n_recent = rule.repeat_last_n < 0
                                ? history.size()
                                : std::min<size_t>(rule.repeat_last_n, history.size());
    const auto recent = history.last(n_recent);
    for (size_t i = 0; i < logits.size(); ++i) {
      const int32_t id = ids.empty() ? static_cast<int32_t>(i) : ids[i];
      float logit = logits[i];
      if (rule.repeat_penalty != 1 && std::find(recent.begin(), recent.end(), id) != recent.end())
        logit = logit > 0 ? logit / rule.repeat_penalty : logit * rule.repeat_penalty;
      z.emplace_back(std::isnan(logit) ? -kLowest : -logit, id);
    }
    std::sort(z.begin(), z.end());
    const uint32_t pos = static_cast<uint32_t>(history.size());
    if (rule.filtered) return {.top = head_of(z, rule, row)};
    double best = -std::numeric_limits<double>::infinity(), second = best;
    int32_t token = std::numeric_limits<int32_t>::max();
    for (const auto& [minus, id] : z) {
      double score = -static_cast<double>(minus);
      if (rule.temperature > 0)
        score = score / rule.temperature + gumbel({rule.seed, rule.reply, pos}, id);
      if (score > best || (score == best && id < token)) token = id;
      second = std::max(second, std::min(score, best));
      best = std::max(best, score);
    }
    return {token, best == second ? 0 : best - second};
  }

  const TopLogits* head_of(const std::vector<std::pair<float, int32_t>>& z, const DrawRule& rule,
                           int row) {
    TopLogits& top = tops_[row];
    const int n = static_cast<int>(z.size());
    top.n = std::min(n, kTopLogits);
    top.of = n;
    for (int i = 0; i < top.n; ++i) {
      top.logit[i] = -z[i].first;
      top.id[i] = z[i].second;
    }
    ++filtered_rows;
    if (every_open > 0 && filtered_rows % every_open == 0) top.n = 0;
    if (!rule.weigh) return &top;
    std::fill_n(top.weight, kWeightParts, 0.0);
    const float max = -z[0].first;
    for (int i = 0; i < n; ++i) {
      const float logit = -z[i].first;
      top.weight[i % kWeightParts] +=
          logit == max ? 1 : exact_exp(static_cast<double>(logit) - max);
    }
    return &top;
  }

  TopLogits tops_[kMaxRows];
};

}  // namespace specbound::test
