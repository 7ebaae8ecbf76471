#include "train/best_heads.h"

#include <algorithm>
#include <cmath>

#include "train/head_trainer.h"

namespace specbound {

double right_in_a_row(const HeadReport& report) {
  if (report.depth_agreement.empty()) return report.agreement;
  double sum = 0, all_before = 1;
  for (const double agreement : report.depth_agreement) {
    all_before *= agreement;
    sum += all_before;
  }
  return sum;
}

void hold_best(std::span<const HeadReport> reports, double epoch, std::span<LearningHead> heads,
               std::span<BestHead> best) {
  for (size_t h = 0; h < heads.size(); ++h) {
    const double score = right_in_a_row(reports[h]);
    if (reports[h].rows == 0 || score <= best[h].score) continue;
    best[h].score = score;
    best[h].epoch = epoch;
    best[h].values.clear();
    for (const Parameter* p : heads[h].parameters()) {
      best[h].values.insert(best[h].values.end(), p->value.begin(), p->value.end());
    }
  }
}

bool all_are_worse(std::span<const HeadReport> reports, std::span<const BestHead> best) {
  for (size_t h = 0; h < reports.size(); ++h) {
    if (reports[h].rows == 0) return false;
    // A standard error of what is right half of the time.
    const double chance = 1 / std::sqrt(static_cast<double>(reports[h].rows));
    if (right_in_a_row(reports[h]) >= best[h].score * (1 - chance)) return false;
  }
  return true;
}

void put_back_best(std::span<const HeadReport> reports, std::span<LearningHead> heads,
                   std::span<BestHead> best) {
  for (size_t h = 0; h < heads.size(); ++h) {
    if (best[h].score <= right_in_a_row(reports[h])) {
      best[h] = {};
      continue;
    }
    auto from = best[h].values.begin();
    for (Parameter* p : heads[h].parameters()) {
      const auto end = from + std::ssize(p->value);
      std::copy(from, end, p->value.begin());
      from = end;
    }
  }
}

}  // namespace specbound
