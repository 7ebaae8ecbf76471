// What the server needs of a model. The program has one behind it (server/serve_model.h), tests
// have their own.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/prompt.h"
#include "server/completion_request.h"
#include "server/logprobs_json.h"
#include "server/reply_json.h"

namespace specbound::server {

class ServedModel {
 public:
  virtual ~ServedModel() = default;

  // ---- any thread ----

  virtual const ModelInfo& info() const = 0;
  // The tokens to be continued. Throws ApiError(400) for what cannot be one prompt, by the code
  // context_length_exceeded where there are too many.
  virtual Prompt prompt(const CompletionRequest& request) const = 0;
  // The text of such a prompt, control tokens spelled out. Throws ApiError(400).
  virtual std::string prompt_text(const Chat& chat) const = 0;
  // How replies write calls and thoughts.
  virtual ReplyFormat reply_format() const = 0;
  virtual std::vector<int32_t> tokenize(std::string_view text, bool add_special) const = 0;
  virtual std::string piece(int32_t token) const = 0;
  virtual std::string detokenize(std::span<const int32_t> tokens) const = 0;

  // ---- the engine's thread only ----

  // Of 1 to n_ctx tokens (ModelInfo::dim); nothing when `abort` ended it.
  virtual std::optional<std::vector<float>> embedding(std::span<const int32_t> tokens,
                                                      const std::atomic<bool>& abort) = 0;

  // Who hears of a reply while it is made.
  // `exit_layer`: as ReplyRequest::on_text.
  using OnText = std::function<void(std::string_view bytes, int exit_layer)>;
  struct Listener {
    OnText on_text;
    // Of each token, before its text, where the request asks for them.
    std::function<void(TokenLogprobs logprobs)> on_logprobs;
  };
  // Makes reply `number` of the request, from 0 on; `abort` ends it within a round. What was served
  // before has no influence on its text. After an exception the next reply is made as if this one
  // had not been.
  virtual ReplyStats reply(const CompletionRequest& request, int number, const Prompt& prompt,
                           const std::atomic<bool>& abort, const Listener& listener) = 0;
};

}  // namespace specbound::server
