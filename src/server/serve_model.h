// The loaded model behind the server: prompts on any thread, replies on the engine's, several side
// by side (decode/reply_batch.h). What each has in common with the conversation that it goes on
// with is not read again (decode/sessions.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "decode/reply_batch.h"
#include "decode/sessions.h"
#include "error.h"
#include "learning/idle_learning.h"
#include "runtime/loaded_model.h"
#include "runtime/speculation.h"
#include "server/kept_grammars.h"
#include "server/served_model.h"

namespace specbound {

class ServeModel final : public server::ServedModel {
 public:
  // Both must outlive it; the model is loaded. `id`: its name for clients. `parallel`: replies
  // under way at most, 1 or more; fewer where the backend keeps fewer texts. `cache_size`: bytes of
  // K and V that conversations between their replies may take.
  ServeModel(LoadedModel& model, Speculation& speculation, std::string id, int parallel,
             uint64_t cache_size);

  // While replies are made, and between them: see learning/idle_learning.h. `note` is told on the
  // engine's thread when other heads draft. `learning` must outlive the last reply.
  void learn(IdleLearning& learning, std::function<void(const std::string&)> note);

  const server::ModelInfo& info() const override { return info_; }
  Prompt prompt(const server::CompletionRequest& request) const override;
  std::string prompt_text(const server::Chat& chat) const override;
  ReplyFormat reply_format() const override;
  std::vector<int32_t> tokenize(std::string_view text, bool add_special) const override;
  std::string piece(int32_t token) const override { return model_.tokenizer().piece(token, true); }
  std::string detokenize(std::span<const int32_t> tokens) const override {
    return model_.tokenizer().decode(tokens, true);
  }
  std::unique_ptr<server::EmbeddingUnderWay> begin_embedding(
      std::span<const int32_t> tokens) override;
  int places() const override { return batch_.places(); }
  std::unique_ptr<server::ReplyUnderWay> begin(const server::CompletionRequest& request, int number,
                                               const Prompt& prompt, const std::atomic<bool>& abort,
                                               const Listener& listener) override;
  void go_on() override;
  Kept kept() const override;

 private:
  class Writing;
  class Embedding;

  const ChatTemplate& chat_template() const;
  // Throws what the template has against it.
  [[noreturn]] void refuse_chat(const server::Chat& chat, const Error& error) const;
  std::vector<int32_t> spelled_tokens(const server::CompletionRequest& request) const;
  Prompt chat_prompt(const server::CompletionRequest& request) const;
  Prompt raw_prompt(const server::CompletionRequest& request) const;
  void said(const server::CompletionRequest& request, std::string reply);
  Speculator* speculator(std::optional<bool> asked);
  std::span<const float> output_norm() const;

  LoadedModel& model_;
  Speculation& speculation_;
  const bool speculates_;  // where a request does not say
  server::ModelInfo info_;
  const ChatTemplate* chat_template_ = nullptr;  // nullptr: the model has none
  std::string no_template_;                      // why
  Sessions sessions_;
  ReplyBatch batch_;
  int64_t n_begun_ = 0;                    // replies
  std::map<int64_t, Writing*> under_way_;  // by what the batch calls them
  server::KeptGrammars grammars_;
  IdleLearning* learning_ = nullptr;
  std::function<void(const std::string&)> note_;
};

}  // namespace specbound
