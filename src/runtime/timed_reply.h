// One prompt answered once by a Session, from an empty cache, with its times: what `bench` and
// `spec-bench` measure. Plain and speculative replies are timed and counted by the same code.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "decode/generate.h"

namespace specbound {

struct TimedRequest {
  std::span<const int32_t> prompt;    // at least one token, at most n_ctx
  int max_tokens = -1;                // -1: until the reply ends or the context is full
  std::function<bool(int32_t)> ends;  // ends the reply, as LoadedModel::ends_reply; empty: nothing
  uint32_t reply = 0;                 // as GenerateOptions::reply
  const std::atomic<bool>* abort = nullptr;     // as GenerateOptions::abort
  std::function<void(int tokens)> on_progress;  // after each token; its time is not counted
};

// Seconds of the wall clock, without the time spent in on_progress. Making the prompt's tokens and
// turning the reply's into text are not among them.
struct TimedReply {
  std::vector<int32_t> tokens;    // of the reply; an end token is not one of them, its time counts
  GenerateStats stats;            // stats.stop == kAborted: the rest is of no use
  std::vector<int> round_tokens;  // [round]: what it gave the text, an end token counted
  double prefill_seconds = 0;     // the prompt but for its last token
  double ttft_seconds = 0;    // from the call to the first token, an end token too; 0: none came
  double decode_seconds = 0;  // from the end of prefill to the last token
  double total_seconds = 0;   // prefill and decode

  bool aborted() const { return stats.stop == StopReason::kAborted; }
  int n_tokens() const { return static_cast<int>(tokens.size()); }
  // What the clock saw, an end token counted, as in Spec-Bench's new_tokens: rates are of these.
  int timed_tokens() const { return stats.counters.decoded_tokens; }
  // The same text, ended by the same cause.
  bool same_text(const TimedReply& other) const {
    return tokens == other.tokens && stats.stop == other.stats.stop;
  }
  // Seconds of each token behind the first (TPOT); 0 with fewer than two.
  double tpot_seconds() const {
    return timed_tokens() > 1 ? (total_seconds - ttft_seconds) / (timed_tokens() - 1) : 0;
  }
  int rounds() const { return stats.counters.rounds; }
};

// Empties the session's cache and its speculator's, so that both read the whole prompt, and waits
// for the backend before the clock starts. What drafts is the session's (Session::set_speculator).
// Throws what Session::generate() does.
TimedReply timed_reply(Session& session, const TimedRequest& request);

}  // namespace specbound
