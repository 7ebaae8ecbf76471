#include "tools/perplexity.h"

#include <algorithm>
#include <cmath>

#include "engine/cpu/cpu_topology.h"
#include "error.h"
#include "numerics/log_probability.h"
#include "train/blocks.h"

namespace specbound {

std::vector<ScoredRun> cut_windows(int64_t n_tokens, int window, int stride, int64_t most) {
  SB_CHECK(window >= 3 && stride >= 0 && stride < window);
  int64_t count = n_tokens / window;
  if (stride > 0) count = n_tokens > window ? (n_tokens - window + stride - 1) / stride : 0;
  if (most > 0) count = std::min(count, most);
  std::vector<ScoredRun> windows;
  windows.reserve(static_cast<size_t>(count));
  const int first = stride > 0 ? window - stride : window / 2 + 1;
  const int64_t step = stride > 0 ? stride : window;
  for (int64_t i = 0; i < count; ++i) windows.push_back({i * step, window, first});
  return windows;
}

double NllSum::perplexity() const {
  return std::exp(mean());
}

std::optional<double> NllSum::mean_error() const {
  if (count_ < 2) return std::nullopt;
  const auto n = static_cast<double>(count_);
  const double variance = squares_ / n - mean() * mean();
  return std::sqrt(std::max(variance, 0.0) / (n - 1));
}

std::optional<double> NllSum::perplexity_error() const {
  const std::optional<double> error = mean_error();
  if (!error) return std::nullopt;
  return *error * perplexity();
}

const char* through_name(Through through) {
  return through == Through::kPrefill ? "prefill" : "decode";
}

// On a CPU the backend's own threads have the cores.
TextScorer::TextScorer(Backend& backend)
    : backend_(backend),
      pool_(backend.samples_on_device() ? usable_cores() : 1),
      logits_(static_cast<size_t>(kMaxRows) * backend.config().vocab_size) {}

std::optional<std::vector<double>> TextScorer::score(std::span<const int32_t> tokens, int first,
                                                     Through through, const GoOn& go_on) {
  const int n = static_cast<int>(tokens.size()) - 1;  // rows: the last token has none to predict
  const int vocab_size = backend_.config().vocab_size;
  SB_CHECK(first >= 1 && first <= n && n < backend_.n_ctx());
  const bool decode = through == Through::kDecode;
  std::vector<double> nll(n + 1 - first);
  backend_.truncate(0);
  for (int pos = 0; pos < n;) {
    const int rows = std::min(n - pos, decode ? kMaxRows : kPrefillChunk), end = pos + rows;
    if (decode) {
      for (int i = 0; i < rows; ++i) backend_.embed(i, tokens[pos + i]);
      backend_.run_layers(0, rows, pos, 1, backend_.config().n_layers);
    } else {
      backend_.prefill_rows(tokens.subspan(pos, rows));
    }
    // The row at position p predicts token p + 1.
    for (int p = std::max(pos, first - 1); p < end; p += kMaxRows) {
      const int group = std::min(kMaxRows, end - p);
      decode ? backend_.logits(p - pos, group, logits_.data())
             : backend_.prefill_logits(p - pos, group, logits_.data());
      for_blocks(pool_, group, 1, [&](int64_t begin, int64_t stop) {
        for (int64_t i = begin; i < stop; ++i) {
          const std::span<const float> z(logits_.data() + i * vocab_size, vocab_size);
          nll[p + 1 + i - first] = -log_probability(z, tokens[p + 1 + i]);
        }
      });
    }
    pos = end;
    if (!go_on(rows)) return std::nullopt;
  }
  return nll;
}

}  // namespace specbound
