// What the server needs of a model. The program has one behind it (server/serve_model.h), tests
// have their own.
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

#include "runtime/prompt.h"
#include "server/completion_request.h"
#include "server/logprobs_json.h"
#include "server/reply_json.h"

namespace specbound::server {

// A reply that is being made. It is given up where this ends before it is over. The engine's thread
// only.
class ReplyUnderWay {
 public:
  virtual ~ReplyUnderWay() = default;
  // Once it is over, once: its figures. Throws what has gone wrong with it.
  virtual std::optional<ReplyStats> figures() = 0;
};

// An embedding that is being made, likewise.
class EmbeddingUnderWay {
 public:
  virtual ~EmbeddingUnderWay() = default;
  // Reads a chunk of the text. Behind the last one the vector (ModelInfo::dim).
  virtual std::optional<std::vector<float>> go_on() = 0;
};

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

  // Of 1 to n_ctx tokens, which outlive it.
  virtual std::unique_ptr<EmbeddingUnderWay> begin_embedding(std::span<const int32_t> tokens) = 0;

  // Who hears of a reply while it is made.
  // `exit_layer`: as ReplyRequest::on_text.
  using OnText = std::function<void(std::string_view bytes, int exit_layer)>;
  struct Listener {
    OnText on_text;
    // Of each token, before its text, where the request asks for them.
    std::function<void(TokenLogprobs logprobs)> on_logprobs;
  };
  // Replies that can be under way, and embeddings made beside them.
  virtual int places() const = 0;
  // Begins reply `number` of the request, from 0 on, which comes further in go_on(); `abort` ends
  // it within a round. All must outlive it. What is served before and beside it has no influence on
  // its text. Throws what has gone wrong: then the next reply is made as if this one had not been.
  virtual std::unique_ptr<ReplyUnderWay> begin(const CompletionRequest& request, int number,
                                               const Prompt& prompt, const std::atomic<bool>& abort,
                                               const Listener& listener) = 0;
  // Conversations that wait for their next request with K and V in memory, and what these take.
  struct Kept {
    int conversations = 0;
    uint64_t kv_bytes = 0;
  };
  virtual Kept kept() const = 0;
  // All replies under way come further by a token or more, or by a part of their prompts.
  virtual void go_on() = 0;
};

}  // namespace specbound::server
