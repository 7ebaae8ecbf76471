// Never a loss for long: a speculator around another one that compares what its rounds cost with
// plain rounds, measured on the way, at texts of that length, and decodes plainly for a while where
// drafting loses. What it knows it keeps from reply to reply. docs/architecture.md 1, 9.
//
// It keeps a budget, counted in the time of a plain token. Every token adds a little; every
// speculative round adds or takes the difference between what its tokens cost plainly and what it
// took. When the budget is spent drafting pauses, for ever longer cooldowns while trying again does
// not pay. One round alone takes a bounded sum: the machine may have been busy with something else.
#pragma once

#include <cstdint>
#include <span>

#include "decode/plain_cost.h"
#include "decode/speculator.h"

namespace specbound {

class MeasuredSwitch final : public Speculator {
 public:
  static constexpr double kTrial = 4;        // the budget at first, and for trying again
  static constexpr double kMost = 20;        // that the budget can gather
  static constexpr double kIncome = 0.01;    // a token
  static constexpr double kWorstRound = -2;  // what a round can take
  static constexpr int kTrialRows = 2;       // of a round; doubled by each one that pays
  static constexpr int kShortCooldown = 192, kLongCooldown = 8192;  // tokens
  // Rounds after which a plain one is asked for: where texts of this length have had few, where it
  // is close, and to keep up with the machine.
  static constexpr int kLearnEvery = 8, kDoubtEvery = 16, kRefreshEvery = 96;

  // `inner` must outlive it.
  explicit MeasuredSwitch(Speculator& inner) : inner_(inner) {}

  const char* name() const override { return inner_.name(); }
  int width() const override;
  const Speculator& drafter() const override { return inner_.drafter(); }
  Pause pause() const override { return {cooldown_left_, last_speed_}; }
  Control control() const override;

  // The drafter's settings are others now: it is tried again, as at first. What plain tokens cost
  // is known all the same.
  void reconsider();

  void forget() override { inner_.forget(); }
  void begin(std::span<const int32_t> text) override;
  DraftEnd draft(Round& round) override { return inner_.draft(round); }
  void accept(Backend& backend, const RoundEvent& round) override;

 private:
  bool wants_plain() const;
  void weigh(int tokens, double plain_tokens);
  void resume();

  Speculator& inner_;
  PlainCost plain_;
  int length_ = 0;           // tokens of the text
  bool first_round_ = true;  // of the reply: it comes cold from the prefill
  int rounds_since_plain_ = 0;
  double budget_ = kTrial;
  int rows_ = kTrialRows;
  int cooldown_left_ = 0, next_cooldown_ = kShortCooldown;
  int64_t probes_ = 0;  // cooldowns that ended
  // Since the budget was full, or the trial began: tokens of speculative rounds, and what those
  // took in plain tokens of their time.
  double tokens_ = 0, cost_ = 0;
  double last_speed_ = 0;
};

}  // namespace specbound
