// Kangaroo (Liu et al., arXiv 2404.18911): the model's own first layers and an adapter behind them
// draft, one token after the other, and drafting stops early where the adapter is unsure (double
// early exiting). What those layers leave is what verification goes on from, so a draft costs the
// adapter and the model's head. docs/architecture.md 6.
#pragma once

#include "decode/speculator.h"
#include "model/exit_heads.h"

namespace specbound {

// The defaults are the paper's: gamma = 6 drafts, eta = 0.6.
struct KangarooParams {
  int w_max = 7;     // rows of a round at most, 1..kMaxRows
  float eta = 0.6f;  // drafts go on behind one whose share is eta or more, 0..1
};

// Throws Error(kUsage) naming the flag, what is possible, and what was given.
void validate(const KangarooParams& params);

class Kangaroo final : public Speculator {
 public:
  // `heads` has an adapter (HeadKind::kKangaroo), and the backend was given the same file; `params`
  // must pass validate().
  Kangaroo(const ExitHeads& heads, const KangarooParams& params);

  const char* name() const override { return "kangaroo"; }
  int width() const override { return params_.w_max; }
  int layer() const { return layer_; }  // that the adapter stands behind
  const KangarooParams& params() const { return params_; }
  DraftEnd draft(Round& round) override;

 private:
  const KangarooParams params_;
  const int layer_;
  const int head_;  // index into ExitHeads::heads()
};

}  // namespace specbound
