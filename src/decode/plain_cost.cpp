#include "decode/plain_cost.h"

#include <algorithm>
#include <cstdlib>

namespace specbound {
namespace {

constexpr double kLineKept = 0.97;  // of a weight, from round to round
constexpr double kMostOff = 2;      // times what was expected: the rest is an interruption
constexpr int kAlike = 64;          // tokens, that lengths differ by at most
constexpr double kPriorSquares = 3 * kAlike * kAlike;  // that no slope at all counts for
constexpr double kLeast = 0.1;                         // of the mean, at any length

}  // namespace

double PlainCost::slope() const {
  const double found = products_ / (squares_ + kPriorSquares);
  return std::clamp(found, 0.0, seconds_ / std::max(length_, 1.0));
}

double PlainCost::at(int length) const {
  return std::max(seconds_ + slope() * (length - length_), kLeast * seconds_);
}

double PlainCost::rounds(int length) const {
  if (weight_ == 0) return 0;
  const double far = length - length_;
  return 1 / (1 / weight_ + far * far / (squares_ + kPriorSquares));
}

void PlainCost::add(int length, double seconds) {
  if (!(seconds > 0)) return;
  if (rounds(length) >= kFew) {
    take(length, std::clamp(seconds, at(length) / kMostOff, at(length) * kMostOff));
    return;
  }
  if (n_waiting_ > 0 && std::abs(length - waiting_[0].length) > kAlike) {
    for (size_t i = 0; i < n_waiting_; ++i) take(waiting_[i].length, waiting_[i].seconds);
    n_waiting_ = 0;
  }
  waiting_[n_waiting_++] = {length, seconds};
  if (n_waiting_ < waiting_.size()) return;
  const auto [a, b, c] = waiting_;
  const double low = std::min(a.seconds, b.seconds), high = std::max(a.seconds, b.seconds);
  for (const Plain& round : waiting_) take(round.length, std::clamp(c.seconds, low, high));
  n_waiting_ = 0;
}

void PlainCost::take(int length, double seconds) {
  weight_ = kLineKept * weight_ + 1;
  const double far = length - length_, off = seconds - seconds_;
  length_ += far / weight_;
  seconds_ += off / weight_;
  squares_ = kLineKept * squares_ + far * (length - length_);
  products_ = kLineKept * products_ + far * (seconds - seconds_);
}

}  // namespace specbound
