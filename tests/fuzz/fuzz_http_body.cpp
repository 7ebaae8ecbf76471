// Any bytes as the body of a POST: an answer or an error that names what is wrong, and what was
// understood can be answered. The first byte of an input says which route it is for. Nothing but
// the models of the server is left out: what a body becomes on its way to one, and what becomes of
// a reply on its way back.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "error.h"
#include "server/api_error.h"
#include "server/completion_request.h"
#include "server/embedding_request.h"
#include "server/json_body.h"
#include "server/reply_json.h"
#include "text/utf8.h"

namespace {

using namespace specbound;
using namespace specbound::server;

constexpr int kVocab = 512;

// One line of valid JSON and UTF-8, as every answer must be.
Json checked(const std::string& answer) {
  SB_CHECK(is_utf8(answer) && answer.find('\n') == answer.npos);
  return Json::parse(answer);
}

Json checked_event(const std::string& event) {
  constexpr std::string_view kData = "data: ";
  SB_CHECK(event.starts_with(kData) && event.ends_with("\n\n"));
  return checked(event.substr(kData.size(), event.size() - kData.size() - 2));
}

void check_error(const ApiError& error) {
  SB_CHECK(error.status() == 400);
  const Json answer = checked(error_json(error));
  SB_CHECK(!answer["error"]["message"].get<std::string>().empty());
  checked_event(error_event(error));
}

// What the engine relies on.
void check_settings(const ReplySettings& settings) {
  validate(settings.sampling);  // NaN passes no range
  SB_CHECK(settings.sampling.logit_bias.size() <= kMaxLogitBias);
  for (const LogitBias& entry : settings.sampling.logit_bias) SB_CHECK(entry.id < kVocab);
  SB_CHECK(settings.max_tokens >= -1);
  SB_CHECK(settings.stop.strings().size() <= StopStrings::kMaxStrings);
}

void check_tokens(const std::vector<int32_t>& tokens) {
  for (const int32_t id : tokens) SB_CHECK(id >= 0 && id < kVocab);
}

// As an answer to it would be: `text` may be any bytes when whole, and pieces of it when streamed.
void render(const CompletionRequest& request, const std::string& text) {
  ReplyHead head;
  head.chat = request.chat;
  head.id = "id";
  head.model = request.model;
  ReplyStats figures;
  figures.generated.generated_tokens = static_cast<int>(text.size());
  figures.generated.counters.accepted_at = {0, 3};
  head.logprobs = request.logprobs.has_value();
  const TokenLogprobs told{{text, -1}, {{text, -1}, {text.substr(0, 1), -2}}, text.size()};
  std::vector<ReplyPart> replies;
  for (int i = 0; i < request.n; ++i) replies.push_back({i, text, {told}, figures});
  const Json whole = checked(reply_json(head, replies));
  SB_CHECK(whole["model"] == request.model);
  Utf8Stream stream;
  std::string sent;
  const auto send = [&](const std::string& piece) {
    const Json choice = checked_event(text_event(head, {0, piece, {told}, {}}))["choices"][0];
    sent += request.chat ? choice["delta"]["content"].get<std::string>()
                         : choice["text"].get<std::string>();
  };
  for (size_t at = 0; at < text.size(); at += 3) send(stream.push(text.substr(at, 3)));
  send(stream.finish());
  Utf8Stream at_once;
  std::string expected = at_once.push(text);
  expected += at_once.finish();
  SB_CHECK(sent == expected);
  if (request.chat) checked_event(first_event(head, request.n - 1));
  checked_event(last_event(head, replies.back()));
  Usage usage;
  for (const ReplyPart& reply : replies) usage.add(reply.figures->generated);
  if (request.include_usage) checked_event(usage_event(head, usage));
}

void fuzz_chat(std::string_view body) {
  const CompletionRequest request = parse_chat(body, {}, kVocab);
  compiled(request.format);
  check_settings(request.settings);
  const Chat& talk = request.conversation;
  SB_CHECK(!talk.messages.empty());
  SB_CHECK(!talk.continues || talk.messages.back().role == ChatMessage::Role::kAssistant);
  for (const ChatMessage& message : talk.messages) {
    SB_CHECK(is_utf8(message.content));
    for (const ToolCall& call : message.calls) {
      SB_CHECK(call.values.is_null() || Json::parse(call.arguments).is_object());
    }
  }
  SB_CHECK(talk.tools.tools.size() == talk.tools.as_given.size());
  for (const Tool& tool : talk.tools.tools) SB_CHECK(Json::parse(tool.parameters).is_object());
  render(request, talk.messages.back().content);
}

void fuzz_completion(std::string_view body) {
  const CompletionRequest request = parse_completion(body, {}, kVocab);
  compiled(request.format);
  check_settings(request.settings);
  check_tokens(request.tokens);
  SB_CHECK(request.text.empty() || request.tokens.empty());
  SB_CHECK(is_utf8(request.text));
  render(request, request.text);
}

void fuzz_embeddings(std::string_view body) {
  const EmbeddingRequest request = parse_embeddings(body, kVocab, 3);
  SB_CHECK(!request.inputs.empty() && request.inputs.size() <= kMaxInputs);
  std::vector<std::vector<float>> embeddings;
  for (const EmbeddingRequest::Input& input : request.inputs) {
    check_tokens(input.tokens);
    SB_CHECK(input.text.empty() || input.tokens.empty());
    SB_CHECK(is_utf8(input.text));
    embeddings.push_back({1, -0.5f, static_cast<float>(input.text.size())});
  }
  const Json answer =
      checked(embeddings_json(request.model, embeddings, request.base64, body.size()));
  SB_CHECK(answer["data"].size() == request.inputs.size());
}

void fuzz_tokenize(std::string_view body) {
  const TokenizeRequest request = parse_tokenize(body);
  SB_CHECK(is_utf8(request.content));
  std::vector<int32_t> ids;
  for (size_t at = 0; at < request.content.size(); at += 2) {
    ids.push_back(static_cast<int32_t>(at));
  }
  PieceOf piece;  // cut anywhere, as tokens of bytes are
  if (request.with_pieces) {
    piece = [&](int32_t at) { return request.content.substr(static_cast<size_t>(at), 2); };
  }
  SB_CHECK(checked(tokens_json(ids, piece))["tokens"].size() == ids.size());
}

void fuzz_detokenize(std::string_view body) {
  const std::vector<int32_t> ids = parse_detokenize(body, kVocab);
  check_tokens(ids);
  std::string bytes;
  for (const int32_t id : ids) bytes += static_cast<char>(id);
  checked(content_json(bytes));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  constexpr void (*kRoutes[])(std::string_view) = {fuzz_chat, fuzz_completion, fuzz_tokenize,
                                                   fuzz_detokenize, fuzz_embeddings};
  try {
    kRoutes[static_cast<uint8_t>(data[0] - '0') % 5](body);
  } catch (const ApiError& e) {
    check_error(e);
  }
  checked(content_json(body));  // bytes of a reply need be no text
  return 0;
}
