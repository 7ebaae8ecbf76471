// How often drafts turn out right, by check layer, confidence and place in the round, and how
// confident the checks are: counts from every verification, over a prior that takes confidences at
// their word as far as the layer's have deserved it, and slowly forgotten. docs/architecture.md 9.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "engine/backend.h"

namespace specbound {

// How often something that was tried turned out right, where the newest tries say most.
struct FadingCount {
  double tried = 0, right = 0;

  // One more, of `most` that count at most.
  void add(bool is_right, double most) {
    fade(std::min(1.0, (most - 1) / std::max(tried, 1.0)));
    tried += 1;
    right += is_right ? 1 : 0;
  }
  // What was counted weighs `kept` times as much from now on.
  void fade(double kept) {
    tried *= kept;
    right *= kept;
  }
};

class AcceptanceTable {
 public:
  static constexpr int kBins = 12;     // of confidence, finer towards 1
  static constexpr int kContexts = 5;  // of a check: how confident the one before was

  explicit AcceptanceTable(int n_checks);

  // 0..kBins-1; -1: NaN, which never lets a row leave.
  static int bin(float confidence);
  // Of a check behind one in `bin`, of the same row or the row before. A round begins in context 0.
  static int context(int bin) { return bin < 2 ? 1 : bin < 4 ? 2 : bin < 7 ? 3 : 4; }

  // A check of a row whose text before it is right, and the verification of a draft that left.
  void saw(int check, int context, int bin);
  // Of a draft that left from row `row` of its round, 0 the first.
  void learn(int check, int bin, int row, bool accepted);
  // What was counted weighs `kept` times as much from now on, against the priors and what comes.
  // The figures below know of nothing later than the last call.
  void decay(double kept);

  // The chance that a draft which leaves from row `row` here is right, given that all before it
  // are: a little above the mean as long as little is known, so that what might pay is tried.
  double acceptance(int check, int bin, int row) const {
    return std::min(checks_[check].acceptance[bin] * by_row_[row], 1.0);
  }
  // The chance that a check in this context falls into `bin`.
  double share(int check, int context, int bin) const { return checks_[check].share[context][bin]; }

 private:
  using Counts = std::array<double, kBins>;
  struct Check {
    std::array<FadingCount, kBins> drafts;
    std::array<Counts, kContexts> seen{};
    Counts acceptance{};
    std::array<Counts, kContexts> share{};
  };
  void decay_rows(double kept);

  std::vector<Check> checks_;
  // Far drafts are there because they looked good, and their head had only other drafts to go by:
  // they are right less often than near ones of the same confidence.
  struct Row {
    double promised = 0, accepted = 0;  // drafts
  };
  std::array<Row, kMaxRows> rows_;
  std::array<double, kMaxRows> by_row_{};  // times what the checks say
};

}  // namespace specbound
