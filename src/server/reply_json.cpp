#include "server/reply_json.h"

#include <nlohmann/json.hpp>

#include "error.h"
#include "json/json_writer.h"
#include "text/utf8.h"

namespace specbound::server {

namespace {

using Ordered = nlohmann::ordered_json;

// Of `n` that took `seconds`: milliseconds of each, and how many a second. Null for none.
Ordered each_ms(double seconds, int n) {
  return n > 0 ? Ordered(1e3 * seconds / n) : Ordered();
}
Ordered per_second(double seconds, int n) {
  return n > 0 ? Ordered(n / seconds) : Ordered();
}

const char* finish_reason(const ReplyPart& reply) {
  const StopReason stop = reply.figures->generated.stop;
  if (stop != StopReason::kEnd && stop != StopReason::kStopString) return "length";
  return reply.called ? "tool_calls" : "stop";
}

Ordered call_json(const ReplyCall& call) {
  return {{"id", call.id},
          {"type", "function"},
          {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
}

Ordered message_json(const ReplyPart& reply) {
  const bool silent = reply.text.empty() && !reply.calls.empty();
  Ordered message = {{"role", "assistant"}, {"content", silent ? Ordered() : Ordered(reply.text)}};
  if (!reply.thoughts.empty()) message["reasoning_content"] = reply.thoughts;
  for (const ReplyCall& call : reply.calls) message["tool_calls"].push_back(call_json(call));
  return message;
}

Ordered usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

Ordered speculation(const ReplyStats& figures) {
  const Counters& counters = figures.generated.counters;
  return {{"active", figures.generated.speculated},
          {"rounds", counters.rounds},
          {"rounds_side_by_side", figures.generated.side_by_side},
          {"compression_rate", or_null(figures.compression_rate())},
          {"mean_exit_layer", or_null(figures.mean_exit_layer())},
          {"plain_tokens_per_second", or_null(figures.plain_tokens_per_second())},
          {"speedup", or_null(figures.speedup())},
          {"accepted_by_exit_layer", accepted_by_layer(counters)}};
}

Ordered timings(const ReplyStats& figures) {
  const GenerateStats& stats = figures.generated;
  const int cached = cached_tokens(stats), read = stats.prompt_tokens - cached;
  // Where nothing but the last token was left to read, no time was taken for prompts.
  const int timed = stats.prefilled_tokens > 0 ? read : 0;
  return {{"cache_n", cached},
          {"prompt_n", read},
          {"prompt_ms", 1e3 * stats.prefill_seconds},
          {"prompt_per_token_ms", each_ms(stats.prefill_seconds, timed)},
          {"prompt_per_second", per_second(stats.prefill_seconds, timed)},
          {"predicted_n", stats.generated_tokens},
          {"predicted_ms", 1e3 * stats.decode_seconds},
          {"predicted_per_token_ms", each_ms(stats.decode_seconds, stats.generated_tokens)},
          {"predicted_per_second", per_second(stats.decode_seconds, stats.generated_tokens)},
          {"draft_n", stats.counters.drafted_tokens},
          {"draft_n_accepted", stats.counters.accepted_tokens},
          {"speculation", speculation(figures)}};
}

Ordered headed(const ReplyHead& head, bool part) {
  const char* object = !head.chat ? "text_completion"
                       : part     ? "chat.completion.chunk"
                                  : "chat.completion";
  return {{"id", head.id}, {"object", object}, {"created", head.created}, {"model", head.model}};
}

std::string event(const Ordered& json) {
  return "data: " + dump(json) + "\n\n";
}

Ordered logprobs_of(const ReplyHead& head, std::span<const TokenLogprobs> tokens) {
  if (!head.logprobs) return nullptr;
  return head.chat ? chat_logprobs(tokens) : completion_logprobs(tokens);
}

// Of one choice, to which the text of `part` is added.
Ordered chunk(const ReplyHead& head, const ReplyPart& part, Ordered delta, Ordered logprobs,
              Ordered reason) {
  Ordered choice = {{"index", part.index}};
  if (head.chat) {
    choice["delta"] = std::move(delta);
  } else {
    choice["text"] = part.text;
  }
  choice["logprobs"] = std::move(logprobs);
  choice["finish_reason"] = std::move(reason);
  if (head.exits && !part.text.empty()) {
    choice["exit_layer"] = part.exit_layer == kNoDraft ? Ordered() : Ordered(part.exit_layer);
  }
  Ordered json = headed(head, true);
  json["choices"] = Ordered::array({std::move(choice)});
  return json;
}

Ordered model_object(const ModelInfo& info) {
  return {{"id", info.id},
          {"object", "model"},
          {"created", info.created},
          {"owned_by", "specbound"},
          {"meta",
           {{"n_ctx", info.n_ctx},
            {"n_vocab", info.n_vocab},
            {"n_layers", info.n_layers},
            {"architecture", info.architecture}}}};
}

const char* error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 429:
      return "rate_limit_error";
    case 500:
      return "server_error";
    case 503:
      return "unavailable_error";
    default:
      return "invalid_request_error";
  }
}

Ordered error_object(const ApiError& error) {
  return {{"error",
           {{"message", error.what()},
            {"type", error_type(error.status())},
            {"param", or_null(error.param())},
            {"code", or_null(error.code())}}}};
}

}  // namespace

int cached_tokens(const GenerateStats& stats) {
  return std::max(stats.prompt_tokens - stats.prefilled_tokens - 1, 0);
}

void Usage::add(const GenerateStats& reply) {
  completion_tokens += reply.generated_tokens;
  if (replies++ > 0) return;
  prompt_tokens = reply.prompt_tokens;
  cached_tokens = specbound::server::cached_tokens(reply);
}

std::string reply_json(const ReplyHead& head, std::span<const ReplyPart> replies) {
  Ordered json = headed(head, false);
  Ordered& choices = json["choices"] = Ordered::array();
  Usage usage;
  for (const ReplyPart& reply : replies) {
    Ordered choice = {{"index", reply.index}};
    if (head.chat) {
      choice["message"] = message_json(reply);
    } else {
      choice["text"] = reply.text;
    }
    choice["logprobs"] = logprobs_of(head, reply.logprobs);
    choice["finish_reason"] = finish_reason(reply);
    if (replies.size() > 1) choice["timings"] = timings(*reply.figures);
    choices.push_back(std::move(choice));
    usage.add(reply.figures->generated);
  }
  json["usage"] = usage_json(usage);
  if (replies.size() == 1) json["timings"] = timings(*replies[0].figures);
  return dump(json);
}

std::string first_event(const ReplyHead& head, int index) {
  if (!head.chat) return "";
  return event(
      chunk(head, {.index = index}, {{"role", "assistant"}, {"content", ""}}, nullptr, nullptr));
}

std::string text_event(const ReplyHead& head, const ReplyPart& part) {
  Ordered delta = Ordered::object();
  if (!part.thoughts.empty()) delta["reasoning_content"] = part.thoughts;
  if (!part.text.empty() || part.thoughts.empty()) delta["content"] = part.text;
  return event(chunk(head, part, std::move(delta), logprobs_of(head, part.logprobs), nullptr));
}

std::string call_events(const ReplyHead& head, const ReplyPart& part) {
  std::string events;
  const auto send = [&](Ordered call) {
    Ordered delta = {{"tool_calls", Ordered::array({std::move(call)})}};
    events += event(chunk(head, {.index = part.index}, std::move(delta), nullptr, nullptr));
  };
  for (const ReplyCall& call : part.calls) {
    if (call.goes_on) {
      send({{"index", call.index}, {"function", {{"arguments", call.arguments}}}});
      continue;
    }
    Ordered begun = {{"index", call.index}};
    begun.update(call_json({call.index, call.id, call.name, ""}));
    send(std::move(begun));
    send({{"index", call.index}, {"function", {{"arguments", call.arguments}}}});
  }
  return events;
}

std::string last_event(const ReplyHead& head, const ReplyPart& part) {
  const ReplyStats& figures = *part.figures;
  Ordered json =
      chunk(head, {.index = part.index}, Ordered::object(), nullptr, finish_reason(part));
  json["timings"] = timings(figures);
  return event(json);
}

std::string usage_event(const ReplyHead& head, const Usage& usage) {
  Ordered json = headed(head, true);
  json["choices"] = Ordered::array();
  json["usage"] = usage_json(usage);
  return event(json);
}

std::string error_event(const ApiError& error) {
  return event(error_object(error));
}

std::string model_json(const ModelInfo& info) {
  return dump(model_object(info));
}

std::string models_json(const ModelInfo& info) {
  return dump(Ordered{{"object", "list"}, {"data", Ordered::array({model_object(info)})}});
}

std::string error_json(const ApiError& error) {
  return dump(error_object(error));
}

std::string tokens_json(std::span<const int32_t> ids, const PieceOf& piece) {
  std::string json = R"({"tokens":[)";  // bit by bit: as one value they take many times their text
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) json += ',';
    if (!piece) {
      json += std::to_string(ids[i]);
      continue;
    }
    // As llama.cpp has it: bytes that are no text by themselves come as numbers.
    const std::string bytes = piece(ids[i]);
    Ordered shown = bytes;
    if (!is_utf8(bytes)) {
      shown = Ordered::array();
      for (const unsigned char byte : bytes) shown.push_back(byte);
    }
    json += dump(Ordered{{"id", ids[i]}, {"piece", std::move(shown)}});
  }
  json += "]}";
  return json;
}

std::string content_json(std::string_view content) {
  return dump(Ordered{{"content", shown_utf8(content)}});  // dump() alone would have another way
}

std::string prompt_json(std::string_view prompt) {
  return dump(Ordered{{"prompt", shown_utf8(prompt)}});
}

}  // namespace specbound::server
