// SpecBound, then prompt lookup: where the model's own drafts stop before the round is full, what
// came after the same tokens before fills the rows that verification has left. They have been
// through no layer and ride along in its passes.
#pragma once

#include <array>

#include "decode/acceptance_table.h"
#include "decode/ngram.h"
#include "decode/specbound.h"

namespace specbound {

// How often what was looked up is the text's next token, by how many tokens before it are those of
// the place that it was found at.
class LookupOdds {
 public:
  double chance(int run) const;
  void learn(int run, bool right);
  // A round begins: what was long ago counts less.
  void fade();

 private:
  static constexpr int kRuns = 8;  // 1 to 4 tokens, to 6, to 8, to 16, more
  static int place(int run);

  std::array<FadingCount, kRuns> counts_;
};

class HybridSpeculator final : public Speculator {
 public:
  // `first` drafts before the lookup and must outlive it. Where a policy decides for it, only rows
  // that are expected to pay are looked up. 1 <= n_max <= NgramSpeculator::kMaxNgram.
  HybridSpeculator(SpecBound& first, int n_max) : first_(first), n_max_(n_max), index_(n_max) {}

  const char* name() const override { return "hybrid"; }
  int width() const override { return first_.width(); }
  Control control() const override { return first_.control(); }
  int n_max() const { return n_max_; }
  const LookupOdds& odds() const { return odds_; }

  void begin(std::span<const int32_t> text) override;
  DraftEnd draft(Round& round) override;
  void accept(Backend& backend, const RoundEvent& round) override;

 private:
  int paying(const Round& round) const;

  SpecBound& first_;
  int n_max_;
  NgramIndex index_;
  LookupOdds odds_;

  // Of the round under way.
  int own_ = kMaxRows;  // rows before what was looked up
  int run_ = 0;         // tokens that led to it
};

}  // namespace specbound
