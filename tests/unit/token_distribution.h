// The sampler's distribution worked out from its definition (decode/sampler.h), and the statistic
// that holds draws against a distribution.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "decode/sampler.h"

namespace specbound::test {

// Nothing filtered, nothing penalized.
inline SamplingParams open_params(float temperature) {
  SamplingParams p;
  p.temperature = temperature;
  p.top_k = 0;
  p.top_p = 1;
  p.min_p = 0;
  return p;
}

inline std::vector<double> normalized(std::vector<double> weights) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& w : weights) w /= total;
  return weights;
}

// The probability of each token, by the definition: penalty, top-k, top-p, min-p at temperature 1,
// then the temperature over what is left.
inline std::vector<double> distribution(const SamplingParams& p, const std::vector<float>& row,
                                        const std::vector<int32_t>& history) {
  const int n = static_cast<int>(row.size());
  std::vector<double> logits(row.begin(), row.end());
  for (int i = 0; i < n; ++i) {
    if (std::find(history.begin(), history.end(), i) == history.end()) continue;
    logits[i] = logits[i] > 0 ? logits[i] / p.repeat_penalty : logits[i] * p.repeat_penalty;
  }
  std::vector<int> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return logits[a] > logits[b]; });
  if (p.top_k > 0) order.resize(std::min(p.top_k, n));

  const double max = logits[order[0]];
  const auto weight = [&](int i) { return std::exp(logits[i] - max); };
  double all = 0, sum = 0;
  for (const int i : order) all += weight(i);
  size_t kept = 0;
  while (kept < order.size() && (kept == 0 || p.top_p >= 1 || sum < p.top_p * all)) {
    sum += weight(order[kept++]);
  }
  order.resize(kept);
  std::erase_if(order, [&](int i) { return weight(i) < p.min_p; });

  std::vector<double> probabilities(n);
  for (const int i : order) probabilities[i] = std::exp((logits[i] - max) / p.temperature);
  return normalized(probabilities);
}

// The chance that chi-square of `dof` degrees of freedom exceeds x.
inline double chi_square_tail(double x, int dof) {
  const double half = x / 2;
  double tail = dof % 2 ? std::erfc(std::sqrt(half)) : 0;
  for (double k = dof % 2 ? 0.5 : 0; k < 0.5 * dof; ++k) {
    tail += std::exp(k * std::log(half) - half - std::lgamma(k + 1));
  }
  return tail;
}

struct ChiSquare {
  double sum = 0;
  int dof = 0;
  bool impossible = false;  // a token of probability 0 came up

  // Tokens too rare for a statistic of their own count with the rarest one that is not.
  void add(const std::vector<int>& counts, const std::vector<double>& probabilities) {
    const int n = std::accumulate(counts.begin(), counts.end(), 0);
    std::vector<std::pair<double, int>> cells;  // expected, seen
    for (size_t i = 0; i < counts.size(); ++i) {
      impossible |= probabilities[i] == 0 && counts[i] > 0;
      if (probabilities[i] > 0) cells.push_back({n * probabilities[i], counts[i]});
    }
    std::sort(cells.rbegin(), cells.rend());
    while (cells.size() > 1 && cells.back().first < 50) {
      const auto [expected, seen] = cells.back();
      cells.pop_back();
      cells.back().first += expected;
      cells.back().second += seen;
    }
    for (const auto& [expected, seen] : cells) {
      sum += (seen - expected) * (seen - expected) / expected;
    }
    dof += static_cast<int>(cells.size()) - 1;
  }
  double tail() const { return impossible ? 0 : dof == 0 ? 1 : chi_square_tail(sum, dof); }
};

// Exceeded once in a million seeds; the draws are the same in every run.
inline constexpr double kRare = 1e-6;

}  // namespace specbound::test
