// The two sides of an exactness test: a conversation decoded plainly, with nothing of the decode
// loop, and a backend that keeps what a speculative run computes.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "decode/sampler.h"
#include "engine/backend.h"
#include "engine_rig.h"
#include "forwarding_backend.h"

namespace specbound::test {

// What plain decoding does: one token at a time, one row a pass, no prefill, no rounds. Goes as far
// as it is asked.
class PlainShadow {
 public:
  PlainShadow(std::unique_ptr<Backend> backend, const SamplingParams& params)
      : backend_(std::move(backend)),
        sampler_(params),
        record_(backend_->config(), backend_->n_ctx()) {}

  // Reply `number` to `prompt`.
  void begin(std::span<const int32_t> prompt, uint32_t number) {
    const size_t cached = backend_->kv_len(1), most = std::min(cached, prompt.size());
    size_t kept = 0;
    while (kept < most && text_[kept] == prompt[kept]) ++kept;
    backend_->truncate(static_cast<int>(kept));
    text_.assign(prompt.begin(), prompt.end());
    number_ = number;
  }

  // Of the prompt and the reply; 0 <= pos <= n_ctx.
  int32_t token(int pos) {
    while (static_cast<int>(text_.size()) <= pos) {
      const int at = static_cast<int>(text_.size());
      const float* logits = through(at - 1).logits_at(at - 1);
      const DrawPlace place{sampler_.params().seed, number_, static_cast<uint32_t>(at)};
      text_.push_back(
          sampler_.sample({logits, size_t(backend_->config().vocab_size)}, text_, place));
    }
    return text_[pos];
  }
  std::span<const int32_t> text(int n) {
    if (n > 0) token(n - 1);
    return std::span(text_).first(n);
  }

  // K, V and logits of positions 0..pos.
  Record& through(int pos) {
    token(pos);
    for (int at = backend_->kv_len(1); at <= pos; ++at) {
      backend_->embed(0, text_[at]);
      backend_->run_layers(0, 1, at, 1, backend_->config().n_layers);
      backend_->logits(0, 1, record_.logits_at(at));
      record_.read_kv(*backend_, at);
    }
    return record_;
  }

 private:
  std::unique_ptr<Backend> backend_;
  Sampler sampler_;
  std::vector<int32_t> text_;
  uint32_t number_ = 0;
  Record record_;
};

// Keeps the logits of rows.
class WatchedBackend final : public ForwardingBackend {
 public:
  enum class Call { kEmbed, kLayers, kLogits };

  explicit WatchedBackend(std::unique_ptr<Backend> inner)
      : ForwardingBackend(std::move(inner)), record_(inner_->config(), inner_->n_ctx()) {}

  std::function<void(Call)> after = [](Call) {};

  // What is now in `slot` stands at `pos`.
  void commit(int slot, int pos) {
    std::copy(logits_[slot].begin(), logits_[slot].end(), record_.logits_at(pos));
  }
  // The logits last committed at each position; K and V of [begin, end) as they are now.
  const Record& record(int begin, int end) {
    for (int pos = begin; pos < end; ++pos) record_.read_kv(*inner_, pos);
    return record_;
  }

  void embed(int slot, int32_t token) override {
    inner_->embed(slot, token);
    after(Call::kEmbed);
  }
  void run_layers(int slot, int n, int pos, int from, int to) override {
    inner_->run_layers(slot, n, pos, from, to);
    after(Call::kLayers);
  }
  void logits(int slot, int n, float* out) override {
    inner_->logits(slot, n, out);
    for (int i = 0; i < n; ++i) {
      const size_t vocab_size = config().vocab_size;
      logits_[slot + i].assign(out + i * vocab_size, out + (i + 1) * vocab_size);
    }
    after(Call::kLogits);
  }
  void draw(int slot, int n, const DrawRule& rule, std::span<const int32_t> text,
            RowDraw* draws) override {
    drawn_from_.resize(size_t(n) * config().vocab_size);
    logits(slot, n, drawn_from_.data());
    inner_->device_sampling()->draw(slot, n, rule, text, draws);
  }

 private:
  std::vector<float> drawn_from_;  // logits that stay behind in a draw
  Record record_;
  std::array<std::vector<float>, kMaxRows> logits_;  // [slot]
};

}  // namespace specbound::test
