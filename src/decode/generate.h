// The decode loop. Between rounds, after prefill and after a reply: N tokens are committed,
// kv_len[l] = N-1 for all l, and the last committed token is the pending root. Prefill covers all
// but the last prompt token, so regenerating a reply and a one-token prompt are exact for free.
// DESIGN 3.2.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "decode/sampler.h"
#include "engine/backend.h"

namespace specbound {

enum class StopReason { kEnd, kLength, kContext, kAborted };
const char* stop_reason_name(StopReason reason);  // "end", "length", "context", "aborted"

struct GenerateOptions {
  int max_tokens = -1;  // -1: until the end token or the context is full
  uint32_t reply = 0;  // reply number: /regen advances it, so the text changes while the seed stays
  std::function<bool(int32_t)> is_end;       // ends the reply; the token is not emitted to on_token
  std::function<void(int32_t)> on_token;     // each emitted token, in order
  const std::atomic<bool>* abort = nullptr;  // looked at once a round and after each prefill chunk
  std::function<void(int done, int total)> on_prefill;
};

struct GenerateStats {
  int prompt_tokens = 0;     // whole prompt
  int prefilled_tokens = 0;  // of these, run now; the rest was in the cache
  int generated_tokens = 0;  // emitted, the end token not counted
  int rounds = 0;
  double prefill_seconds = 0;
  double ttft_seconds = 0;    // call to first sampled token
  double decode_seconds = 0;  // from the end of prefill
  StopReason stop = StopReason::kEnd;
};

// One conversation over one backend: the committed tokens and the invariant above.
class Session {
 public:
  Session(Backend& backend, Sampler sampler);

  // Makes `prompt` (at least one token, at most n_ctx) the committed text, keeping the cached K/V
  // of the longest common prefix, then generates. Throws Error(kLimit) when the prompt does not
  // fit.
  GenerateStats generate(std::span<const int32_t> prompt, const GenerateOptions& options);

  // Committed tokens: prompt and reply. The end token of a finished reply is committed too.
  std::span<const int32_t> tokens() const { return tokens_; }
  Backend& backend() { return backend_; }
  Sampler& sampler() { return sampler_; }

 private:
  // False when aborted on the way.
  bool commit_prompt(std::span<const int32_t> prompt, const GenerateOptions& options,
                     GenerateStats& stats);

  Backend& backend_;
  Sampler sampler_;
  std::vector<int32_t> tokens_;
  std::vector<float> logits_;  // [vocab_size]
};

}  // namespace specbound
