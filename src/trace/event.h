// What the decode loop tells about its work: one event for every token and one for every round.
// docs/architecture.md 9. Spans live as long as the call that hands the event over.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <span>

namespace specbound {

// Where the time of a round goes. On a backend whose calls return before they are done it goes to
// where the loop waits for values: layers to the check, or the logits, behind them.
enum class Phase { kDraft, kCheck, kVerify, kLogits, kSample };
inline constexpr int kPhases = 5;
inline constexpr std::array<const char*, kPhases> kPhaseNames = {"draft", "check", "verify",
                                                                 "logits", "sample"};

// `ns` by phase.
inline double seconds_of(const std::array<int64_t, kPhases>& ns,
                         std::initializer_list<Phase> phases) {
  int64_t sum = 0;
  for (const Phase phase : phases) sum += ns[static_cast<size_t>(phase)];
  return 1e-9 * static_cast<double>(sum);
}

// Why a round stopped drafting.
enum class DraftEnd {
  kPlain,      // one row was permitted: by the budget, the context or a measurement; or there was
               // nothing to draft with
  kWidth,      // as many rows as permitted, or as are expected to pay
  kDifficult,  // no check up to the depth bound let the row leave, no source had what pays
  kReplyEnd,   // the draft would have ended the reply
  kAborted,
};
inline constexpr std::array<const char*, 5> kDraftEndNames = {"plain", "width", "difficult",
                                                              "reply_end", "aborted"};

// One look of an exit head at a row.
struct ExitCheck {
  int layer;
  float confidence;  // compared with tau
};

// A stretch of layers that ran on rows [slot, slot + rows) together.
struct LayerPass {
  int from, to;  // layers, both included
  int slot, rows;
  Phase phase;

  bool operator==(const LayerPass&) const = default;
};

// What stands for a layer where nothing was drafted. Drafts made before any layer have layer 0.
inline constexpr int kNoDraft = -1;

// A row of a round, and the search for the token after it. Rows are a tree: each stands behind its
// parent; most rounds are chains, where the parent is the row before. `Checks`: of ExitCheck.
template <class Checks>
struct RowOf {
  int32_t token = 0;          // the row's own: the root's or a draft
  int exit_layer = kNoDraft;  // where it was left for rows behind it, the deepest place
  Checks checks;              // in the order they were made
  int parent = -1;            // slot; -1: it is the root
  int drafted_at = kNoDraft;  // where its parent was left for it
};
using RowEvent = RowOf<std::span<const ExitCheck>>;

// Each row stands behind the one before it. Of RowEvents or RowRecords.
template <class Rows>
bool is_chain(const Rows& rows) {
  int before = -1;
  return std::ranges::all_of(rows, [&](const auto& row) { return row.parent == before++; });
}

// The slot of what was drafted for the place that `token` took behind row `slot`: of the child that
// holds it, else of the first child; -1: nothing was.
template <class Rows>
int drafted_for(const Rows& rows, int slot, int32_t token) {
  int draft = -1;
  for (int i = slot + 1; i < static_cast<int>(rows.size()); ++i) {
    if (rows[i].parent != slot) continue;
    if (rows[i].token == token) return i;
    if (draft < 0) draft = i;
  }
  return draft;
}

template <class Checks>
struct TokenOf {
  int round = 0;  // of the reply, from 0
  int rows = 1;   // of that round
  int slot = 0;   // the row whose logits gave the token
  int pos = 0;    // in the text
  int32_t token = 0;
  int32_t draft = -1;         // what had been drafted for it (drafted_for()); -1: nothing
  int exit_layer = kNoDraft;  // where that draft was taken
  bool ends_reply = false;    // an end token: the text stops before it
  Checks checks;              // of the row in `slot`

  bool accepted() const { return draft == token; }
};
using TokenEvent = TokenOf<std::span<const ExitCheck>>;

template <class Rows, class Tokens, class Passes>
struct RoundOf {
  int round = 0;
  int pos = 0;  // of the root
  DraftEnd draft_end = DraftEnd::kPlain;
  Rows rows;
  Tokens tokens;  // what it gave the text: 1..rows
  Passes passes;
  std::array<int64_t, kPhases> ns{};  // by Phase
  double decode_seconds = 0;          // of the reply so far, as GenerateStats has it

  // A row of plain decoding, for which nothing was drafted or looked at.
  bool plain() const { return rows.size() == 1 && draft_end == DraftEnd::kPlain; }
  int drafted() const { return static_cast<int>(rows.size()) - 1; }
  int64_t total_ns() const { return std::accumulate(ns.begin(), ns.end(), int64_t{0}); }
  double seconds(std::initializer_list<Phase> phases) const { return seconds_of(ns, phases); }
};
using RoundEvent =
    RoundOf<std::span<const RowEvent>, std::span<const TokenEvent>, std::span<const LayerPass>>;

}  // namespace specbound
