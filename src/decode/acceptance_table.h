// How often drafts turn out right, by check layer and confidence, and how confident the checks are:
// counts from every verification, over a prior that takes confidences at their word as far as
// the layer's have deserved it, and slowly forgotten. DESIGN 9.
#pragma once

#include <array>
#include <vector>

namespace specbound {

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
  void settled(int check, int bin, bool accepted);
  // What was counted weighs `kept` times as much from now on, against the priors and what comes.
  // The figures below know of nothing later than the last call.
  void settle(double kept);

  // The chance that a draft which leaves here is right, given that all before it are: a little
  // above the mean as long as little is known, so that what might pay is tried.
  double acceptance(int check, int bin) const { return checks_[check].acceptance[bin]; }
  // The chance that a check in this context falls into `bin`.
  double share(int check, int context, int bin) const { return checks_[check].share[context][bin]; }

 private:
  using Counts = std::array<double, kBins>;
  struct Check {
    Counts tried{}, accepted{};
    std::array<Counts, kContexts> seen{};
    Counts acceptance{};
    std::array<Counts, kContexts> share{};
  };
  std::vector<Check> checks_;
};

}  // namespace specbound
