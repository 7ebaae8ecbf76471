// SpecBound, then prompt lookup: where the model's own drafts stop before the round is full, what
// came after the same tokens before fills the rows that verification has left. They have been
// through no layer and ride along in its passes.
#pragma once

#include "decode/ngram.h"
#include "decode/speculator.h"

namespace specbound {

class HybridSpeculator final : public Speculator {
 public:
  // `first` drafts before the lookup and must outlive it. 1 <= n_max <= NgramSpeculator::kMaxNgram.
  HybridSpeculator(Speculator& first, int n_max) : first_(first), n_max_(n_max), index_(n_max) {}

  const char* name() const override { return "hybrid"; }
  int width() const override { return first_.width(); }
  Control control() const override { return first_.control(); }
  int n_max() const { return n_max_; }

  void begin(std::span<const int32_t> text) override;
  DraftEnd draft(Round& round) override;
  void accept(Backend& backend, const RoundEvent& round) override;

 private:
  Speculator& first_;
  int n_max_;
  NgramIndex index_;
};

}  // namespace specbound
