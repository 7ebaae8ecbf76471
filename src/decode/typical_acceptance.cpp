#include "decode/typical_acceptance.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "numerics/exact_math.h"

namespace specbound {

double typical_threshold(const TokenDistribution& p) {
  double entropy = 0;
  for (const double chance : p.probabilities) {
    if (chance < std::numeric_limits<double>::min()) continue;  // adds nothing
    entropy -= chance * exact_log(chance);
  }
  return std::min(kTypicalEpsilon, kTypicalAlpha * exact_exp(std::min(-entropy, 0.0)));
}

void judge_typical(std::span<const RowEvent> rows,
                   const std::function<const TokenDistribution&(int slot)>& target_after,
                   std::array<int, kMaxRows>& stays) {
  const int n = static_cast<int>(rows.size());
  std::array<bool, kMaxRows> reached{true};   // the draft stays, and all before it
  std::array<double, kMaxRows> log_chance{};  // of the draft
  for (int slot = 0; slot < n; ++slot) {
    stays[slot] = -1;
    const bool leaf = std::ranges::find(rows, slot, &RowEvent::parent) == rows.end();
    if (!reached[slot] || leaf) continue;
    const TokenDistribution& p = target_after(slot);
    const double least = typical_threshold(p);
    for (int draft = slot + 1; draft < n; ++draft) {
      if (rows[draft].parent != slot) continue;
      const double chance = p.of(rows[draft].token);
      reached[draft] = chance > least;
      if (reached[draft]) log_chance[draft] = exact_log(chance);
    }
  }
  std::array<std::pair<int, double>, kMaxRows> best{};  // behind each row: length, logarithm
  for (int draft = n - 1; draft > 0; --draft) {
    if (!reached[draft]) continue;
    const int slot = rows[draft].parent;
    const std::pair through(1 + best[draft].first, log_chance[draft] + best[draft].second);
    if (stays[slot] >= 0 && through < best[slot]) continue;
    stays[slot] = draft;
    best[slot] = through;
  }
}

}  // namespace specbound
