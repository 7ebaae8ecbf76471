#include "tune/shipped_defaults.h"

#include <algorithm>

namespace specbound {
namespace {

constexpr double kCheck = 0.3;  // of a layer
constexpr double kRow = 0.15;   // of a pass: what each row behind the first adds to verification

// Tokens a unit of plain decoding (1: as fast as plain) when each of `rows` - 1 drafts is made with
// chance `leaving` after the one before it, and right with chance `accepted`.
double speed(const HeadReport& report, double leaving, double accepted, int rows, int n_layers) {
  double tokens = 1, cost = 0, drafting = 1, right = 1;
  double rows_run = 1;
  for (int row = 1; row < rows; ++row) {
    cost += drafting * (report.layer + kCheck) / n_layers;
    drafting *= leaving;
    right *= leaving * accepted;
    tokens += right;
    rows_run += drafting;
  }
  const double deep = 1.0 - static_cast<double>(report.layer) / n_layers;
  cost += deep + static_cast<double>(report.layer) / n_layers * drafting;
  return tokens / (cost + kRow * (rows_run - 1));
}

}  // namespace

HeadDefaults guess_defaults(const std::vector<HeadReport>& reports, int n_layers, int shortlist) {
  HeadDefaults best;
  best.shortlist = shortlist;
  double most = 0;
  for (const HeadReport& report : reports) {
    const size_t n = std::min({report.tau.size(), report.leaving.size(), report.accepted.size()});
    for (size_t t = 0; t < n; ++t) {
      for (int rows = 2; rows <= HeadDefaults{}.w_max; ++rows) {
        const double s = speed(report, report.leaving[t], report.accepted[t], rows, n_layers);
        if (s <= most) continue;
        most = s;
        best.kind = report.kind;
        best.check_layers = {report.layer};
        best.tau = static_cast<float>(report.tau[t]);
        best.w_max = rows;
        best.d_max = std::max(HeadDefaults{}.d_max, report.layer);
      }
    }
  }
  if (best.check_layers.empty() && !reports.empty()) {
    best.kind = reports.front().kind;
    best.check_layers = {reports.front().layer};
    best.d_max = std::max(best.d_max, reports.front().layer);
  }
  return best;
}

HeadDefaults table_defaults(HeadDefaults guessed, bool hybrid) {
  guessed.kind = hybrid ? HeadKind::kHybrid : HeadKind::kTable;
  guessed.check_layers = {0};
  // Drafts cost next to nothing: what a wrong one costs is its row of the verification.
  guessed.alpha = 0;
  guessed.tau = 0.4f;
  guessed.w_max = 4;
  return guessed;
}

}  // namespace specbound
