// The decode loop, plain and speculative. Between rounds, after prefill and after a reply: N tokens
// are committed, kv_len[l] = N-1 for all l, and the last committed token is the pending root.
// Prefill covers all but the last prompt token, so regenerating a reply and a one-token prompt are
// exact for free. docs/architecture.md 3.2.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "decode/round.h"
#include "decode/sampler.h"
#include "decode/speculator.h"
#include "engine/backend.h"
#include "trace/counters.h"
#include "trace/event.h"
#include "trace/plain_rate.h"

namespace specbound {

enum class StopReason { kEnd, kStopString, kLength, kContext, kAborted };
// "end", "stop", "length", "context", "aborted"
const char* stop_reason_name(StopReason reason);

struct GenerateOptions {
  int max_tokens = -1;  // -1: until the reply ends or the context is full
  uint32_t reply = 0;  // reply number: /regen advances it, so the text changes while the seed stays
  std::function<bool(int32_t)> is_end;  // ends the reply; the token is not emitted to on_token
  // The reply's tokens so far: true when it ends with the last of them, which is emitted.
  std::function<bool(std::span<const int32_t>)> is_stop;
  // Each emitted token with the model's own logits (vocab_size) that it was drawn from, before
  // on_token; they hold within the call. Where nobody asks, a device need not hand them over.
  std::function<void(const TokenEvent&, std::span<const float>)> on_logits;
  // Of each emitted token, an end token too, the row (dim) behind the last layer that it was drawn
  // from, before all else; it holds within the call.
  std::function<void(std::span<const float>)> on_state;
  std::function<void(const TokenEvent&)> on_token;  // each emitted token, in order
  std::function<void(const RoundEvent&)> on_round;  // after the round's tokens
  const std::atomic<bool>* abort = nullptr;         // looked at between passes and after each token
  std::function<bool()> unwanted;  // asked after each token: true ends the reply as `abort` does
  std::function<void(int done, int total)> on_prefill;
  // Now and then a plain round among the speculative ones, so that there is a rate to compare with.
  bool measure_plain = false;
};

struct GenerateStats {
  int prompt_tokens = 0;     // whole prompt
  int prefilled_tokens = 0;  // of these, run now; the rest, but for the last, was in the cache
  int generated_tokens = 0;  // emitted, the end token not counted
  double prefill_seconds = 0;
  std::optional<double> ttft_seconds;  // call to first sampled token, an end token too
  double decode_seconds = 0;  // from the end of prefill, without the time spent in callbacks
  StopReason stop = StopReason::kEnd;
  bool speculated = false;         // a speculator was there to draft
  Control control;                 // what was decided in it by what was measured
  Counters counters;               // of this reply
  DraftPlaces places;              // likewise
  double plain_token_seconds = 0;  // median of the session's newest plain rounds; 0: none
  int plain_rounds = 0;            // how many that is the median of
  int side_by_side = 0;            // of the reply's rounds, those that shared a pass with others'
};

// One conversation over one backend: the committed tokens and the invariant above.
class Session {
 public:
  Session(Backend& backend, Sampler sampler);  // decodes plainly
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // What drafts from the next round on; it must outlive the session or the next call. nullptr:
  // plainly. Within a reply from GenerateOptions::on_round: whatever was set before, it then begins
  // with the text so far.
  void set_speculator(Speculator* speculator);
  // How tokens are picked from the next round on, likewise. Throws Error(kUsage), and nothing has
  // changed, for what validate() refuses.
  void set_sampling(const SamplingParams& params);

  // Between replies: drops the committed text with its cache, and the speculator's own. The next
  // prompt is read anew.
  void forget();
  // Between replies: the backend has dropped the text, whichever one it speaks of now.
  void lose();
  // Between replies: `text`, whose K and V the backend holds, is the committed text.
  void take_over(std::span<const int32_t> text);

  // Makes `prompt` (at least one token, at most n_ctx) the committed text, keeping the cached K/V
  // of the longest common prefix, then generates. Throws Error(kLimit) when the prompt does not
  // fit.
  GenerateStats generate(std::span<const int32_t> prompt, const GenerateOptions& options);

  // generate() bit by bit, for who writes several replies in turn (decode/reply_batch.h). The
  // backend speaks of this session's text in each call. begin() throws as generate() does, and
  // nothing is under way then; what the others throw ends the reply, and the text stays.
  void begin(std::span<const int32_t> prompt, GenerateOptions options);
  int unread() const { return unread_; }  // tokens of the prompt that are still to be read
  // A chunk of the prompt (kPrefillChunk) or a round. False: the reply is over.
  bool go_on();
  // In place of a round, behind the prompt: one whose rows share a pass with those of other texts.
  // The newest token is its root; false, and no round: the reply is over. Until its rows enter the
  // backend others may draft there, whatever text that speaks of.
  bool open_round();
  Round& round() { return round_; }
  // By what rule a device may draw for its rows; nullopt: none, the logits are needed.
  std::optional<DrawRule> shared_rule() const;
  // Then, when they went through all layers, what came of them is taken, and `heard` is told what
  // became of the round; false: the reply is over. Or it is as if it had not been.
  bool take_rows(const GivenRows& given,
                 const std::function<void(const RoundEvent&)>& heard = nullptr);
  void drop_rows() { round_.recover(); }
  // Between replies: what the newest one needed beside its tokens goes, its grammar and its
  // speculator too.
  void rest();
  const GenerateStats& stats() const { return stats_; }  // whole when it is over

  // Looks once more at rows that decoding brought through the layers: those of positions
  // [from, to), first_decoded() <= from, to < tokens().size(), in groups of up to kMaxRows and one
  // layer at a time. After each, `visit` may read hidden rows and logits of slots 0..n-1, which are
  // those of positions pos..pos+n-1; false ends it at once, and this is false too. Between replies
  // only. The cache stays as it was, to the bit: the rows are what they were, and nothing behind
  // them is touched. After an exception the next generate() reads again what is missing.
  using Visit = std::function<bool(int layer, int pos, int n)>;
  bool revisit(int from, int to, const Visit& visit);
  // The position of the newest reply's first row, which gave its first token: the last one of its
  // prompt. What is before it came from a prefill, whose rows another pass need not repeat.
  int first_decoded() const { return std::max(static_cast<int>(n_prompt_) - 1, 0); }

  // Committed tokens: prompt and reply. The end token of a finished reply is committed too. While a
  // reply is under way, drafts may stand behind the newest token.
  std::span<const int32_t> tokens() const { return tokens_; }
  Backend& backend() { return backend_; }
  Sampler& sampler() { return sampler_; }

 private:
  bool aborted() const { return options_.abort && options_.abort->load(std::memory_order_relaxed); }
  bool read_on();
  void start_decoding();
  bool may_write();
  bool end();
  int bounded(int width) const;
  int width() const;
  void start_round(int width, bool shared);
  bool run_round();
  template <class F>
  bool take_round(DraftEnd draft_end, F hear);
  bool emit();
  bool revisit_group(int pos, int n, const Visit& visit);
  double decode_seconds() const;  // of the newest reply so far, without callbacks
  template <class F>
  void call_out(F callback);

  Backend& backend_;
  Sampler sampler_;
  NoSpeculator none_;
  Speculator* speculator_ = &none_;
  bool begun_ = false;           // the speculator, in this reply
  std::vector<int32_t> tokens_;  // committed; drafts behind them only while a round lasts
  size_t n_prompt_ = 0;          // of these, the reply's own begin here
  Round round_;
  PlainRate plain_;
  int since_plain_ = 0;      // rounds since the newest of its sample, of replies before too
  GenerateOptions options_;  // of the newest reply
  GenerateStats stats_;      // likewise
  int unread_ = 0;           // tokens of its prompt
  std::chrono::steady_clock::time_point start_, decode_start_;  // likewise
  double called_out_seconds_ = 0;  // of its decoding: spent in callbacks
};

}  // namespace specbound
