#include "templates/reply_format.h"

#include <algorithm>
#include <iterator>

namespace specbound {

namespace {

struct Each {
  std::string_view open, close, separator;
};

// The first row whose texts both stand in the template holds.
struct Row {
  std::string_view sign, other;
  CallSyntax syntax;
  std::string_view open, close;
  Each each = {};
};
constexpr Each kDeepSeek = {"<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"};
constexpr Each kKimi = {"<|tool_call_begin|>", "<|tool_call_end|>", "<|tool_call_argument_begin|>"};
constexpr std::string_view kKimiBegin = "<|tool_calls_section_begin|>",
                           kKimiEnd = "<|tool_calls_section_end|>";
constexpr std::string_view kDeepSeekBegin = "<｜tool▁calls▁begin｜>",
                           kDeepSeekEnd = "<｜tool▁calls▁end｜>";
// Command R+'s, which other versions of it write.
constexpr std::string_view kActionLine = "Action:\n```json";
constexpr Row kCalls[] = {
    {kDeepSeekBegin, "```json", CallSyntax::kDeepSeekFenced, kDeepSeekBegin, kDeepSeekEnd,
     kDeepSeek},
    {kDeepSeekBegin, "", CallSyntax::kDeepSeek, kDeepSeekBegin, kDeepSeekEnd, kDeepSeek},
    {kKimiBegin, "", CallSyntax::kKimi, kKimiBegin, kKimiEnd, kKimi},
    {"<|START_ACTION|>", "", CallSyntax::kCohere, "<|START_ACTION|>", "<|END_ACTION|>"},
    {"Action:", "\"tool_name\"", CallSyntax::kAction, "Action: ```json", ""},
    {"<|channel|>commentary", "<|call|>", CallSyntax::kHarmony, "", ""},
    {"[TOOL_CALLS]", kMistralArguments, CallSyntax::kMistralNamed, "[TOOL_CALLS]", ""},
    {"[TOOL_CALLS]", "", CallSyntax::kMistral, "[TOOL_CALLS]", ""},
    {"<seed:tool_call>", "", CallSyntax::kXml, "<seed:tool_call>", "</seed:tool_call>"},
    {"<tool_call>", "<parameter=", CallSyntax::kXml, "<tool_call>", "</tool_call>"},
    {"<tool_call>", "<arg_key>", CallSyntax::kGlm, "<tool_call>", "</tool_call>"},
    {"<tool_call>", "", CallSyntax::kHermes, "<tool_call>", "</tool_call>"},
    {"<|tool_call|>", "", CallSyntax::kJson, "<|tool_call|>", ""},
    {"<|python_tag|>", "", CallSyntax::kJson, "<|python_tag|>", ""},
    {"", "", CallSyntax::kJson, "", ""},
};

struct Thoughts {
  std::string_view open, close;
};
constexpr Thoughts kThoughts[] = {
    {"<think>", "</think>"},
    {"[THINK]", "[/THINK]"},
    {"<seed:think>", "</seed:think>"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
};

}  // namespace

std::vector<std::string_view> ReplyFormat::call_opens() const {
  if (call_open.empty()) return {};
  if (syntax == CallSyntax::kAction) return {call_open, kActionLine};
  return {call_open};
}

std::vector<std::string_view> ReplyFormat::call_marks() const {
  std::vector<std::string_view> marks = {call_open, call_close, each_open, each_close, separator};
  if (syntax == CallSyntax::kGlm) marks.insert(marks.end(), kGlmTags.begin(), kGlmTags.end());
  if (is_mistral(syntax)) {
    marks.insert(marks.end(), {kMistralArguments, kMistralId});
  }
  if (syntax == CallSyntax::kHarmony) {
    using namespace harmony;
    marks.insert(marks.end(), {kStart, kChannel, kConstrain, kMessage, kEnd, kCall, kReturn});
  }
  std::erase(marks, std::string_view());
  return marks;
}

std::vector<std::string_view> ReplyFormat::think_marks() const {
  if (think_open.empty()) return {};
  return {think_open, think_close};
}

ReplyFormat find_reply_format(std::string_view jinja) {
  const auto stands = [&](std::string_view text) { return jinja.find(text) != jinja.npos; };
  const Row& row = *std::find_if(std::begin(kCalls), std::end(kCalls), [&](const Row& each) {
    return stands(each.sign) && stands(each.other);
  });
  ReplyFormat format{.syntax = row.syntax,
                     .call_open = row.open,
                     .call_close = row.close,
                     .each_open = row.each.open,
                     .each_close = row.each.close,
                     .separator = row.each.separator};
  for (const Thoughts& marks : kThoughts) {
    if (!stands(marks.open) && !stands(marks.close)) continue;
    format.think_open = marks.open;
    format.think_close = marks.close;
    break;
  }
  return format;
}

}  // namespace specbound
