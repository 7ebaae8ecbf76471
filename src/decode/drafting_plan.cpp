#include "decode/drafting_plan.h"

#include <algorithm>

namespace specbound {
namespace {

constexpr int kBins = AcceptanceTable::kBins, kContexts = AcceptanceTable::kContexts;

}  // namespace

DraftingPlan::DraftingPlan(int n_checks, int most_width)
    : n_checks_(n_checks),
      n_depths_(std::min(n_checks, kDepths)),
      width_(most_width),
      check_values_(static_cast<size_t>(most_width - 1) * n_depths_ * n_checks),
      row_costs_(check_values_.size()) {}

double DraftingPlan::between(const Values& values, double survival) {
  const double place = std::clamp(survival, 0.0, 1.0) * kSteps;
  const int below = std::min(static_cast<int>(place), kSteps - 1);
  const double above = place - below;
  return (1 - above) * values[below] + above * values[below + 1];
}

double DraftingPlan::check_value(const Place& place, int check, int context) const {
  if (check == n_checks_ || place.rows >= width_) return 0;
  return between(check_values_[at(place.rows, depth(place.deepest), check)][context],
                 place.survival);
}

double DraftingPlan::exit_value(const Place& place, int check, int bin, double acceptance) const {
  const int deepest = std::max(place.deepest, check);
  const Place next = {place.rows + 1, place.survival * acceptance, deepest};
  const double further = std::max(check_value(next, 0, AcceptanceTable::context(bin)), 0.0);
  return next.survival + further - row_costs_[at(place.rows, depth(place.deepest), check)];
}

void DraftingPlan::make(const AcceptanceTable& table, const RoundCosts& costs, double rate,
                        int width) {
  width_ = width;
  for (int rows = width_ - 1; rows >= 1; --rows) {
    for (int d = 0; d < n_depths_; ++d) {
      const int deepest = deepest_of(d);
      for (int k = n_checks_ - 1; k >= 0; --k) {
        row_costs_[at(rows, d, k)] = rate * costs.row(rows, std::max(k, rows > 1 ? deepest : 0));
        for (int step = 0; step <= kSteps; ++step) {
          const Place place = {rows, static_cast<double>(step) / kSteps, deepest};
          std::array<double, kContexts> stay;
          for (int c = 0; c < kContexts; ++c) stay[c] = std::max(check_value(place, k + 1, c), 0.0);
          std::array<double, kBins> best;
          for (int b = 0; b < kBins; ++b) {
            const double left = exit_value(place, k, b, table.acceptance(k, b, rows - 1));
            best[b] = std::max(left, stay[AcceptanceTable::context(b)]);
          }
          for (int c = 0; c < kContexts; ++c) {
            double worth = -rate * costs.check(k);
            for (int b = 0; b < kBins; ++b) worth += table.share(k, c, b) * best[b];
            check_values_[at(rows, d, k)][c][step] = static_cast<float>(worth);
          }
        }
      }
    }
  }
}

}  // namespace specbound
