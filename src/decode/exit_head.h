// What looks at the newest row of a round after some layer and guesses the token that follows it.
// A guess never changes a byte of the text, so heads may be as approximate as pays. DESIGN 6.
#pragma once

#include <cstdint>
#include <vector>

#include "decode/round.h"
#include "model/exit_heads.h"

namespace specbound {

class ExitHead {
 public:
  virtual ~ExitHead() = default;
  virtual const char* name() const = 0;
  // max softmax(z / temperature) of the head's logits z for the newest row, now after `layer`
  // (paper Eq. 2); NaN never passes a threshold.
  virtual float confidence(Round& round, int layer, float temperature) = 0;
  // What the confidence that was read last must reach for a row to leave.
  virtual float threshold(float tau) const { return tau; }
  // What the sampler's rule picks from the z that was read last.
  virtual int32_t token(Round& round) = 0;
  // A reply begins, or a round is over and `slot` was its last row that counts: for heads that
  // look back at the row before.
  virtual void begin() {}
  virtual void settled(Backend& backend, int slot) {
    (void)backend;
    (void)slot;
  }
  // Whether the newest row can be looked at; a head without a state before it cannot.
  virtual bool ready() const { return true; }
};

// The logit lens: the model's own lm_head(norm(h)) at any layer. Untrained, needs no file.
class LensHead final : public ExitHead {
 public:
  const char* name() const override { return "lens"; }
  float confidence(Round& round, int layer, float temperature) override;
  int32_t token(Round& round) override;

 private:
  std::vector<float> z_;  // (vocab_size)
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
  float confidence(Round& round, int layer, float temperature) override;
  int32_t token(Round& round) override;
  void begin() override { has_state_ = false; }
  void settled(Backend& backend, int slot) override;
  bool ready() const override { return kind_ != HeadKind::kChained || has_state_; }

  HeadKind kind() const { return kind_; }
  ConfidenceRule rule() const { return rule_; }

 private:
  int32_t draw(Round& round, double* margin = nullptr) const;

  const ExitHeads& heads_;
  HeadKind kind_;
  ConfidenceRule rule_;
  int32_t token_ = 0;   // of the last check, where it is known already:
  bool drawn_ = false;  // otherwise token() draws it
  bool has_state_ = false;
};

}  // namespace specbound
