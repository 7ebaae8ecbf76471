#include "server/call_grammar.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "error.h"
#include "json/json_writer.h"
#include "server/api_error.h"
#include "server/call_heads.h"
#include "server/reply_parser.h"
#include "server/tagged_call_grammar.h"

namespace specbound::server {

namespace {

using Part = GrammarPart;

void append(Parts& parts, Parts more) {
  std::ranges::move(more, std::back_inserter(parts));
}

// Where a message in a channel begins, behind another one.
std::string next_message() {
  return std::string(harmony::kStart) + "assistant";
}

std::string message_begin(const char* channel, const std::string& more = "") {
  return std::string(harmony::kChannel) + channel + more + std::string(harmony::kMessage);
}

// What stands around calls.
struct Frame {
  std::string open;                  // begins with the format's call_open
  std::vector<std::string> between;  // one of these between two calls; none: there is one alone
  std::string close;
};

Frame frame_of(const ReplyFormat& format) {
  const std::string open(format.call_open), close(format.call_close);
  switch (format.syntax) {
    case CallSyntax::kMistral:
      return {open + "[", {", "}, "]"};
    case CallSyntax::kMistralNamed:
      return {open, {open}, ""};
    case CallSyntax::kCohere:
      return {open + "[\n    ", {",\n    "}, "\n]" + close};
    case CallSyntax::kAction:
      return {open + "\n[\n    ", {",\n    "}, "\n]\n" + std::string(kFence)};
    case CallSyntax::kJson:
      return {"", {"; "}, ""};
    case CallSyntax::kHarmony:  // a call ends the reply
      return {};
    case CallSyntax::kDeepSeek:
    case CallSyntax::kDeepSeekFenced:
    case CallSyntax::kKimi:
      return {open, {"", "\n"}, close};
    default:
      return {open, {close + "\n" + open, close + open}, close};
  }
}

// A call of `tool` between those. `schema`: of its arguments.
Parts call_of(const ReplyFormat& format, const Tool& tool, const std::string& schema) {
  const std::string name = dump(Json(tool.name));
  const std::string each(format.each_open), separator(format.separator);
  const Part arguments = Part::schema(schema);
  const auto around = [&](std::string before, std::string after) -> Parts {
    Parts parts = {Part::literal(std::move(before)), arguments};
    if (!after.empty()) parts.push_back(Part::literal(std::move(after)));
    return parts;
  };
  switch (format.syntax) {
    case CallSyntax::kHermes:
      return around("\n{\"name\": " + name + ", \"arguments\": ", "}\n");
    case CallSyntax::kMistral:
      return around("{\"name\": " + name + ", \"arguments\": ", "}");
    case CallSyntax::kMistralNamed:
      return around(tool.name + std::string(kMistralArguments), "");
    case CallSyntax::kDeepSeek:
      return around(each + tool.name + separator, std::string(format.each_close));
    case CallSyntax::kDeepSeekFenced:
      return around(each + "function" + separator + tool.name + "\n```json\n",
                    "\n```" + std::string(format.each_close));
    case CallSyntax::kKimi: {
      Parts parts = {Part::literal(each + std::string(kFunctions) + tool.name + ":"),
                     Part::schema(R"({"type": "integer", "minimum": 0, "maximum": 999})")};
      append(parts, around(separator, std::string(format.each_close)));
      return parts;
    }
    case CallSyntax::kCohere: {
      Parts parts = {Part::literal("{\"tool_call_id\": \""),
                     Part::schema(R"({"type": "integer", "minimum": 0, "maximum": 999})")};
      append(parts, around("\", \"tool_name\": " + name + ", \"parameters\": ", "}"));
      return parts;
    }
    case CallSyntax::kAction:
      return around("{\n        \"tool_name\": " + name + ",\n        \"parameters\": ", "\n    }");
    case CallSyntax::kJson:
      return around("{\"name\": " + name + ", \"parameters\": ", "}");
    case CallSyntax::kXml:
    case CallSyntax::kGlm:
      return {tagged_call(format.syntax, tool, schema)};
    case CallSyntax::kHarmony:
      break;
  }
  return around(message_begin("commentary", " to=" + std::string(kFunctions) + tool.name + " " +
                                                std::string(harmony::kConstrain) + "json"),
                "");
}

// Of all tools, those that are not strict with any arguments.
std::vector<Parts> strict_calls(const ReplyFormat& format, const std::vector<Tool>& tools) {
  std::vector<Parts> calls;
  for (const Tool& tool : tools) {
    calls.push_back(call_of(format, tool, tool.strict ? tool.parameters : kAnyArguments));
  }
  return calls;
}

// One call or, where the request takes them, several, up to what closes them all.
Parts calls_within(const Frame& frame, const ReplyFormat& format, const ToolRequest& request) {
  const std::vector<Parts> one = strict_calls(format, request.tools);
  Parts calls = {Part::one_of(one)};
  if (request.parallel && !frame.between.empty()) {
    std::vector<Parts> between;
    for (const std::string& text : frame.between) between.push_back({Part::literal(text)});
    calls.push_back(Part::several({{Part::one_of(std::move(between)), Part::one_of(one)}},
                                  static_cast<int>(ReplyParser::kMaxCalls) - 1));
  }
  if (format.syntax == CallSyntax::kHarmony) return calls;  // in one message
  calls.push_back(Part::literal(frame.close));
  if (request.parallel) calls.push_back(Part::one_of({{}, {Part::literal("\n")}}));
  return calls;
}

// What a format allows, or calls.
std::vector<Parts> json_or_calls(const ReplyFormat& format, const CompletionRequest& request) {
  const Frame frame = frame_of(format);
  Parts calls = {Part::literal(frame.open)};
  append(calls, calls_within(frame, format, request.conversation.tools));
  return {{Part::schema(request.format.text)}, std::move(calls)};
}

Part blanks() {
  return Part::several(
      {{Part::literal(" ")}, {Part::literal("\n")}, {Part::literal("\t")}, {Part::literal("\r")}});
}

// Text of a reply whose calls have no mark, for which it begins with neither `{` nor `mark`.
std::vector<Parts> text_without(const std::string& mark) {
  std::vector<Parts> texts;
  for (size_t n = 0; n < std::max(mark.size(), size_t{1}); ++n) {
    const std::string others = (n == 0 ? "{ \n\t\r" : "") + mark.substr(n, 1);
    Part rest = Part::one_of({{}, {Part::none_of(others), Part::anything()}});
    texts.push_back({blanks(), Part::literal(mark.substr(0, n)), std::move(rest)});
  }
  return texts;
}

// What thoughts begin and end with, for replies that may have some. `marked`: text that would be
// thoughts without others in front of it; empty: there is none.
std::vector<Parts> behind_thoughts(const ReplyFormat& format, bool thinks, Parts reply,
                                   Parts marked) {
  const std::string open(format.think_open), close(format.think_close);
  Parts begin;
  if (!thinks) begin = {blanks(), Part::literal(open)};
  Parts unended = begin;  // thoughts alone
  unended.push_back(Part::without(close));
  begin.push_back(Part::until(close));
  Parts again = begin;
  Parts whole = thinks ? std::move(begin) : Parts{Part::one_of({{}, std::move(begin)})};
  append(whole, std::move(reply));
  std::vector<Parts> all = {std::move(whole), std::move(unended)};
  if (!marked.empty()) {
    append(again, std::move(marked));
    all.push_back(std::move(again));
  }
  return all;
}

// Messages in channels, the last of which may be those calls.
std::vector<Parts> messages_or(Parts calls, bool goes_on) {
  const std::string end(harmony::kEnd);
  const auto message = [&](Part body) -> Parts {
    return {Part::one_of({{Part::literal(message_begin("analysis"))},
                          {Part::literal(message_begin("commentary"))},
                          {Part::literal(message_begin("final"))}}),
            std::move(body)};
  };
  Parts whole = message(Part::until(end));
  whole.push_back(Part::literal(next_message()));
  Parts rest = {Part::several({std::move(whole)}),
                Part::one_of({message(Part::without(end)), std::move(calls)})};
  if (!goes_on) return {std::move(rest)};
  Parts behind = {Part::until(end), Part::literal(next_message())};
  append(behind, std::move(rest));
  return {{Part::without(end)}, std::move(behind)};
}

}  // namespace

std::vector<Parts> call_alternatives(const ReplyFormat& format, const ToolRequest& request) {
  const Frame frame = frame_of(format);
  std::vector<Parts> out;
  for (const Tool& tool : request.tools) {
    const bool named = request.choice.kind == ToolChoice::Kind::kNamed;
    if (named && tool.name != request.choice.name) continue;
    Parts& call = out.emplace_back();
    if (!frame.open.empty()) call.push_back(Part::literal(frame.open));
    append(call, call_of(format, tool, tool.parameters));
    if (!frame.close.empty()) call.push_back(Part::literal(frame.close));
  }
  return out;
}

std::vector<Parts> text_or_calls(const ReplyFormat& format, const ToolRequest& request,
                                 bool splits_thoughts, bool thinks, bool goes_on) {
  const Frame frame = frame_of(format);
  Parts calls = calls_within(frame, format, request);
  if (format.syntax == CallSyntax::kHarmony) return messages_or(std::move(calls), goes_on);
  std::vector<Parts> reply;
  Parts marked;
  if (format.call_open.empty() || format.syntax == CallSyntax::kJson) {
    Parts call = {blanks()};
    append(call, std::move(calls));
    const std::string mark(format.think_open);
    reply = text_without(mark);
    reply.push_back(std::move(call));
    if (!mark.empty()) marked = {blanks(), Part::literal(mark), Part::anything()};
  } else {
    const std::vector<std::string_view> opens = format.call_opens();
    const std::vector<std::string> marks(opens.begin(), opens.end());
    Parts call = {Part::until_any(marks),
                  Part::literal(frame.open.substr(format.call_open.size()))};
    append(call, std::move(calls));
    reply = {{Part::without_any(marks)}, std::move(call)};
  }
  if (!splits_thoughts || format.think_open.empty()) {
    if (!marked.empty()) reply.push_back(std::move(marked));
    return reply;
  }
  return behind_thoughts(format, thinks, {Part::one_of(std::move(reply))}, std::move(marked));
}

std::vector<std::string_view> shown_marks(const ReplyFormat& format,
                                          const CompletionRequest& request) {
  std::vector<std::string_view> marks;
  if (!request.chat) return marks;
  // Text too has marks around it there.
  if (format.syntax == CallSyntax::kHarmony) return format.call_marks();
  if (request.settings.split_thoughts) marks = format.think_marks();
  if (!request.conversation.tools.tools.empty()) {
    std::ranges::copy(format.call_marks(), std::back_inserter(marks));
  }
  return marks;
}

std::optional<HeldCalls> held_calls(const ReplyFormat& format, bool thinks,
                                    const CompletionRequest& request) {
  const ToolRequest& tools = request.conversation.tools;
  const bool json = !request.format.field.empty() && !request.format.gbnf;
  const bool either = json && !tools.tools.empty() && !tools.must();
  if (!tools.held() && !either) return {};
  const std::string field = tools.must() ? "tool_choice" : "tools";
  // Every text is a message in a channel there, of which a format says nothing.
  const bool channels = format.syntax == CallSyntax::kHarmony;
  if (request.settings.grammar && (!either || channels)) {
    throw ApiError(400,
                   field + ": a format is asked for too: give one of them" +
                       (tools.must() || channels ? "" : ", or tools that are not strict"),
                   field);
  }
  if (request.settings.ignore_eos) {
    throw ApiError(400, "ignore_eos: expected false where calls are held to schemas", "ignore_eos");
  }
  HeldCalls held;
  const std::vector<std::string_view> marks = shown_marks(format, request);
  held.shown.assign(marks.begin(), marks.end());
  const bool goes_on = request.conversation.goes_on();
  try {
    if (either) {
      held.alternatives = json_or_calls(format, request);
      return held;
    }
    if (!tools.must()) {
      held.alternatives =
          text_or_calls(format, tools, request.settings.split_thoughts, thinks, goes_on);
      return held;
    }
    held.alternatives = call_alternatives(format, tools);
  } catch (const Error& e) {
    throw format_error("tools", e);
  }
  for (Parts& call : held.alternatives) {
    if (goes_on && format.syntax == CallSyntax::kHarmony) {
      call.insert(call.begin(), Part::literal(std::string(harmony::kEnd) + next_message()));
    }
    if (thinks) call.insert(call.begin(), Part::literal(std::string(format.think_close) + "\n\n"));
  }
  return held;
}

Grammar::Shared compiled(const HeldCalls& calls) {
  try {
    return Grammar::choice_of(calls.alternatives, calls.shown);
  } catch (const Error& e) {
    throw format_error("tools", e);
  }
}

}  // namespace specbound::server
