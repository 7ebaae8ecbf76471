#include "drafters/row_budget.h"

namespace specbound {

void RowBudget::start(int plain, int rows, int room, int pos) {
  plain_ = plain;
  rows_ = rows;
  room_ = room;
  pos_ = pos;
  worth_ = most_ = 0;
  at_best_ = false;
}

bool RowBudget::take(double value) {
  if (worth_ + most_worth(value) <= most_) return false;
  worth_ += value - cost(1);
  ++rows_;
  --room_;
  at_best_ = worth_ > most_;
  most_ = std::max(most_, worth_);
  return true;
}

// Of one row or more, none of a higher value, less their cost.
double RowBudget::most_worth(double value) const {
  double most = value - cost(1);
  for (int more = 2; more <= room_; ++more) most = std::max(most, more * value - cost(more));
  return most;
}

double RowBudget::cost(int more) const {
  if (!measured_) return 0;
  return rate() * plain_ * (costs_.pass(rows_ + more, pos_) - costs_.pass(rows_, pos_)) /
         costs_.pass(plain_, pos_);
}

void RowBudget::gave(int tokens, int plain, double time) {
  tokens_ = kRateKept * tokens_ + static_cast<double>(tokens) / plain;
  time_ = kRateKept * time_ + time;
}

}  // namespace specbound
