// What the live panel shows, gathered from the worker's events, live or from a trace file: for each
// reply one column a token of its text, and the figures that the plots draw. Bounded in memory: the
// oldest replies go. No drawing.
#pragma once

#include <cmath>
#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "gui/worker/messages.h"
#include "trace/counters.h"
#include "trace/plain_rate.h"

namespace specbound::gui {

// A place in the text, in the chat and in the layer map alike.
struct TokenRef {
  uint64_t reply = 0;
  int index = 0;  // of the token in its reply
  bool operator==(const TokenRef&) const = default;
};

// How a token came about.
enum class TokenKind {
  kVerified,  // from the last layer, nothing had been drafted
  kAccepted,  // drafted at its exit layer, and right
  kRejected,  // another token had been drafted at the exit layer; this is the last layer's
};

// A layer's guess as it is kept: its text is TraceModel::text().
struct Guess {
  int32_t token = 0;
  float probability = 0;
};

// A token of the text. `token.checks` are those that were to find it early, in order; where it was
// drafted, it exited at the last of them.
struct Column {
  TokenRecord token;
  std::vector<Guess> guesses;  // [layer - 1], by the logit lens; empty until computed
  std::string draft_text;      // of a rejected draft; empty: not known
  int dropped = 0;             // drafts behind a rejected one, which went with it

  TokenKind kind() const {
    if (token.draft < 0) return TokenKind::kVerified;
    return token.accepted() ? TokenKind::kAccepted : TokenKind::kRejected;
  }
};

// A stretch of a reply's time: some rounds.
struct RateSlice {
  double seconds = 0;  // how long it lasted
  int tokens = 0;
  int rounds = 0;
  double end = 0;  // seconds of decoding until its end
};

// What came of an exit head's check.
enum class CheckResult { kContinued, kRight, kWrong, kDropped };
struct CheckOutcome {
  int layer = 0;
  float confidence = 0;
  CheckResult result = CheckResult::kContinued;
};

// Drafts by what became of them.
struct DraftCount {
  int accepted = 0;
  int rejected = 0;  // the first wrong one of a round
  int dropped = 0;   // behind it, or behind the end of the reply: not verified
  int total() const { return accepted + rejected + dropped; }
  // Of those that were verified; nullopt without any.
  std::optional<double> acceptance() const {
    if (accepted + rejected == 0) return std::nullopt;
    return static_cast<double>(accepted) / (accepted + rejected);
  }
};

// The settings of a reply from a column on.
struct SettingsFrom {
  int column = 0;
  TraceReply reply;
};

struct ReplyTrace {
  uint64_t id = 0;
  int n_layers = 0;                    // of the model that wrote it; 0: not known
  std::vector<SettingsFrom> settings;  // ascending, the newest changes only
  std::vector<Column> columns;
  std::vector<RateSlice> slices;  // ascending, bounded: older ones are joined
  Counters counters;
  int verified = 0;                      // tokens that nothing had been drafted for
  std::vector<DraftCount> drafts_at;     // [layer], 0: before any layer
  std::vector<DraftCount> drafts_place;  // [place in the round, from 0]
  std::deque<CheckOutcome> checks;       // newest ones, bounded
  double seconds = 0;                    // of decoding so far
  int slice_rounds = 4;                  // of a slice at least: one alone says little of a rate
  std::optional<double> plain_seconds;   // a plain token, once measured
  bool over = false;
  std::string stop;  // stop reason, once over

  const TraceReply& newest_settings() const {
    return settings_at(static_cast<int>(columns.size()));
  }
  // Those that the token of a column was decoded with.
  const TraceReply& settings_at(int column) const;
  std::optional<double> tokens_per_second() const {
    return ratio(counters.decoded_tokens, seconds);
  }
  std::optional<double> plain_tokens_per_second() const {
    return plain_seconds ? ratio(1, *plain_seconds) : std::nullopt;
  }
  std::optional<double> speedup() const;            // over plain; only where something can draft
  std::optional<double> compression_rate() const {  // tokens a round
    return ratio(counters.decoded_tokens, counters.rounds);
  }
  // nullopt where there is none.
  static std::optional<double> ratio(double a, double b) {
    const double value = a / b;
    return b > 0 && std::isfinite(value) ? std::optional(value) : std::nullopt;
  }
};

class TraceModel {
 public:
  static constexpr size_t kMaxColumns = 150'000;  // of all replies; the newest stays whole
  static constexpr size_t kMaxReplies = 400;
  static constexpr size_t kMaxSlices = 400;
  static constexpr size_t kMaxChecks = 4000;
  static constexpr size_t kMaxSettings = 64;

  // A model was loaded: what was measured on the one before says nothing of it. The replies stay,
  // with the layers that they came through.
  void set_model(int n_layers);
  int n_layers() const { return n_layers_; }

  // Takes whatever of an event is its own.
  void apply(const WorkerEvent& event);

  // ---- what events come to, live or from a file ----
  // Of an id that is not known (it went, or never began) are passed over.
  void begin_reply(uint64_t id, const TraceReply& settings);
  // `seconds`: of decoding so far.
  void round(uint64_t id, const RoundRecord& round, double seconds);
  void apply_settings(uint64_t id, const TraceReply& settings);
  void end_reply(uint64_t id, const std::string& stop);
  void guesses(uint64_t id, int pos, const std::vector<LayerGuess>& layers);
  void forget(uint64_t id);
  void clear();  // as at the start, of the same model

  // ---- for the views ----
  const std::list<ReplyTrace>& replies() const { return replies_; }  // oldest first
  const ReplyTrace* find(uint64_t id) const;
  const ReplyTrace* newest() const { return replies_.empty() ? nullptr : &replies_.back(); }
  const Column* find(const TokenRef& ref) const;
  // Bytes of a token as far as they are known: it was in a text, or a guess.
  std::optional<std::string> text(int32_t token) const;
  // Grows with every event: what was drawn from a lower one is out of date.
  uint64_t version() const { return version_; }
  size_t columns() const { return n_columns_; }  // of all replies

 private:
  ReplyTrace* open(uint64_t id);
  void count_drafts(ReplyTrace& reply, const RoundRecord& round);
  void add_slice(ReplyTrace& reply, const RoundRecord& round, double seconds);
  void make_room();

  int n_layers_ = 0;
  std::list<ReplyTrace> replies_;
  std::unordered_map<uint64_t, std::list<ReplyTrace>::iterator> by_id_;
  std::unordered_map<int32_t, std::string> texts_;
  PlainRate plain_;
  std::optional<double> plain_seconds_;  // once there are rounds enough
  size_t n_columns_ = 0;
  uint64_t version_ = 0;
};

}  // namespace specbound::gui
