// Draft & Verify (Zhang et al., arXiv 2309.08168): the model drafts for itself with some of its
// layers left out, as far as a threshold on the likeliest token's share allows that follows
// acceptance. Nothing that it computes is of use to verification: K/V behind a layer left out are
// another model's. The paper leaves attention and MLP out apart from each other; here a layer runs
// whole or not at all.
#pragma once

#include <vector>

#include "decode/speculator.h"
#include "drafters/exit_head.h"

namespace specbound {

struct DraftVerifyParams {
  std::vector<int> skipped;  // layers left out, ascending, 1..L
  int w_max = 8;             // rows of a round at most, 1..kMaxRows
  float tau = 0.6f;          // the threshold at first, 0..1
};

// Every second layer from 3 on, but for the last two; the middle one where that leaves none out.
std::vector<int> default_skipped_layers(int n_layers);

// Throws Error(kUsage) naming the flag, what is possible in a model of n_layers, and what was
// given.
void validate(const DraftVerifyParams& params, int n_layers);

class DraftVerify final : public Speculator {
 public:
  static constexpr float kTarget = 0.9f;  // share of drafts that should be right

  // `params` must pass validate().
  explicit DraftVerify(const DraftVerifyParams& params) : params_(params), tau_(params.tau) {}

  const char* name() const override { return "draft-verify"; }
  int width() const override { return params_.w_max; }
  DraftEnd draft(Round& round) override;
  void accept(Backend& backend, const RoundEvent& round) override;

  const DraftVerifyParams& params() const { return params_; }
  float tau() const { return tau_; }  // as of now; kept from reply to reply

 private:
  DraftEnd guess(Round& round);

  DraftVerifyParams params_;
  LensHead head_;
  float tau_;
  float accepted_ = kTarget;  // share of drafts, moving
};

}  // namespace specbound
