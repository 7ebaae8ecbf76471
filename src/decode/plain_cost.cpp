#include "decode/plain_cost.h"

#include <algorithm>

namespace specbound {
namespace {

constexpr double kKept = 0.97;  // of a weight, from round to round
constexpr double kMostOff = 2;  // times what was expected: the rest is an interruption
constexpr double kPriorSquares = 3 * 64 * 64;  // that no slope at all counts for: rounds, tokens^2
constexpr double kLeast = 0.1;                 // of the mean, at any length

}  // namespace

double PlainCost::slope() const {
  const double found = products_ / (squares_ + kPriorSquares);
  return std::clamp(found, 0.0, seconds_ / std::max(length_, 1.0));
}

double PlainCost::at(int length) const {
  return std::max(seconds_ + slope() * (length - length_), kLeast * seconds_);
}

double PlainCost::relative(int length) const {
  return weight_ > 0 ? at(length) / seconds_ : 1;
}

double PlainCost::rounds(int length) const {
  if (weight_ == 0) return 0;
  const double far = length - length_;
  return 1 / (1 / weight_ + far * far / (squares_ + kPriorSquares));
}

void PlainCost::add(int length, double seconds) {
  if (!(seconds > 0)) return;
  if (weight_ > 0) seconds = std::clamp(seconds, at(length) / kMostOff, at(length) * kMostOff);
  weight_ = kKept * weight_ + 1;
  const double far = length - length_, off = seconds - seconds_;
  length_ += far / weight_;
  seconds_ += off / weight_;
  squares_ = kKept * squares_ + far * (length - length_);
  products_ = kKept * products_ + far * (seconds - seconds_);
}

}  // namespace specbound
