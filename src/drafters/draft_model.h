// A second, smaller model of the same vocabulary drafts: speculative decoding as first described
// (Leviathan et al. 2023, arXiv:2211.17192). It picks tokens as the target does, from the same
// history and, unless rejection is asked for, with the same noise; it stops where it is unsure.
#pragma once

#include <cstdint>
#include <vector>

#include "decode/acceptance.h"
#include "decode/rejection.h"
#include "drafters/guesser.h"

namespace specbound {

class DraftModel final : public Guesser {
 public:
  static constexpr float kTau = 0.4f;

  // `backend` is the drafter's, outlives this and is used by nobody else; it has the target's
  // vocabulary. Drafts up to w_max rows, 1..kMaxRows, while the probability of the likeliest token
  // is at least `tau`, 0..1. The acceptance is for temperatures above 0; at 0 both are the same. By
  // rejection each row of the path has up to `n_siblings` drafts behind it, 1..kMaxProposals, of
  // which the first goes on.
  DraftModel(Backend& backend, int w_max, float tau, Acceptance acceptance, int n_siblings = 1);

  const char* name() const override { return "draft"; }
  int width() const override { return w_max_; }
  float tau() const { return tau_; }
  Acceptance acceptance() const { return acceptance_; }
  bool decides_text() const override { return acceptance_ == Acceptance::kRejection; }
  int n_siblings() const { return n_siblings_; }

  void forget() override { text_.clear(); }
  // Brings the drafter to the round's text first: what it has read and that begins with is kept,
  // the rest read. Behind the end of its own context it drafts nothing.
  DraftEnd draft(Round& round) override;

  // One stage, by the coupled draw.
  int stages() const override { return 1; }
  double assumed_cost(int) const override { return 0.4; }
  bool ready(const Round& round) const override;
  std::optional<Guess> guess(Round& round, int stage) override;

 private:
  struct Sibling {
    int parent;
    int32_t token;
  };

  DraftEnd draft_path(Round& round);
  bool look(Round& round, float& confidence);
  bool read(const Round& round);

  Backend& backend_;
  int w_max_;
  float tau_;
  Acceptance acceptance_;
  int n_siblings_;
  std::vector<Sibling> siblings_;  // of the round: drafts beside its path
  std::vector<int32_t> text_;      // that its K/V are of: committed tokens, and drafts behind them
  std::vector<float> logits_;      // (vocab_size): of the newest row
};

}  // namespace specbound
