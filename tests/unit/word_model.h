// A model behind the server that is made of words: what it replies a test says.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
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
  bool thinks = false;                      // prompts end within thoughts
  std::function<void()> on_format = [] {};  // where it is asked for
  int n_places = 1;
  int embeddings = 0;                  // under way
  std::function<void()> step = [] {};  // between two looks at what is over
  // Whether a reply is not over yet when it is asked for.
  std::function<bool(const server::CompletionRequest&, const std::atomic<bool>&)> waits =
      [](const server::CompletionRequest&, const std::atomic<bool>&) { return false; };

  WordModel() { info_ = {"words", 1, "words", 128, 512, 4}; }

  const server::ModelInfo& info() const override { return info_; }
  Prompt prompt(const server::CompletionRequest& request) const override {
    if (request.text == "long")
      throw server::ApiError(400, "too long", "prompt", "context_length_exceeded");
    return {{1, 2, 3}, nullptr, thinks};
  }
  std::string prompt_text(const server::Chat& chat) const override {
    return chat.messages[0].content;
  }
  ReplyFormat reply_format() const override {
    on_format();
    return style;
  }
  std::vector<int32_t> tokenize(std::string_view text, bool add_special) const override {
    std::vector<int32_t> ids(text.begin(), text.end());
    if (add_special) ids.insert(ids.begin(), 0);
    return ids;
  }
  std::string piece(int32_t token) const override { return {static_cast<char>(token)}; }
  std::string detokenize(std::span<const int32_t> tokens) const override {
    return {tokens.begin(), tokens.end()};
  }
  std::unique_ptr<server::EmbeddingUnderWay> begin_embedding(
      std::span<const int32_t> tokens) override {
    return std::make_unique<Vector>(static_cast<float>(tokens.size()), embeddings);
  }
  int places() const override { return n_places; }
  std::unique_ptr<server::ReplyUnderWay> begin(const server::CompletionRequest& request, int number,
                                               const Prompt&, const std::atomic<bool>& abort,
                                               const Listener& listener) override {
    return std::make_unique<Words>(*this, request, number, abort, listener);
  }
  void go_on() override { step(); }
  Kept kept() const override { return kept_; }
  Kept kept_;

 private:
  // Two chunks, whatever the text.
  class Vector final : public server::EmbeddingUnderWay {
   public:
    Vector(float n, int& alive) : n_(n), alive_(alive) { ++alive_; }
    ~Vector() override { --alive_; }
    std::optional<std::vector<float>> go_on() override {
      if (++chunks_ < 2) return std::nullopt;
      return std::vector<float>{n_, 0.5f};
    }

   private:
    const float n_;
    int& alive_;
    int chunks_ = 0;
  };

  // All of it comes when it is asked for its figures.
  class Words final : public server::ReplyUnderWay {
   public:
    Words(const WordModel& model, const server::CompletionRequest& request, int number,
          const std::atomic<bool>& abort, const Listener& listener)
        : model_(model), request_(request), number_(number), abort_(abort), listener_(listener) {}

    std::optional<ReplyStats> figures() override {
      if (model_.waits(request_, abort_)) return std::nullopt;
      for (const server::TokenLogprobs& one : model_.logprobs) listener_.on_logprobs(one);
      const auto say = [this](std::string_view bytes) { listener_.on_text(bytes, kNoDraft); };
      if (request_.n > 1) say(format("%d:", number_));
      model_.work(request_, abort_, say);
      ReplyStats figures;
      figures.generated.prompt_tokens = 3;
      figures.generated.generated_tokens = 1;
      figures.generated.stop = abort_ ? StopReason::kAborted : StopReason::kEnd;
      return figures;
    }

   private:
    const WordModel& model_;
    const server::CompletionRequest& request_;
    const int number_;
    const std::atomic<bool>& abort_;
    const Listener& listener_;
  };

  server::ModelInfo info_;
};

}  // namespace specbound::test
