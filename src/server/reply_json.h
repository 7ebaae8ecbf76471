// Answers as OpenAI's interface has them, `timings` with the names that llama.cpp gave them.
// Figures that are not known are null; nothing here is NaN or infinite, and all of it is UTF-8.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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
  bool logprobs = false;  // were asked for,
  bool exits = false;     // and the layers that drafted the text
};

// A call of a tool in a reply.
struct ReplyCall {
  int index = 0;  // among those of its reply
  std::string id, name, arguments;
  bool goes_on = false;  // more arguments of the one before, and nothing else
};

// Of one of a request's replies: all of it, or what came since the last look.
struct ReplyPart {
  int index = 0;
  std::string text = {};
  std::vector<TokenLogprobs> logprobs = {};  // of the tokens of the text, where they were asked for
  std::optional<ReplyStats> figures = {};    // when it is over
  std::string thoughts = {};
  std::vector<ReplyCall> calls = {};
  bool called = false;        // when it is over: it has calls
  int exit_layer = kNoDraft;  // of the text, where a request asks for exits
};

// What a request is counted for: its prompt once, all its replies.
struct Usage {
  int replies = 0, prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;

  void add(const GenerateStats& reply);
};

// Tokens of the prompt that were not read again: their K/V were there from requests before. The
// last one always is: it gives the first token.
int cached_tokens(const GenerateStats& stats);

// Replies that are over, by their index. `timings` are the answer's, or where there are several
// replies those of each.
std::string reply_json(const ReplyHead& head, std::span<const ReplyPart> replies);

// ---- the events of a stream, each as it goes out: "data: {...}\n\n" ----

// Of reply `index`; empty for a completion, which has no such event.
std::string first_event(const ReplyHead& head, int index);
std::string text_event(const ReplyHead& head, const ReplyPart& part);
std::string call_events(const ReplyHead& head, const ReplyPart& part);  // two of each call
std::string last_event(const ReplyHead& head, const ReplyPart& part);   // which is over
std::string usage_event(const ReplyHead& head, const Usage& usage);
std::string error_event(const ApiError& error);
// A comment, which clients pass over.
inline constexpr std::string_view kStillHere = ": \n\n";
inline constexpr std::string_view kDoneEvent = "data: [DONE]\n\n";

// ---- the other answers ----

struct ModelInfo {
  std::string id;
  int64_t created = 0;  // when it was loaded
  std::string architecture;
  int n_ctx = 0, n_vocab = 0, n_layers = 0;
  int dim = 0;  // numbers of an embedding
};
std::string model_json(const ModelInfo& info);
std::string models_json(const ModelInfo& info);  // the list of this one

std::string error_json(const ApiError& error);

// `piece`: the bytes of a token; null: ids alone.
using PieceOf = std::function<std::string(int32_t id)>;
std::string tokens_json(std::span<const int32_t> ids, const PieceOf& piece);
std::string content_json(std::string_view content);
std::string prompt_json(std::string_view prompt);

}  // namespace specbound::server
