// What looks at the newest row of a round after some layer and guesses the token that follows it.
// A guess never changes a byte of the text, so heads may be as approximate as pays.
// docs/architecture.md 6.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "decode/round.h"
#include "model/exit_heads.h"

namespace specbound {

// Decides whether the row that a head has just looked at exits there. `least`: with less confidence
// none does, and its draw need not be made.
class ShouldExit {
 public:
  template <class Decide>
  ShouldExit(Decide decide, float least = kAnyConfidence)
      : decide_(std::move(decide)), least_(least) {}

  bool operator()(float confidence) const { return decide_(confidence); }
  float least() const { return least_; }

 private:
  std::function<bool(float confidence)> decide_;
  float least_;
};

class ExitHead {
 public:
  virtual ~ExitHead() = default;
  virtual const char* name() const = 0;
  // Looks at the newest row, now after `layer`, and asks once whether it exits there. The token
  // that the sampler's rule picks from the head's logits z if it does. The confidence is max
  // softmax(z / temperature) (paper Eq. 2) or what a head has in its place; NaN never passes a
  // threshold.
  virtual std::optional<int32_t> check(Round& round, int layer, float temperature,
                                       const ShouldExit& should_exit) = 0;
  // What its confidence at `layer` was found to need in training; 1: nothing.
  virtual float temperature(int layer) const {
    (void)layer;
    return 1;
  }
  // Of the last look: what the draft was drawn by, empty where that is not told, and the tokens
  // that its places stand for, empty where those are the tokens.
  virtual std::span<const float> logits(const Backend& backend) const {
    (void)backend;
    return {};
  }
  virtual std::span<const int32_t> ids(const Backend& backend) const {
    (void)backend;
    return {};
  }
  // A reply begins, or a round is over and `slot` was its last row that counts: for heads that
  // look back at the row before.
  virtual void begin() {}
  virtual void on_commit(Backend& backend, int slot) {
    (void)backend;
    (void)slot;
  }
  // Whether the newest row can be looked at: not without a state before it, where one is needed.
  virtual bool ready(const Round& round) const {
    (void)round;
    return true;
  }
};

// The logit lens: the model's own lm_head(norm(h)) at any layer. Untrained, needs no file.
class LensHead final : public ExitHead {
 public:
  const char* name() const override { return "lens"; }
  std::optional<int32_t> check(Round& round, int layer, float temperature,
                               const ShouldExit& should_exit) override;

 private:
  std::vector<float> z_;  // (vocab_size), scratch
};

// What a trained head takes for the chance that its draft is right.
enum class ConfidenceRule {
  kPeak,    // max softmax(z / temperature), the paper's
  kMargin,  // the draft's margin over the second token under the noise, calibrated (HeadWeights)
};

// Heads of one kind from a heads file, one for each layer they are asked at (ExitHeads). The
// backend must have been given the same file.
class TrainedHead final : public ExitHead {
 public:
  // `heads` must outlive it.
  TrainedHead(const ExitHeads& heads, HeadKind kind, ConfidenceRule rule = ConfidenceRule::kPeak)
      : heads_(heads), kind_(kind), rule_(rule) {}

  const char* name() const override { return head_kind_name(kind_); }
  // kMargin needs no temperature: it is calibrated at each layer.
  std::optional<int32_t> check(Round& round, int layer, float temperature,
                               const ShouldExit& should_exit) override;
  float temperature(int layer) const override;
  std::span<const float> logits(const Backend& backend) const override {
    return backend.exit_logits();
  }
  std::span<const int32_t> ids(const Backend& backend) const override { return backend.exit_ids(); }
  void begin() override;
  void on_commit(Backend& backend, int slot) override;
  bool ready(const Round& round) const override;

  HeadKind kind() const { return kind_; }
  ConfidenceRule rule() const { return rule_; }

 private:
  const ExitHeads& heads_;
  HeadKind kind_;
  ConfidenceRule rule_;
  bool has_state_ = false;  // the backend keeps one: keep_state()
  int seen_ = 0;            // slots of the round that have left their state to the next one
};

}  // namespace specbound
