#include "decode/typical_acceptance.h"

#include <algorithm>
#include <limits>

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

}  // namespace specbound
