// Lookahead decoding (Fu et al. 2024, arXiv 2402.02057): no model, no training, no text to look up
// in. Beside the drafts of a round run rows of a window, which guesses all places to come at once
// (a Jacobi iteration): what the model says behind them now are their guesses of the next round.
// N-grams that a column of the window went through are kept by their first token; those that begin
// with the root are the drafts.
//
// The window is rows with parents, as the paper's mask has it: level 0 is a chain behind the root,
// the first column, and each further level stands behind the one before it in its column. So a row
// of the window that happens to be right is accepted like any draft.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "decode/speculator.h"

namespace specbound {

struct LookaheadParams {
  int window = 3;   // W: columns
  int ngram = 4;    // N: tokens of an n-gram; the window has N - 1 levels
  int guesses = 2;  // G: n-grams that are kept for a token, and drafted

  // Rows of a round: the window with the root, and the drafts.
  int rows() const { return (window + guesses) * (ngram - 1); }
};
// Throws Error(kUsage) where a round has not that many rows, or a number is out of its range.
void validate(const LookaheadParams& params);
// "3,4,2"
std::string lookahead_text(const LookaheadParams& params);

class Lookahead final : public Speculator {
 public:
  explicit Lookahead(const LookaheadParams& params);

  const char* name() const override { return "lookahead"; }
  int width() const override { return params_.rows(); }
  const LookaheadParams& params() const { return params_; }
  // Its guesses, [level][column]; [0][0] is the root of the next round.
  const std::vector<std::vector<int32_t>>& window() const { return window_; }
  void forget() override { pool_.clear(); }
  void begin(std::span<const int32_t> text) override;
  DraftEnd draft(Round& round) override;
  void accept(Backend& backend, const RoundEvent& round) override;

 private:
  using Ngram = std::vector<int32_t>;  // without its first token

  int levels() const { return params_.ngram - 1; }
  int last_level(int column) const { return slots_[levels() - 1][column]; }
  void draft_ngrams(Round& round);
  void draft_window(Round& round);
  int32_t filler();
  int place(Round& round, int parent, int32_t& token);
  bool look(Backend& backend, std::span<int32_t> said);
  void keep(int column, int32_t said);

  const LookaheadParams params_;
  std::vector<std::vector<int32_t>> window_;             // [level][column]; [0][0]: the root
  std::vector<std::vector<int>> slots_;                  // likewise, of this round; -1: none
  std::unordered_map<int32_t, std::deque<Ngram>> pool_;  // by first token, newest first
  std::vector<int32_t> text_;                            // the prompt, of which fillers are
  uint64_t drawn_ = 0;                                   // fillers so far
  std::vector<float> z_;                                 // (W, vocab_size)
};

}  // namespace specbound
