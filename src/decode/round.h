// One round of the decode loop: the rows under way, what they are drafted from, and how far each
// has come. A speculator appends rows and runs shallow layers; the loop runs the rest and verifies.
// docs/architecture.md 3.2; the paper's Cache Manager is kv_len(l) and one hidden vector a row,
// both the backend's.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "decode/row_sampler.h"
#include "decode/sampler.h"
#include "engine/backend.h"
#include "error.h"
#include "trace/event.h"

namespace specbound {

// What came of a round's rows in a pass that others share, until the round is over: their logits
// (rows, vocab_size), or in place of them the draws after each.
struct GivenRows {
  std::span<const float> logits;
  std::span<const RowDraw> draws;
};

class Round {
 public:
  struct Limits {
    int width = 1;  // rows permitted, 1..kMaxRows
    // Its rows go through all layers in a pass with those of other texts: until then none runs,
    // and there are no masks.
    bool shared = false;
    int number = 0;       // of the round, in its reply
    uint32_t reply = 0;   // for the noise
    bool logits = false;  // those of tokens are wanted too
    const std::atomic<bool>* abort = nullptr;
    // The reply ends with the last token of this text. Empty: nothing ends it.
    std::function<bool(std::span<const int32_t>)> ends;
  };

  // `text`: the committed tokens; behind them stands a path of drafts while a round lasts.
  Round(Backend& backend, Sampler& sampler, std::vector<int32_t>& text)
      : backend_(backend), sampler_(sampler), text_(text), row_sampler_(backend, sampler) {}

  Round(const Round&) = delete;
  Round& operator=(const Round&) = delete;

  // A round of the last committed token, the root.
  void start(Limits limits);

  // ---- what a speculator sees ----

  int pos() const { return pos_; }  // of the root
  int rows() const { return static_cast<int>(rows_.size()); }
  int32_t token(int slot) const { return rows_[slot].token; }
  int depth(int slot) const { return paths_[slot].depth; }  // rows before it on its path
  // The row behind row `slot` that holds `token`; -1: none.
  int child(int slot, int32_t token) const;
  bool has_child(int slot) const;
  int newest() const { return rows() - 1; }                     // the slot of the newest row
  int room() const { return limits_.width - rows() - masks_; }  // for more rows
  bool full() const { return room() <= 0; }
  bool aborted() const;
  int rows_run() const;  // rows that a layer has run on
  Backend& backend() const { return backend_; }
  Sampler& sampler() const { return sampler_; }

  // What is before the token after row `slot`: the committed text and the path to that row. Holds
  // until the history of a row on another path is asked for, or a row comes.
  std::span<const int32_t> history(int slot) const;
  // Where in the noise the token after row `slot` is drawn.
  DrawPlace place(int slot) const { return sampler_.place(limits_.reply, history(slot)); }

  // Runs layers from..to on every row that has not been through them: at each layer a contiguous
  // suffix, so that rows that lag behind catch up in the same batch. False when aborted.
  bool run(int from, int to);

  // For a guess by the model with layers left out: the newest row alone through all layers but
  // those of `skipped` (ascending, 1..L), which it passes by. False when aborted. What it leaves is
  // of no use to verification: rewind() when drafting is over.
  bool run_newest_without(std::span<const int> skipped);
  // No layer has run on any row.
  void rewind();

  // What the sampler's rule picks from logits z for the token after the newest row, with the noise
  // that the target will be drawn with: draft and target agree far more often than independent
  // draws would.
  int32_t draw(std::span<const float> z);
  // Drafts after the newest row from the distribution of logits z, with noise of their own, for a
  // temperature above 0: up to n, as decode/rejection.h has it. All must be appended there, in
  // their order, whatever tokens they are: the target is then drawn by rejection, in place of the
  // sampler's rule.
  std::vector<int32_t> propose(std::span<const float> z, int n = 1);
  // Drafts of this round stay by typical acceptance (decode/typical_acceptance.h), for a
  // temperature above 0: of the paths whose tokens all do the longest, of equals the likeliest.
  // What comes behind it is drawn by the sampler's rule.
  void accept_typical() {
    SB_CHECK(!limits_.shared && sampler_.params().temperature > 0);
    typical_ = true;
  }
  // Exit head `head` looks at the newest row; the token after it is drawn by the same rule as in
  // draw().
  RowSampler::Check check(int head, float temperature, const WantedDraw& wanted = {});
  // What drafts beside the model has run: the time since the last call was for that.
  void ran_beside() { spent(Phase::kDraft); }
  // The newest row was looked at after `layer`.
  void checked(int layer, float confidence);
  // The reply would end with `token` after the newest row, or row `slot`, or `token` may not follow
  // it: no row after it can be used.
  bool would_end(int32_t token) { return would_end(newest(), token); }
  bool would_end(int slot, int32_t token);
  // A new row: `token`, drafted from the newest row after `exit_layer` (0: before any, or by
  // layers that verification runs again);
  void append(int32_t token, int exit_layer) { append_to(newest(), token, exit_layer); }
  // or from row `parent`, none of whose children holds it yet.
  void append_to(int parent, int32_t token, int exit_layer);
  // A row that stands for a token to come, number `i` of `masks`: it is run with the others and is
  // no draft, so that rows() and the round's record are without it. Behind row `parent`, a draft or
  // another mask; the slot that it has. No draft comes after it.
  int append_mask(int parent, const MaskTokens& masks, int i);
  // The rows behind row `slot` go. No layer has run on any of them.
  void drop_behind(int slot);

  // ---- what the loop does after it ----

  // All layers on all rows, then their logits or draws. False when aborted.
  bool verify();
  // In place of it where the pass is shared: the rows go into the backend's slots from `slot` on,
  void enter(int slot);
  const RowPath* paths() const { return &paths_[0]; }  // [row]
  // and when they went through all layers there, what became of them is taken.
  void take(const GivenRows& given);
  // The target after row `slot`; rows above it must not have been dropped.
  int32_t sample(int slot);
  // The model's logits of that row, until those of another are asked for.
  std::span<const float> logits(int slot) { return row_sampler_.logits(slot); }
  // That row (dim) as the last layer left it, until the next pass.
  std::span<const float> state(int slot) const { return backend_.inspect().hidden(first_ + slot); }
  // `token` follows row `slot` in the text.
  const TokenEvent& emitted(int slot, int32_t token, bool ends_reply);
  // Row `slot` was the last one whose token counts: its K/V and those of the path to it stay, all
  // other drafts go, and `token` becomes the pending root.
  void commit(int slot, int32_t token);
  // As if the round had not been.
  void undo();
  // After an exception from anywhere in the round: the tokens that were emitted stay.
  void recover();
  // Between rounds: memory that comes back with the next one goes, and who limited the last.
  void rest();

  RoundEvent event(DraftEnd draft_end);

 private:
  void embed(int32_t token, int parent);
  int32_t target(int slot);
  void spent(Phase phase);

  Backend& backend_;
  Sampler& sampler_;
  std::vector<int32_t>& text_;
  RowSampler row_sampler_;
  Limits limits_;
  int pos_ = 0;
  int first_ = 0;                  // slot of the backend that row 0 has
  Phase running_ = Phase::kDraft;  // what layers run for
  bool committed_ = false;
  std::vector<RowEvent> rows_;
  int masks_ = 0;  // rows behind those
  RowPaths paths_;
  mutable int shown_ = 0;                       // text_ ends with the path to this row
  std::vector<std::vector<ExitCheck>> checks_;  // [slot]; kept between rounds for their storage
  std::vector<TokenDistribution>
      proposals_;             // [slot]: what the drafts after it came from; else empty
  TokenDistribution target_;  // scratch
  bool typical_ = false;
  std::array<int, kMaxRows>
      stays_{};  // [slot], where typical_: the draft behind it that does; or -1
  std::vector<LayerPass> passes_;
  std::vector<TokenEvent> tokens_;
  std::array<int64_t, kPhases> ns_{};
  std::chrono::steady_clock::time_point mark_;  // up to here time is accounted for
};

}  // namespace specbound
