// What every exit head would have said along texts that the model wrote: enough to replay the
// drafting loop under any setting without running the model again. docs/architecture.md 6, 9.
//
// Row i of a reply is the position whose next token is the reply's token i. A head that carries a
// state (chained) is looked at once for each place that the row may have in its round: at depth 0
// the row is the root and the state before it is the model's own, at depth k it is the head's
// estimate through the k rows before, each looked at by the same head.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "decode/generate.h"
#include "decode/sampler.h"
#include "engine/backend.h"
#include "model/exit_heads.h"

namespace specbound {

// What the draft of a check turned out to be.
enum class Outcome : uint8_t { kWrong, kRight, kEnd };  // kEnd: it would end the reply

struct TraceHead {
  HeadKind kind;
  int layer;
  int depths;      // 1, or TuningTrace::kDepths for one that carries a state
  int shortlists;  // how many of the trace's it was looked at with
};

struct TracedReply {
  int first = 0;          // its first row in the trace
  int tokens = 0;         // rows, and tokens decoded: an end token counts
  int budget = 0;         // tokens that were asked for
  float temperature = 0;  // 0: greedy
};

class TuningTrace {
 public:
  static constexpr int kDepths = 8;

  // Rows of `replies` follow each other. All outcomes are wrong, all confidences 0.
  TuningTrace(int n_layers, std::vector<float> alphas, std::vector<int> shortlists,
              std::vector<TraceHead> heads, std::vector<TracedReply> replies);

  int n_layers() const { return n_layers_; }
  int n_rows() const { return n_rows_; }
  const std::vector<float>& alphas() const { return alphas_; }        // ascending
  const std::vector<int>& shortlists() const { return shortlists_; }  // ascending
  const std::vector<TraceHead>& heads() const { return heads_; }
  const std::vector<TracedReply>& replies() const { return replies_; }
  int find(HeadKind kind, int layer) const;  // index into heads(), or -1

  // A column of confidences: max softmax at alphas()[column], or with margin_column() the chance of
  // acceptance by the margin.
  int margin_column() const { return static_cast<int>(alphas_.size()); }
  // (depths, n_rows) of the head; `shortlist` and `column` are indices.
  std::span<float> confidence(int head, int shortlist, int column);
  std::span<const float> confidence(int head, int shortlist, int column) const;
  std::span<Outcome> outcome(int head, int shortlist);
  std::span<const Outcome> outcome(int head, int shortlist) const;

 private:
  size_t plane(int head, int shortlist) const;

  int n_layers_, n_rows_ = 0;
  std::vector<float> alphas_;
  std::vector<int> shortlists_;
  std::vector<TraceHead> heads_;
  std::vector<TracedReply> replies_;
  std::vector<size_t> first_;                   // [head] its first cell
  std::vector<std::vector<float>> confidence_;  // [column][cell]
  std::vector<Outcome> outcome_;                // [cell]
};

// A text that the model wrote plainly: prompt and reply.
struct TuningText {
  std::vector<int32_t> tokens;
  int prompt_tokens = 0;
  int budget = 0;
  SamplingParams sampling;
  int dialogue = 0;  // prompts of one begin alike
};

// The reply of at most `budget` tokens that the session, which must decode plainly, writes to
// `prompt`. nullopt when there is no room for one, or when aborted.
std::optional<TuningText> write_text(Session& session, std::span<const int32_t> prompt, int budget,
                                     const std::function<bool(int32_t)>& is_end,
                                     const std::atomic<bool>* abort);

struct TracePlan {
  std::vector<float> alphas = {0.0f, 0.1f, 0.2f, 0.4f, 0.8f, 1.6f};
  std::vector<int> shortlists;  // ascending prefixes of the file's; empty: halves of it from 256 on
  std::function<bool(int32_t)> is_end;
  // Rows done of all; false stops, and what was recorded until then is no trace.
  std::function<bool(int done, int total)> progress;
};

// Looks at every row of every text with every head of the file. The backend must have the whole
// shortlist set. `complete` becomes false when stopped.
TuningTrace record_trace(Backend& backend, const ExitHeads& heads,
                         std::span<const TuningText> texts, const TracePlan& plan, bool& complete);

// Prefixes of a shortlist worth trying: the whole and its halves down to 256, multiples of 16.
std::vector<int> shortlist_prefixes(int shortlist);

}  // namespace specbound
