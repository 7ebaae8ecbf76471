// Answers as OpenAI's interface has them, `timings` with the names that llama.cpp gave them.
// Figures that are not known are null; nothing here is NaN or infinite, and all of it is UTF-8.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "runtime/stats.h"
#include "server/api_error.h"
#include "server/logprobs_json.h"

namespace specbound::server {

// What every part of one answer carries.
struct ReplyHead {
  bool chat = false;
  std::string id;       // "chatcmpl-..." or "cmpl-..."
  int64_t created = 0;  // seconds of Unix time
  std::string model;
  bool logprobs = false;  // were asked for
};

// Tokens of the prompt that were not read again: their K/V were there from the request before. The
// last one always is: it gives the first token.
int cached_tokens(const GenerateStats& stats);

// `logprobs`, here and below: of the tokens that the text is of, where they were asked for.
std::string reply_json(const ReplyHead& head, std::string_view text,
                       std::span<const TokenLogprobs> logprobs, const ReplyStats& figures);

// ---- the events of a stream, each as it goes out: "data: {...}\n\n" ----

std::string first_event(const ReplyHead& head);  // empty for a completion, which has no such event
std::string text_event(const ReplyHead& head, std::string_view text,
                       std::span<const TokenLogprobs> logprobs);
std::string last_event(const ReplyHead& head, const ReplyStats& figures);
std::string usage_event(const ReplyHead& head, const ReplyStats& figures);
std::string error_event(const ApiError& error);
inline constexpr std::string_view kDoneEvent = "data: [DONE]\n\n";

// ---- the other answers ----

struct ModelInfo {
  std::string id;
  int64_t created = 0;  // when it was loaded
  std::string architecture;
  int n_ctx = 0, n_vocab = 0, n_layers = 0;
};
std::string models_json(const ModelInfo& info);

std::string error_json(const ApiError& error);

// `pieces`: the bytes of each token; empty: ids alone.
std::string tokens_json(std::span<const int32_t> ids, std::span<const std::string> pieces);
std::string content_json(std::string_view content);

}  // namespace specbound::server
