// Plain decoding: the round of DESIGN 3.2 with one row.
#include "decode/generate.h"

#include <algorithm>
#include <chrono>

#include "engine/float_mode.h"
#include "error.h"

namespace specbound {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

bool aborted(const GenerateOptions& options) {
  return options.abort && options.abort->load(std::memory_order_relaxed);
}

}  // namespace

const char* stop_reason_name(StopReason reason) {
  switch (reason) {
    case StopReason::kEnd:
      return "end";
    case StopReason::kLength:
      return "length";
    case StopReason::kContext:
      return "context";
    case StopReason::kAborted:
      return "aborted";
  }
  return "unknown";
}

Session::Session(Backend& backend, Sampler sampler)
    : backend_(backend),
      sampler_(std::move(sampler)),
      logits_(static_cast<size_t>(backend.config().vocab_size)) {}

// Makes `prompt` the committed text and brings every layer to its last token but one.
bool Session::commit_prompt(std::span<const int32_t> prompt, const GenerateOptions& options,
                            GenerateStats& stats) {
  const int n = static_cast<int>(prompt.size());
  stats.prompt_tokens = n;
  if (n == 0) throw Error(ErrorCode::kLimit, "the prompt is empty: expected at least one token");
  if (n > backend_.n_ctx()) {
    throw Error(ErrorCode::kLimit,
                format("the prompt has %d tokens, the context holds %d: shorten it or raise -c", n,
                       backend_.n_ctx()));
  }
  const int vocab_size = backend_.config().vocab_size;
  for (const int32_t token : prompt) {
    if (token < 0 || token >= vocab_size) {
      throw Error(ErrorCode::kUsage,
                  format("token %d in the prompt: expected 0 to %d", token, vocab_size - 1));
    }
  }
  const auto same = std::mismatch(tokens_.begin(), tokens_.end(), prompt.begin(), prompt.end());
  const int kept = std::min(static_cast<int>(same.first - tokens_.begin()), n - 1);
  backend_.truncate(kept);
  tokens_ = std::vector<int32_t>(prompt.begin(), prompt.end());  // `prompt` may be tokens() itself
  prompt = tokens_;

  const int start = backend_.kv_len(1);
  struct Progress {
    const GenerateOptions& options;
    int total;
  } progress{options, n - 1 - start};
  if (progress.total > 0) {
    backend_.prefill(
        prompt.subspan(start, progress.total),
        [](void* context, int done) {
          const auto& p = *static_cast<const Progress*>(context);
          if (p.options.on_prefill) p.options.on_prefill(done, p.total);
          return !aborted(p.options);
        },
        &progress);
  }
  stats.prefilled_tokens = backend_.kv_len(1) - start;
  return backend_.kv_len(1) == n - 1;
}

GenerateStats Session::generate(std::span<const int32_t> prompt, const GenerateOptions& options) {
  GenerateStats stats;
  const FloatMode mode;
  const auto start = std::chrono::steady_clock::now();
  const bool ready = commit_prompt(prompt, options, stats);
  stats.prefill_seconds = seconds_since(start);
  if (!ready) {
    stats.stop = StopReason::kAborted;
    return stats;
  }

  const int n_layers = backend_.config().n_layers;
  const auto decode_start = std::chrono::steady_clock::now();
  for (;;) {
    const int pos = static_cast<int>(tokens_.size()) - 1;  // of the pending root
    if (options.max_tokens >= 0 && stats.generated_tokens >= options.max_tokens) {
      stats.stop = StopReason::kLength;
      break;
    }
    if (pos >= backend_.n_ctx()) {
      stats.stop = StopReason::kContext;
      break;
    }
    if (aborted(options)) {
      stats.stop = StopReason::kAborted;
      break;
    }
    backend_.embed(0, tokens_.back());
    backend_.run_layers(0, 1, pos, 1, n_layers);
    backend_.logits(0, 1, logits_.data());
    const DrawPlace place{sampler_.params().seed, options.reply, static_cast<uint32_t>(pos + 1)};
    const int32_t token = sampler_.sample(logits_, tokens_, place);
    tokens_.push_back(token);
    if (++stats.rounds == 1) stats.ttft_seconds = seconds_since(start);
    if (options.is_end && options.is_end(token)) {
      stats.stop = StopReason::kEnd;
      break;
    }
    ++stats.generated_tokens;
    if (options.on_token) options.on_token(token);
  }
  stats.decode_seconds = seconds_since(decode_start);
  return stats;
}

}  // namespace specbound
