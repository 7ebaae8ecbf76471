// Prompt lookup: drafts what came after the last tokens where they stood before, in the prompt or
// the reply. No model, no training: the baseline that other drafters are compared with.
// https://github.com/apoorvumang/prompt-lookup-decoding
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "decode/speculator.h"

namespace specbound {

// Where runs of tokens stood last in a text that grows at its end: the place behind each run of up
// to n_max tokens, its newest one that something follows. Constant time a token.
class NgramIndex {
 public:
  explicit NgramIndex(int n_max) : n_max_(n_max) {}

  // From here on the text is this one. What the old text begins with like it is not read again,
  // unless the old one went on otherwise.
  void assign(std::span<const int32_t> text);
  void push(int32_t token);
  const std::vector<int32_t>& text() const { return text_; }

  // The place behind the newest earlier run of the longest n <= n_max tokens that end the text;
  // -1 when not even the last token was there before.
  int find() const { return find(text_); }
  // The same for a text that begins with this one; what is behind this one is not looked up in.
  int find(std::span<const int32_t> text) const;

 private:
  int n_max_;
  std::vector<int32_t> text_;
  std::unordered_map<uint64_t, int> behind_;
};

// Fills the round, with `most` rows at most, with what stands in its text from `place` on: behind
// the end of the text stand the drafts, and what repeats itself goes on doing so. kWidth or
// kReplyEnd.
DraftEnd draft_from(Round& round, int place, int most = kMaxRows);

class NgramSpeculator final : public Speculator {
 public:
  static constexpr int kMaxNgram = 16;

  // 1 <= n_max <= kMaxNgram; 1 <= w_max <= kMaxRows.
  NgramSpeculator(int n_max, int w_max) : n_max_(n_max), w_max_(w_max), index_(n_max) {}

  const char* name() const override { return "ngram"; }
  int width() const override { return w_max_; }
  int n_max() const { return n_max_; }

  void begin(std::span<const int32_t> text) override { index_.assign(text); }
  DraftEnd draft(Round& round) override;
  void accept(Backend& backend, const RoundEvent& round) override;

 private:
  int n_max_, w_max_;
  NgramIndex index_;
};

}  // namespace specbound
