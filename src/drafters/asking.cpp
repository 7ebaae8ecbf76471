#include "drafters/asking.h"

#include <algorithm>

namespace specbound {
namespace {

constexpr double kBinEdges[] = {0.05, 0.2, 0.4, 0.6, 0.8};
constexpr double kBinMiddles[] = {0.02, 0.12, 0.3, 0.5, 0.7, 0.9};
constexpr double kFirstGain = 0.5;   // of what the likeliest candidate lacks
constexpr double kFirstAsked = 2;    // answers that this counts for
constexpr double kMostAsked = 64;    // that count
constexpr double kGainKept = 0.995;  // of what was learned, from fade() to fade()
constexpr int kMostMeasured = 32;    // times that count
constexpr int kFirstMeasured = 2;    // times that the assumed cost counts for
constexpr double kCostKept = 0.98;   // of what was measured, likewise
constexpr double kMostRise = 3;      // of a cost, at once: the rest is an interruption

double first_gain(size_t bin) {
  return kFirstGain * (1 - kBinMiddles[bin]);
}

}  // namespace

Asking::Asking(const std::vector<double>& assumed) : assumed_(assumed) {
  for (const double cost : assumed) {
    Stage& stage = stages_.emplace_back();
    stage.cost = cost;
    stage.asked.fill(kFirstAsked);
    for (size_t b = 0; b < kBins; ++b) stage.gain[b] = first_gain(b);
  }
}

int Asking::bin(double best) {
  return static_cast<int>(std::ranges::upper_bound(kBinEdges, best) - std::begin(kBinEdges));
}

double Asking::gain(int stage, double best) const {
  return stages_[static_cast<size_t>(stage)].gain[static_cast<size_t>(bin(best))];
}

void Asking::learn(int stage, double best, double gain) {
  Stage& s = stages_[static_cast<size_t>(stage)];
  const auto b = static_cast<size_t>(bin(best));
  s.asked[b] = std::min(s.asked[b] + 1, kMostAsked);
  s.gain[b] += (gain - s.gain[b]) / s.asked[b];
}

void Asking::took(int stage, double plain_rounds) {
  Stage& s = stages_[static_cast<size_t>(stage)];
  s.measured = std::min(s.measured + 1, kMostMeasured);
  s.cost += (std::min(plain_rounds, kMostRise * s.cost) - s.cost) / (s.measured + kFirstMeasured);
}

void Asking::fade() {
  for (size_t i = 0; i < stages_.size(); ++i) {
    Stage& stage = stages_[i];
    stage.cost = assumed_[i] + kCostKept * (stage.cost - assumed_[i]);
    for (size_t b = 0; b < kBins; ++b) {
      stage.gain[b] = first_gain(b) + kGainKept * (stage.gain[b] - first_gain(b));
    }
  }
}

}  // namespace specbound
