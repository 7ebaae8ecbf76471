#include "app/bench_pairs.h"

#include <algorithm>

#include "error.h"

namespace specbound {

bool PairedPrompt::identical() const {
  const auto same = [&](const TimedReply& reply) { return reply.same_text(base.front()); };
  return base.empty() || (std::all_of(base.begin(), base.end(), same) &&
                          std::all_of(other.begin(), other.end(), same));
}

std::vector<double> PairedPrompt::ratios(double (*seconds)(const TimedReply&)) const {
  SB_CHECK(base.size() == other.size());
  std::vector<double> found;
  for (size_t i = 0; i < base.size(); ++i) {
    const double divisor = seconds(other[i]);
    found.push_back(divisor > 0 ? seconds(base[i]) / divisor : 0);
  }
  return found;
}

bool base_first(size_t prompt, int repetition) {
  return (prompt + static_cast<size_t>(repetition)) % 2 == 0;
}

std::vector<PairedPrompt> time_pairs(size_t n_prompts, int repetitions, const PairedSides& sides) {
  std::vector<PairedPrompt> pairs(n_prompts);
  if (n_prompts > 0) {
    sides.base(0);
    sides.other(0);
  }
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    for (size_t i = 0; i < n_prompts; ++i) {
      if (base_first(i, repetition)) {
        pairs[i].base.push_back(sides.base(i));
        pairs[i].other.push_back(sides.other(i));
      } else {
        pairs[i].other.push_back(sides.other(i));
        pairs[i].base.push_back(sides.base(i));
      }
    }
  }
  return pairs;
}

}  // namespace specbound
