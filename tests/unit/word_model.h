// A model behind the server that is made of words: what it replies a test says.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "error.h"
#include "server/api_error.h"
#include "server/served_model.h"

namespace specbound::test {

// Replies with what `work` writes.
class WordModel final : public server::ServedModel {
 public:
  using OnText = std::function<void(std::string_view bytes)>;  // which nobody has drafted
  using Work = std::function<void(const server::CompletionRequest&, const std::atomic<bool>&,
                                  const OnText&)>;

  Work work = [](const server::CompletionRequest& request, const std::atomic<bool>&,
                 const OnText& on_text) { on_text(request.text); };

  std::vector<server::TokenLogprobs> logprobs;  // before that
  ReplyFormat style;

  WordModel() { info_ = {"words", 1, "words", 128, 512, 4}; }

  const server::ModelInfo& info() const override { return info_; }
  Prompt prompt(const server::CompletionRequest& request) const override {
    if (request.text == "long")
      throw server::ApiError(400, "too long", "prompt", "context_length_exceeded");
    return {{1, 2, 3}, nullptr};
  }
  std::string prompt_text(const server::Chat& chat) const override {
    return chat.messages[0].content;
  }
  ReplyFormat reply_format() const override { return style; }
  std::vector<int32_t> tokenize(std::string_view text, bool add_special) const override {
    std::vector<int32_t> ids(text.begin(), text.end());
    if (add_special) ids.insert(ids.begin(), 0);
    return ids;
  }
  std::string piece(int32_t token) const override { return {static_cast<char>(token)}; }
  std::string detokenize(std::span<const int32_t> tokens) const override {
    return {tokens.begin(), tokens.end()};
  }
  std::optional<std::vector<float>> embedding(std::span<const int32_t> tokens,
                                              const std::atomic<bool>&) override {
    return std::vector<float>{static_cast<float>(tokens.size()), 0.5f};
  }
  ReplyStats reply(const server::CompletionRequest& request, int number, const Prompt&,
                   const std::atomic<bool>& abort, const Listener& listener) override {
    for (const server::TokenLogprobs& one : logprobs) listener.on_logprobs(one);
    if (request.n > 1) listener.on_text(format("%d:", number), kNoDraft);
    work(request, abort, [&](std::string_view bytes) { listener.on_text(bytes, kNoDraft); });
    ReplyStats figures;
    figures.generated.prompt_tokens = 3;
    figures.generated.generated_tokens = 1;
    figures.generated.stop = abort ? StopReason::kAborted : StopReason::kEnd;
    return figures;
  }

 private:
  server::ModelInfo info_;
};

}  // namespace specbound::test
