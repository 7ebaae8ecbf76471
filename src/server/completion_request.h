// What a client asks of /v1/chat/completions and /v1/completions, read from JSON as OpenAI's
// interface has it. What other servers have that would change the text, and cannot be done here, is
// refused by name. Fields that nobody knows pass, because clients send some for bookkeeping
// (metadata, user, store).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "decode/sampler.h"
#include "grammar/grammar.h"
#include "server/chat_messages.h"
#include "server/response_format.h"
#include "text/stop_strings.h"

namespace specbound::server {

// How a reply is made, where a request does not say.
struct ReplySettings {
  SamplingParams sampling;       // its seed: see below
  std::optional<uint64_t> seed;  // none: each reply draws its own
  int max_tokens = -1;           // -1: until the reply ends or the context is full
  bool ignore_eos = false;
  Grammar::Shared grammar;  // what the reply is held to; nullptr: nothing, or not compiled yet
  StopStrings stop;
  std::optional<bool> speculation;  // none: as the server was started
  bool split_thoughts = true;       // they come apart from the text
};

struct CompletionRequest {
  bool chat = false;
  Chat conversation;            // of a chat
  std::string text;             // of a completion: the prompt,
  std::vector<int32_t> tokens;  // or its ids, where there are any
  std::string model;            // as the client calls it; empty: not at all
  bool stream = false;
  bool include_usage = false;  // at the end of a stream
  bool exits = false;          // text comes apart by the layer that drafted it
  int n = 1;                   // replies, one after the other
  // So many of the likeliest tokens are told beside each; none: no logarithms of probabilities.
  std::optional<int> logprobs;
  ResponseFormat format;  // that is to become settings.grammar
  ReplySettings settings;
};

inline constexpr size_t kMaxLogitBias = 300;  // tokens, as OpenAI has it

// Throw ApiError(400). Grammars are not compiled.
CompletionRequest parse_chat(std::string_view body, const ReplySettings& defaults, int vocab_size);
CompletionRequest parse_completion(std::string_view body, const ReplySettings& defaults,
                                   int vocab_size);

// /apply-template: the messages and what goes with them, as a chat has them.
Chat parse_apply_template(std::string_view body);

// /tokenize and /detokenize.
struct TokenizeRequest {
  std::string content;
  bool add_special = false;  // BOS and EOS where the vocabulary asks for them
  bool with_pieces = false;
};
TokenizeRequest parse_tokenize(std::string_view body);
std::vector<int32_t> parse_detokenize(std::string_view body, int vocab_size);

}  // namespace specbound::server
