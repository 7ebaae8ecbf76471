#include "server/call_grammar.h"

#include <string>
#include <utility>

#include "error.h"
#include "json/json_writer.h"
#include "server/api_error.h"

namespace specbound::server {

std::vector<std::vector<GrammarPart>> call_alternatives(const ReplyFormat& format,
                                                        const ToolRequest& request) {
  using Part = GrammarPart;
  const std::string open(format.call_open), close(format.call_close);
  std::vector<std::vector<GrammarPart>> out;
  for (const Tool& tool : request.tools) {
    const bool chosen =
        request.choice.kind != ToolChoice::Kind::kNamed || tool.name == request.choice.name;
    if (!chosen) continue;
    const std::string name = dump(Json(tool.name));
    std::string before, after;
    switch (format.syntax) {
      case CallSyntax::kHermes:
        before = open + "\n{\"name\": " + name + ", \"arguments\": ";
        after = "}\n" + close;
        break;
      case CallSyntax::kMistral:
        before = open + "[{\"name\": " + name + ", \"arguments\": ";
        after = "}]";
        break;
      case CallSyntax::kMistralNamed:
        before = open + tool.name + std::string(kMistralArguments);
        break;
      case CallSyntax::kDeepSeek:
        before = open + std::string(kDeepSeekCall) + tool.name + std::string(kDeepSeekSeparator);
        after = std::string(kDeepSeekCallEnd) + close;
        break;
      case CallSyntax::kDeepSeekFenced:
        before = open + std::string(kDeepSeekCall) + "function" + std::string(kDeepSeekSeparator) +
                 tool.name + "\n```json\n";
        after = "\n```" + std::string(kDeepSeekCallEnd) + close;
        break;
      case CallSyntax::kJson:
        before = "{\"name\": " + name + ", \"parameters\": ";
        after = "}";
        break;
      case CallSyntax::kXml:
        return {};  // its values stand outside of JSON
    }
    out.push_back(
        {{Part::Kind::kLiteral, std::move(before)}, {Part::Kind::kSchema, tool.parameters}});
    if (!after.empty()) out.back().push_back({Part::Kind::kLiteral, std::move(after)});
  }
  return out;
}

void hold_to_a_call(const ReplyFormat& format, bool thinks, CompletionRequest& request) {
  using Kind = ToolChoice::Kind;
  const ToolRequest& tools = request.conversation.tools;
  if (tools.choice.kind != Kind::kRequired && tools.choice.kind != Kind::kNamed) return;
  const char* const field = "tool_choice";
  if (request.settings.grammar) {
    throw ApiError(400, "tool_choice: a format is asked for too: give one of them", field);
  }
  if (request.settings.ignore_eos) {
    throw ApiError(400, "ignore_eos: expected false where a reply is a call, which ends it",
                   "ignore_eos");
  }
  std::vector<std::vector<GrammarPart>> calls = call_alternatives(format, tools);
  if (calls.empty()) {
    throw ApiError(400,
                   "tool_choice: the arguments that this model's template writes are no JSON, to "
                   "which a reply could be held; auto and none can be had",
                   field, "unsupported_value");
  }
  for (std::vector<GrammarPart>& call : calls) {
    if (!thinks) break;
    const std::string close(format.think_close);
    call.insert(call.begin(), {GrammarPart::Kind::kLiteral, close + "\n\n"});
  }
  try {
    request.settings.grammar = Grammar::choice_of(calls);
  } catch (const Error& e) {
    const bool unsupported = e.code() == ErrorCode::kUnsupported;
    throw ApiError(400, std::string("tools: ") + e.what(), "tools",
                   unsupported ? "unsupported_value" : "");
  }
}

}  // namespace specbound::server
