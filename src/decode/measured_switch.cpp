#include "decode/measured_switch.h"

#include <algorithm>
#include <cmath>

namespace specbound {
namespace {

constexpr size_t kNewest = 7;  // plain rounds of a length class that count

// Texts that differ by less than half in length are alike: attention is not all there is.
int length_class(int tokens) {
  constexpr double kShort = 256;
  return tokens < kShort ? 0 : 1 + static_cast<int>(std::log(tokens / kShort) / std::log(1.5));
}

}  // namespace

int MeasuredSwitch::width() const {
  if (spell_left_ > 0 || wants_plain()) return 1;
  return std::min(inner_.width(), rows_);
}

void MeasuredSwitch::begin(std::span<const int32_t> text) {
  inner_.begin(text);
  length_ = static_cast<int>(text.size());
  first_round_ = true;
}

bool MeasuredSwitch::wants_plain() const {
  if (first_round_) return false;
  // To begin with several in a row: one alone may have been interrupted, and then anything wins.
  if (plain_.empty() ||
      (plain_.size() == 1 && plain_.begin()->second.rounds() < PlainRate::kEnough))
    return true;
  const auto like = plain_.find(length_class(length_));
  const bool enough = like != plain_.end() && like->second.rounds() >= PlainRate::kEnough;
  return rounds_since_plain_ >= (enough ? kRefreshEvery : kLearnEvery);
}

// Of a token of a text as long as this, or as near to that as has been seen; 0: none has.
double MeasuredSwitch::plain_seconds() const {
  if (plain_.empty()) return 0;
  const int here = length_class(length_);
  auto nearest = plain_.lower_bound(here);
  if (nearest == plain_.end() ||
      (nearest != plain_.begin() && here - std::prev(nearest)->first < nearest->first - here)) {
    --nearest;
  }
  return nearest->second.seconds_per_token();
}

void MeasuredSwitch::accept(Backend& backend, const RoundEvent& round) {
  inner_.accept(backend, round);
  const int tokens = static_cast<int>(round.tokens.size());
  const bool plain = round.rows.size() == 1 && round.draft_end == DraftEnd::kPlain;
  length_ = round.pos + 1 + tokens;
  ++rounds_since_plain_;
  if (plain && !first_round_) {
    plain_.try_emplace(length_class(length_), kNewest).first->second.add(round.total_ns());
    rounds_since_plain_ = 0;
  }
  if (spell_left_ > 0) {
    spell_left_ = std::max(spell_left_ - tokens, 0);
    if (spell_left_ == 0) {
      ++probes_;
      resume();
    }
  } else if (!plain && !first_round_) {
    weigh(tokens, 1e-9 * static_cast<double>(round.total_ns()));
  }
  first_round_ = false;
}

void MeasuredSwitch::reconsider() {
  spell_left_ = 0;
  next_spell_ = kShortSpell;
  last_speed_ = 0;
  resume();
}

void MeasuredSwitch::weigh(int tokens, double seconds) {
  const double plain = plain_seconds();
  if (!(plain > 0)) return;
  const double gain = std::max(tokens - seconds / plain, kWorstRound);
  tokens_ += tokens;
  cost_ += tokens - gain;
  credit_ += gain + kIncome * tokens;
  if (gain > 0) rows_ = std::min(2 * rows_, kMaxRows);
  if (credit_ < 0) {
    last_speed_ = tokens_ / cost_;
    spell_left_ = next_spell_;
    next_spell_ = std::min(2 * next_spell_, kLongSpell);
  } else if (credit_ >= kMost) {  // it has paid
    credit_ = kMost;
    next_spell_ = kShortSpell;
    tokens_ = cost_ = 0;
  }
}

Control MeasuredSwitch::control() const {
  Control control = inner_.control();
  control.probes = probes_;
  return control;
}

void MeasuredSwitch::resume() {
  credit_ = kTrial;
  rows_ = kTrialRows;
  tokens_ = cost_ = 0;
}

}  // namespace specbound
