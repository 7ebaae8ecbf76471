#include "decode/row_budget.h"

namespace specbound {

void RowBudget::start(int plain, int rows, int room, int pos) {
  plain_ = plain;
  rows_ = rows;
  room_ = room;
  pos_ = pos;
  worth_ = most_ = 0;
  at_best_ = false;
}

bool RowBudget::take(double right) {
  if (worth_ + most_worth(right) <= most_) return false;
  worth_ += right - cost(1);
  ++rows_;
  --room_;
  at_best_ = worth_ > most_;
  most_ = std::max(most_, worth_);
  return true;
}

// Of one row or more, none likelier than `right`, less their cost.
double RowBudget::most_worth(double right) const {
  double most = right - cost(1);
  for (int more = 2; more <= room_; ++more) most = std::max(most, more * right - cost(more));
  return most;
}

double RowBudget::cost(int more) const {
  if (!measured_) return 0;
  return margin() * rate() * plain_ * (costs_.pass(rows_ + more, pos_) - costs_.pass(rows_, pos_)) /
         costs_.pass(plain_, pos_);
}

void RowBudget::gave(int tokens, int plain, int rows, int pos, double beside) {
  const double each = static_cast<double>(tokens) / plain;
  const double time = costs_.pass(rows, pos) / costs_.pass(plain, pos) + beside;
  tokens_ = kRateKept * tokens_ + each;
  time_ = kRateKept * time_ + time;
  gained_ += (1 + kFades) * each - time;
}

}  // namespace specbound
