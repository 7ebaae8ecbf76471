// The figures of one reply: as one line for people and as JSON for programs.
// docs/architecture.md 10.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "decode/generate.h"

namespace specbound {

class ExitHeads;

// When the program started (static initialization): start-to-first-token counts from here.
std::chrono::steady_clock::time_point program_start();

struct ReplyStats {
  GenerateStats generated;
  uint64_t seed = 0;
  uint32_t reply = 0;
  std::string model;                 // path
  int n_ctx = 0, n_ctx_trained = 0;  // context as it is and as it could be; 0: not known
  std::string backend;               // Backend::description()
  std::string heads;                 // the file of those that drafted; empty: none did
  int64_t heads_learnt = 0;          // tokens that these were trained on; 0: not known
  double load_seconds = 0;
  std::optional<double> start_to_first_token_seconds;

  // Tokens the decode loop produced, the end token counted, per second or round; nullopt where
  // nothing was measured.
  std::optional<double> decode_tokens_per_second() const;
  std::optional<double> prefill_tokens_per_second() const;
  std::optional<double> compression_rate() const;
  // Of the accepted drafts.
  std::optional<double> mean_exit_layer() const { return generated.counters.mean_exit_layer(); }
  // What plain decoding gives: of the session's newest plain rounds, generated.plain_rounds many.
  std::optional<double> plain_tokens_per_second() const;
  // Over plain decoding, of a speculative reply that shared no pass, where it tells something:
  // told_speedup() of trace/speedup.h.
  std::optional<double> speedup() const;
};

// Says which heads drafted the reply; nullptr: none.
void name_heads(ReplyStats& stats, const ExitHeads* heads);

// For people; names parameters.
std::string stats_line(const ReplyStats& stats);

// The figures of the replies of a session together.
struct TotalStats {
  int replies = 0;
  int generated_tokens = 0;
  int prefilled_tokens = 0;
  Counters all, speculative;  // of all replies, and of those that speculated
  DraftPlaces places;
  double decode_seconds = 0;
  double prefill_seconds = 0;

  void add(const GenerateStats& reply);
};

// For people. `n_used` of `n_ctx` positions of the context are taken; `speculating`: the next reply
// will.
std::string totals_line(const TotalStats& totals, size_t n_used, int n_ctx, bool speculating);

// {"2": accepted drafts that left at layer 2, ...}, without layers that have none.
nlohmann::ordered_json accepted_by_layer(const Counters& counters);

// A JSON object on lines of its own. Unknown figures are null; no NaN or infinity ever gets in.
std::string stats_json(const ReplyStats& stats);

}  // namespace specbound
