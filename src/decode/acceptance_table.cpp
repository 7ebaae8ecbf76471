#include "decode/acceptance_table.h"

#include <algorithm>
#include <cmath>

namespace specbound {
namespace {

constexpr std::array<float, AcceptanceTable::kBins + 1> kEdges = {
    0.0f, 0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f, 0.7f, 0.8f, 0.9f, 0.95f, 0.99f, 1.0f};
constexpr double kPriorDrafts = 6;  // verified drafts that a prior counts for
constexpr double kPriorTrust = 3;   // drafts that a layer's word counts for as given
constexpr double kPriorChecks = 6;  // checks that a prior counts for
constexpr double kPriorRow = 20;    // drafts that the row before counts for
constexpr double kPriorRows = 1;    // drafts, all as promised, that all rows begin with
constexpr double kMostDrafts = 48;  // of a bin that count: texts change
constexpr double kOptimism = 0.5;   // standard deviations

double middle(int bin) {
  return 0.5 * (kEdges[bin] + kEdges[bin + 1]);
}

}  // namespace

AcceptanceTable::AcceptanceTable(int n_checks) : checks_(static_cast<size_t>(n_checks)) {
  decay(1);
}

int AcceptanceTable::bin(float confidence) {
  if (std::isnan(confidence)) return -1;
  const auto above = std::upper_bound(kEdges.begin() + 1, kEdges.end() - 1, confidence);
  return static_cast<int>(above - kEdges.begin()) - 1;
}

void AcceptanceTable::saw(int check, int context, int bin) {
  checks_[check].seen[context][bin] += 1;
}

void AcceptanceTable::learn(int check, int bin, int row, bool accepted) {
  rows_[row].promised += checks_[check].acceptance[bin];
  rows_[row].accepted += accepted ? 1 : 0;
  checks_[check].drafts[bin].add(accepted, kMostDrafts);
}

// Rows are compared with each other: where all promises were wrong the checks learn it. What a row
// has not shown is as in the one before.
void AcceptanceTable::decay_rows(double kept) {
  double all_promised = kPriorRows, all_accepted = kPriorRows;
  for (auto& [promised, accepted] : rows_) {
    all_promised += promised *= kept;
    all_accepted += accepted *= kept;
  }
  const double level = all_accepted / all_promised;
  double before = 1;
  for (int row = 0; row < kMaxRows; ++row) {
    const auto& [promised, accepted] = rows_[row];
    before = (accepted + kPriorRow * level * before) / (level * (promised + kPriorRow));
    by_row_[row] = before;
  }
}

void AcceptanceTable::decay(double kept) {
  decay_rows(kept);
  for (Check& check : checks_) {
    double accepted = kPriorTrust, promised = kPriorTrust;
    for (int b = 0; b < kBins; ++b) {
      check.drafts[b].fade(kept);
      accepted += check.drafts[b].right;
      promised += check.drafts[b].tried * middle(b);
    }
    // The next surer bin speaks for its neighbour too: a layer may be right far oftener than it is
    // sure, and nothing else would tell where no draft has left yet.
    double surer = -1;
    for (int b = kBins - 1; b >= 0; --b) {
      const double word = std::min(middle(b) * accepted / promised, 0.995);
      const double prior = surer < 0 ? word : 0.5 * (word + surer);
      const double n = check.drafts[b].tried + kPriorDrafts;
      surer = (check.drafts[b].right + kPriorDrafts * prior) / n;
      const double doubt = kOptimism * std::sqrt(surer * (1 - surer) / (n + 1));
      check.acceptance[b] = std::min(surer + doubt, 1.0);
    }
    // What a context has not shown is as in all contexts together, and those as even.
    Counts all;
    double n_all = 0;
    all.fill(kPriorChecks / kBins);
    for (Counts& seen : check.seen) {
      for (int b = 0; b < kBins; ++b) all[b] += seen[b] *= kept;
    }
    for (const double n : all) n_all += n;
    for (int c = 0; c < kContexts; ++c) {
      double n = kPriorChecks;
      for (const double seen : check.seen[c]) n += seen;
      for (int b = 0; b < kBins; ++b) {
        check.share[c][b] = (check.seen[c][b] + kPriorChecks * all[b] / n_all) / n;
      }
    }
  }
}

}  // namespace specbound
