#include "trace/cost_model.h"

#include <algorithm>

namespace specbound {

double CostModel::run(int from, int to, int rows) const {
  if (from > to) return 0;
  double seconds = 0;
  if (from <= first_layers) {
    seconds += first_pass + (std::min(to, first_layers) - from + 1) * first_layer[rows];
    from = first_layers + 1;
  }
  return from <= to ? seconds + pass + (to - from + 1) * layer[rows] : seconds;
}

double CostModel::check(const std::string& kind, int tokens) const {
  std::vector<const CheckCost*> points;
  for (const CheckCost& c : checks) {
    if (c.kind == kind) points.push_back(&c);
  }
  if (points.empty()) return 0;
  std::sort(points.begin(), points.end(),
            [](const CheckCost* a, const CheckCost* b) { return a->tokens < b->tokens; });
  if (points.size() == 1) return points[0]->seconds;
  size_t upper = 1;
  while (upper + 1 < points.size() && points[upper]->tokens < tokens) ++upper;
  const CheckCost &a = *points[upper - 1], &b = *points[upper];
  if (a.tokens == b.tokens) return b.seconds;
  const double t = static_cast<double>(tokens - a.tokens) / (b.tokens - a.tokens);
  // Noise may slope the wrong way: beyond the points nothing costs less than nothing.
  return std::max(0.0, a.seconds + t * (b.seconds - a.seconds));
}

CostModel CostModel::with_first_layers(int n) const {
  CostModel other = *this;
  other.first_layers = n;
  other.plain_token += other.run(1, n_layers, 1) - run(1, n_layers, 1);
  return other;
}

double expected_tokens(double acceptance, int rows) {
  double sum = 0, chance = 1;
  for (int i = 0; i < rows; ++i) {
    sum += chance;
    chance *= acceptance;
  }
  return sum;
}

double acceptance_for(double tokens, int rows) {
  double low = 0, high = 1;
  for (int i = 0; i < 60; ++i) {
    const double middle = 0.5 * (low + high);
    (expected_tokens(middle, rows) < tokens ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

// Every row goes through the shallow layers alone: the drafting ones when they are looked at, the
// last one when it catches up; the deep ones are shared.
double predicted_speedup(const CostModel& costs, int exit_layer, double check_seconds,
                         double acceptance, int rows) {
  const double tokens = expected_tokens(acceptance, rows);
  if (rows == 1) return 1;
  const double shallow = costs.run(1, exit_layer, 1);
  const double seconds = rows * (shallow + costs.row) + (rows - 1) * check_seconds +
                         costs.run(exit_layer + 1, costs.n_layers, rows) + costs.logits[rows] +
                         tokens * costs.argmax + costs.round;
  return seconds > 0 ? tokens * costs.plain_token / seconds : 0;
}

}  // namespace specbound
