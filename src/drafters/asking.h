// Whether a source that costs time is worth asking where free ones are as sure as they are: what
// its answers have brought there, against the time that they took. docs/architecture.md 3.4, 9.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace specbound {

class Asking {
 public:
  // `assumed`: what each stage may take, in plain rounds, until that is measured.
  explicit Asking(const std::vector<double>& assumed = {});
  const std::vector<double>& assumed() const { return assumed_; }

  int stages() const { return static_cast<int>(stages_.size()); }
  // What stage `stage` takes, in plain rounds.
  double cost(int stage) const { return stages_[static_cast<size_t>(stage)].cost; }
  // What an answer may bring, in tokens, where the likeliest candidate's chance is `best` now.
  double gain(int stage, double best) const;
  void learn(int stage, double best, double gain);
  // A reply's first answers come cold: these say nothing of what the next ones take.
  void took(int stage, double plain_rounds);
  // A little back to where it began, so that what was given up is tried again.
  void fade();

 private:
  static constexpr int kBins = 6;  // of `best`

  static int bin(double best);

  struct Stage {
    double cost = 0;
    int measured = 0;  // as far as it counts
    std::array<double, kBins> gain{}, asked{};
  };
  std::vector<double> assumed_;
  std::vector<Stage> stages_;
};

}  // namespace specbound
