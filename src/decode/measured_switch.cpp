#include "decode/measured_switch.h"

#include <algorithm>

namespace specbound {
namespace {

constexpr double kEnough = 6;  // plain rounds that speak for a length

}  // namespace

int MeasuredSwitch::width() const {
  if (cooldown_left_ > 0 || wants_plain()) return 1;
  return std::min(inner_.width(), rows_);
}

void MeasuredSwitch::begin(std::span<const int32_t> text) {
  inner_.begin(text);
  length_ = static_cast<int>(text.size());
  first_round_ = true;
}

bool MeasuredSwitch::wants_plain() const {
  if (first_round_) return false;
  const double rounds = plain_.rounds(length_);
  if (rounds < kEnough) return rounds < PlainCost::kFew || rounds_since_plain_ >= kLearnEvery;
  return rounds_since_plain_ >= (budget_ < kTrial ? kDoubtEvery : kRefreshEvery);
}

void MeasuredSwitch::accept(Backend& backend, const RoundEvent& round) {
  inner_.accept(backend, round);
  const int tokens = static_cast<int>(round.tokens.size());
  length_ = round.pos + 1;
  const double seconds = 1e-9 * static_cast<double>(round.total_ns());
  ++rounds_since_plain_;
  if (round.plain() && !first_round_) {
    plain_.add(length_, seconds);
    rounds_since_plain_ = 0;
  }
  if (cooldown_left_ > 0) {
    cooldown_left_ = std::max(cooldown_left_ - tokens, 0);
    if (cooldown_left_ == 0) {
      ++probes_;
      resume();
    }
  } else if (!round.plain() && !first_round_) {
    if (const double one = plain_.at(length_); one > 0) weigh(tokens, seconds / one);
  }
  length_ += tokens;
  first_round_ = false;
}

void MeasuredSwitch::reconsider() {
  cooldown_left_ = 0;
  next_cooldown_ = kShortCooldown;
  last_speed_ = 0;
  resume();
}

void MeasuredSwitch::weigh(int tokens, double plain_tokens) {
  const double gain = std::max(tokens - plain_tokens, kWorstRound);
  tokens_ += tokens;
  cost_ += tokens - gain;
  budget_ += gain + kIncome * tokens;
  if (gain > 0) rows_ = std::min(2 * rows_, kMaxRows);
  if (budget_ < 0) {
    last_speed_ = tokens_ / cost_;
    cooldown_left_ = next_cooldown_;
    next_cooldown_ = std::min(2 * next_cooldown_, kLongCooldown);
  } else if (budget_ >= kMost) {  // it has paid
    budget_ = kMost;
    next_cooldown_ = kShortCooldown;
    tokens_ = cost_ = 0;
  }
}

Control MeasuredSwitch::control() const {
  Control control = inner_.control();
  control.probes = probes_;
  return control;
}

void MeasuredSwitch::resume() {
  budget_ = kTrial;
  rows_ = kTrialRows;
  tokens_ = cost_ = 0;
}

}  // namespace specbound
