// Perplexity: what of a text is scored, and -log p of its tokens by a backend, through the kernels
// that decode or through those of prefill. The definition is that of llama.cpp's llama-perplexity,
// so that figures on one file can be held against each other.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/backend.h"
#include "engine/cpu/thread_pool.h"

namespace specbound {

// A run of tokens that is read on its own: tokens[begin, begin + length). Scored are those from
// `first` on (1 <= first < length), counted from `begin`, each by the logits of the ones before it.
struct ScoredRun {
  int64_t begin = 0;
  int length = 0, first = 1;

  int scored() const { return length - first; }
};

// The windows of `n_tokens` tokens, `window` tokens each, `most` of them at most (0: all).
// Without a stride they lie end to end, and scored is what follows the middle: of a window of c
// tokens those from c/2 + 1 on (llama-perplexity). With one they begin `stride` apart, and the last
// `stride` tokens of each are scored (--ppl-stride). None where the text is shorter than a window,
// or with a stride not longer. 3 <= window, 0 <= stride < window.
std::vector<ScoredRun> cut_windows(int64_t n_tokens, int window, int stride, int64_t most);

// A sum of -log p over tokens.
class NllSum {
 public:
  void add(double nll) {
    ++count_;
    sum_ += nll;
    squares_ += nll * nll;
  }

  int64_t count() const { return count_; }
  double mean() const { return sum_ / static_cast<double>(count_); }  // count() > 0
  double perplexity() const;
  // Of mean() and of perplexity(), as llama-perplexity has them, where every token counts as one
  // independent draw: sqrt((E[x^2] - E[x]^2) / (n - 1)), and that times the perplexity. None below
  // two tokens.
  std::optional<double> mean_error() const;
  std::optional<double> perplexity_error() const;

 private:
  int64_t count_ = 0;
  double sum_ = 0, squares_ = 0;
};

enum class Through {
  kPrefill,  // chunks of kPrefillChunk rows: how a prompt is read
  kDecode,   // passes of kMaxRows rows: how a reply is written, and verified
};
const char* through_name(Through through);

class TextScorer {
 public:
  // `backend` must outlive it.
  explicit TextScorer(Backend& backend);

  // Called behind each pass over `rows` rows; false ends the scoring.
  using GoOn = std::function<bool(int rows)>;

  // [tokens.size() - first] -log p of tokens[first], ..., in nats, from an empty context; nullopt
  // when `go_on` ended it. Values that are not finite are handed on: the logits gave none.
  // 1 <= first < tokens.size() <= n_ctx. The K/V that was there is gone.
  std::optional<std::vector<double>> score(std::span<const int32_t> tokens, int first,
                                           Through through, const GoOn& go_on);

 private:
  Backend& backend_;
  ThreadPool pool_;
  std::vector<float> logits_;  // (kMaxRows, vocab_size)
};

}  // namespace specbound
